/* What a program printed and said, into the run's history: in order, stored once. */
#include "base/encode.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/event.h"
#include "server/lease.h"
#include "server/worker_plane.h"
#include "store/queries.h"

/* Ends of both streams of this delivery, as far as they are stored. */
struct ends {
    int64_t out, err;
};

static bool find_end(struct call *call, struct tx *tx, const struct lease_row *lease,
                     const char *stream, int64_t *end, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &log_position, call->arena, &rows, err, V_TEXT(lease->subject_id),
               V_INT(lease->sequence), V_TEXT(stream)))
        return false;
    *end = row_int(&rows, 0, LOG_POSITION_END);
    return true;
}

/* What is said again must be what was said before. Chunks of this same call are not looked at:
 * they are not stored yet. */
static bool is_repeated(struct call *call, struct tx *tx, const struct lease_row *lease,
                        const struct wire_log_chunk *chunk, struct str said, struct error *err)
{
    int64_t start = chunk->offset, end = start + (int64_t)said.len;
    struct rows rows;

    if (!STORE(tx, &log_overlap, call->arena, &rows, err, V_TEXT(lease->subject_id),
               V_INT(lease->sequence), V_STR(chunk->stream), V_INT(start), V_INT(end)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        int64_t at = row_int(&rows, i, LOG_OVERLAP_OFFSET_START);
        struct str stored = row_str(&rows, i, LOG_OVERLAP_BYTES);
        int64_t from = at > start ? at : start;
        int64_t to = at + (int64_t)stored.len < end ? at + (int64_t)stored.len : end;

        if (memcmp(stored.ptr + (from - at), said.ptr + (from - start), (size_t)(to - from)) != 0)
            return error_set(err, ERR_CONFLICT, "/chunks: other bytes are stored at offset %lld",
                             (long long)from);
    }
    return true;
}

/* What a chunk holds: base64 of its own, or the next raw bytes after the message. */
static bool chunk_bytes(struct call *call, const struct wire_log_chunk *chunk, struct str *tail,
                        struct str *said, struct error *err)
{
    if (!chunk->data.ptr) {
        if (chunk->len < 0 || (uint64_t)chunk->len > tail->len)
            return error_set(err, ERR_INVALID, "/chunks: len is more than the bytes that follow");
        *said = (struct str){tail->ptr, (size_t)chunk->len};
        *tail = (struct str){tail->ptr + chunk->len, tail->len - (size_t)chunk->len};
        return true;
    }
    size_t len = base64_decoded_max(chunk->data.len);
    char *raw = arena_alloc(call->arena, len + 1);

    if (!base64_decode(chunk->data, raw, &len))
        return error_set(err, ERR_INVALID, "/chunks: data is not base64");
    *said = (struct str){raw, len};
    return true;
}

/* The bytes of a chunk that are not stored yet; empty for a replay. */
static bool new_bytes(struct call *call, struct tx *tx, const struct lease_row *lease,
                      const struct wire_log_chunk *chunk, struct str said, int64_t end,
                      struct str *bytes, struct error *err)
{
    const char *raw = said.ptr;
    size_t len = said.len;

    if (chunk->offset < 0 || chunk->offset > end)
        return error_set(err, ERR_CONFLICT, "/chunks: bytes before offset %lld are missing",
                         (long long)chunk->offset);
    int64_t known = end - chunk->offset;
    if (known > (int64_t)len)
        known = (int64_t)len;
    *bytes = (struct str){raw + known, len - (size_t)known};
    return known == 0 || is_repeated(call, tx, lease, chunk, (struct str){raw, (size_t)known}, err);
}

static bool store_chunk(struct tx *tx, const struct lease_row *lease,
                        const struct wire_log_chunk *chunk, int64_t cursor, int64_t offset,
                        struct str bytes, struct error *err)
{
    return STORE(tx, &log_chunk_insert, NULL, NULL, err, V_TEXT(lease->subject_id), V_INT(cursor),
                 V_INT(lease->attempt), V_INT(lease->sequence), V_STR(chunk->stream), V_INT(offset),
                 V_BYTES(bytes), V_INT(bytes.len), V_INT(chunk->observed_ms));
}

static bool notify(struct tx *tx, const struct lease_row *lease, const char *kind, int64_t bytes,
                   int64_t cursor, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 256};
    struct json_writer json = json_begin(&text);

    if (bytes == 0)
        return true;
    json_open(&json, NULL);
    json_int(&json, "bytes", bytes);
    json_int(&json, "observed_seq", cursor);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = kind,
                                .category = "log",
                                .source = "guest",
                                .attempt = lease->attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(tx, lease->subject_id, &event, err);
}

/* The message ends at the first newline, which JSON as we write it has none of; raw bytes follow.
 */
static bool read_logs(struct call *call, struct wire_logs *logs, struct str *tail,
                      struct error *err)
{
    struct str head;

    *tail = call->request->body;
    if (!str_split(tail, '\n', &head))
        head = (struct str){0};
    return json_read(head, wire_logs_fields, logs, sizeof *logs, call->arena, err);
}

static bool store_all(struct call *call, struct tx *tx, const struct lease_row *lease,
                      const struct wire_logs *logs, struct str tail, struct ends *ends,
                      struct error *err)
{
    const struct wire_log_chunk *chunks = logs->chunks.items;
    struct ends before = *ends;
    struct str *bytes = arena_array(call->arena, logs->chunks.n + 1, sizeof *bytes);
    int64_t *offsets = arena_array(call->arena, logs->chunks.n + 1, sizeof *offsets), n = 0;
    struct rows rows;
    struct str said = {0};

    for (size_t i = 0; i < logs->chunks.n; i++) {
        bool is_out = str_equal(chunks[i].stream, STR("stdout"));
        int64_t *end = is_out ? &ends->out : &ends->err;

        if (!is_out && !str_equal(chunks[i].stream, STR("stderr")))
            return error_set(err, ERR_INVALID, "/chunks: stream must be stdout or stderr");
        if (!chunk_bytes(call, &chunks[i], &tail, &said, err) ||
            !new_bytes(call, tx, lease, &chunks[i], said, *end, &bytes[i], err))
            return false;
        offsets[i] = *end;
        *end += (int64_t)bytes[i].len;
        n += bytes[i].len > 0;
    }
    if (n == 0)
        return true;
    if (!STORE(tx, &run_log_advance, call->arena, &rows, err, V_TEXT(lease->subject_id), V_INT(n),
               V_INT(ends->out - before.out), V_INT(ends->err - before.err), V_INT(time_now_ms())))
        return false;
    int64_t last = row_int(&rows, 0, RUN_LOG_ADVANCE_LOG_CURSOR), cursor = last - n;
    for (size_t i = 0; i < logs->chunks.n; i++)
        if (bytes[i].len > 0 &&
            !store_chunk(tx, lease, &chunks[i], ++cursor, offsets[i], bytes[i], err))
            return false;
    return notify(tx, lease, "log.stdout", ends->out - before.out, last, err) &&
           notify(tx, lease, "log.stderr", ends->err - before.err, last, err);
}

bool lease_logs_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_logs logs;
    struct lease_row lease = {0};
    struct wakes wakes = {0};
    struct ends ends;
    struct str tail;
    AUTO_TX tx = NULL;

    if (!read_logs(call, &logs, &tail, err) || !store_begin(server->store, &tx, err) ||
        !lease_open(tx, call, &logs.fence, false, &lease, err) ||
        !lease_is_for(&lease, SUBJECT_RUN, err) ||
        !find_end(call, tx, &lease, "stdout", &ends.out, err) ||
        !find_end(call, tx, &lease, "stderr", &ends.err, err) ||
        !store_all(call, tx, &lease, &logs, tail, &ends, err))
        return false;
    wakes_add(&wakes, "run:", lease.subject_id);
    const struct wire_logs_answer answer = {ends.out, ends.err};
    return hub_commit(&server->hub, &tx, &wakes, err) &&
           worker_answer(res, wire_logs_answer_fields, &answer, err);
}

/* False in *fresh when the operation was recorded before. */
static bool is_new(struct call *call, struct tx *tx, const struct lease_row *lease,
                   const struct wire_event *event, bool *fresh, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &lease_operation_note, call->arena, &rows, err, V_TEXT(lease->id),
               V_STR(event->op), V_STR(event->kind), V_INT(time_now_ms())))
        return false;
    *fresh = rows.n_changed == 1;
    return true;
}

static const char *severity_of(struct str attributes, struct arena *arena)
{
    struct str level = STR("info");

    json_find_text(attributes, "level", arena, &level);
    return str_equal(level, STR("warn"))    ? "warn"
           : str_equal(level, STR("error")) ? "error"
           : str_equal(level, STR("debug")) ? "debug"
                                            : "info";
}

/* What a worker may say; the rest of a history is the server's own. */
static bool is_for_workers(enum lease_subject subject, struct str kind)
{
    static const struct {
        enum lease_subject subject;
        struct str kind;
    } kinds[] = {
        {SUBJECT_RUN,   STR("run.log")              },
        {SUBJECT_BUILD, STR("deployment.build.step")},
        {SUBJECT_BUILD, STR("deployment.build.log") },
    };

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i].subject == subject && str_equal(kinds[i].kind, kind))
            return true;
    return false;
}

static bool store_events(struct call *call, enum lease_subject subject, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_events wanted;
    struct lease_row lease = {0};
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_events_fields, &wanted, sizeof wanted, err) ||
        !store_begin(server->store, &tx, err) ||
        !lease_open(tx, call, &wanted.fence, false, &lease, err) ||
        !lease_is_for(&lease, subject, err))
        return false;
    bool is_run = subject == SUBJECT_RUN;
    const struct wire_event *events = wanted.events.items;
    for (size_t i = 0; i < wanted.events.n; i++) {
        const char *kind = arena_text(call->arena, events[i].kind);
        bool fresh;

        if (!is_for_workers(subject, events[i].kind))
            return error_set(err, ERR_INVALID, "/events: kind %s is not for workers", kind);
        if (!is_new(call, tx, &lease, &events[i], &fresh, err))
            return false;
        const struct event event = {
            .kind = kind,
            .category = is_run ? "guest" : "system",
            .severity = severity_of(events[i].attributes, call->arena),
            .source = is_run ? "guest" : "worker",
            .attempt = is_run ? lease.attempt : 0,
            .at_ms = events[i].at_ms,
            .attributes = events[i].attributes,
        };
        if (fresh && !(is_run ? run_event_append(tx, lease.subject_id, &event, err)
                              : deployment_event_append(tx, lease.subject_id, &event, err)))
            return false;
    }
    wakes_add(&wakes, is_run ? "run:" : "deployment:", lease.subject_id);
    return hub_commit(&server->hub, &tx, &wakes, err);
}

bool lease_events_post(struct call *call, struct response *res, struct error *err)
{
    return store_events(call, SUBJECT_RUN, err) && worker_answer_nothing(res, err);
}

bool build_progress_post(struct call *call, struct response *res, struct error *err)
{
    return store_events(call, SUBJECT_BUILD, err) && worker_answer_nothing(res, err);
}
