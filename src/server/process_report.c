/* What a worker says of the programs in a mount: their output, stored in order and once, then what
 * became of them. */
#include "base/encode.h"
#include "base/id.h"
#include "base/time.h"
#include "protocol/worker_api_mount.h"
#include "server/lease.h"
#include "server/mount_store.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum { TRIM_STEP = 1024 * 1024 };

struct report {
    struct call *call;
    struct server *server;
    struct tx *tx;
    struct lease_row lease;
    struct wire_process wanted;
    struct str tail; /* raw bytes that are left */
    struct wakes wakes;
    struct process_row process; /* the one under way; id empty: none */
    struct wire_process_end ends[WIRE_CHUNKS_MAX];
    size_t n_ends;
};

/* The message ends at the first newline, which JSON as we write it has none of; raw bytes follow.
 */
static bool read_report(struct report *report, struct error *err)
{
    struct call *call = report->call;
    struct str head;

    report->tail = call->request->body;
    if (!str_split(&report->tail, '\n', &head))
        head = (struct str){0};
    return json_read(head, wire_process_fields, &report->wanted, sizeof report->wanted, call->arena,
                     err);
}

/* Locks the program, once for what comes about it in a row. */
static bool hold(struct report *report, struct str id, struct error *err)
{
    struct process_row *process = &report->process;

    if (str_equal(str_of(process->id), id))
        return true;
    if (!process_load(report->tx, arena_text(report->call->arena, id), report->call->arena, process,
                      err))
        return false;
    return str_equal(str_of(process->mount_id), str_of(report->lease.subject_id)) ||
           error_set(err, ERR_INVALID, "the program is of another mount");
}

static bool chunk_bytes(struct report *report, const struct wire_process_chunk *chunk,
                        struct str *said, struct error *err)
{
    if (!chunk->data.ptr) {
        if (chunk->len < 0 || (size_t)chunk->len > report->tail.len)
            return error_set(err, ERR_INVALID, "/chunks: bytes are missing after the message");
        *said = (struct str){report->tail.ptr, (size_t)chunk->len};
        report->tail.ptr += chunk->len;
        report->tail.len -= (size_t)chunk->len;
        return true;
    }
    size_t len = base64_decoded_max(chunk->data.len);
    char *raw = arena_alloc(report->call->arena, len + 1);

    if (!base64_decode(chunk->data, raw, &len))
        return error_set(err, ERR_INVALID, "/chunks: data is not base64");
    *said = (struct str){raw, len};
    return true;
}

/* Where the named stream of the program ends; NULL when it has none of that name. */
static int64_t *end_of(struct process_row *process, struct str stream)
{
    bool is_exec = process->kind == PROCESS_EXEC;

    if (str_equal(stream, is_exec ? STR("stdout") : STR("output")))
        return &process->out_end;
    return is_exec && str_equal(stream, STR("stderr")) ? &process->err_end : NULL;
}

static void note_end(struct report *report, struct str stream, int64_t end)
{
    struct wire_process_end *last =
        report->n_ends ? &report->ends[report->n_ends - 1] : &report->ends[0];
    struct str id = str_of(arena_text(report->call->arena, str_of(report->process.id)));

    if (report->n_ends == 0 || !str_equal(last->process_id, id) || !str_equal(last->stream, stream))
        last = &report->ends[report->n_ends++];
    *last = (struct wire_process_end){id, stream, end};
}

/* Not after every piece: a megabyte more than is promised is kept meanwhile. */
static bool trim(struct report *report, struct str stream, int64_t before, int64_t end,
                 struct error *err)
{
    if (end <= PROCESS_KEPT || before / TRIM_STEP == end / TRIM_STEP)
        return true;
    return STORE(report->tx, &process_chunks_trim, NULL, NULL, err, V_TEXT(report->process.id),
                 V_STR(stream), V_INT(end - PROCESS_KEPT));
}

/* The bytes that come at the end of the stream. */
static bool append(struct report *report, const struct wire_process_chunk *chunk, struct str bytes,
                   int64_t *end, struct error *err)
{
    struct process_row *process = &report->process;
    int64_t before = *end, now = time_now_ms();
    char id[ID_TEXT];

    id_make(id);
    *end += (int64_t)bytes.len;
    wakes_add(&report->wakes, "process:", process->id);
    return STORE(report->tx, &process_chunk_insert, NULL, NULL, err, V_TEXT(process->id),
                 V_STR(chunk->stream), V_INT(before), V_INT(*end), V_TEXT(id), V_BYTES(bytes),
                 V_INT(chunk->observed_ms), V_INT(now)) &&
           STORE(report->tx, &process_set_output, NULL, NULL, err, V_TEXT(process->id),
                 V_INT(process->out_end), V_INT(process->err_end), V_INT(now)) &&
           trim(report, chunk->stream, before, *end, err);
}

static bool store_chunk(struct report *report, const struct wire_process_chunk *chunk,
                        struct error *err)
{
    struct process_row *process = &report->process;
    struct str bytes = {0};

    if (!hold(report, chunk->process_id, err) || !chunk_bytes(report, chunk, &bytes, err))
        return false;
    int64_t *end = end_of(process, chunk->stream), said_end = chunk->offset + (int64_t)bytes.len;
    if (!end || chunk->offset < 0)
        return error_set(err, ERR_INVALID, "/chunks: the program has no such stream or offset");
    /* What one that was given up still says is not waited for. */
    if (!process->is_live) {
        note_end(report, chunk->stream, said_end);
        return true;
    }
    if (chunk->offset > *end)
        return error_set(err, ERR_CONFLICT, "/chunks: bytes before offset %lld are missing",
                         (long long)chunk->offset);
    int64_t known = *end - chunk->offset;
    if (known < (int64_t)bytes.len &&
        !append(report, chunk, (struct str){bytes.ptr + known, bytes.len - (size_t)known}, end,
                err))
        return false;
    note_end(report, chunk->stream, *end);
    return true;
}

static bool apply(struct report *report, const struct process_change *change, bool *moved,
                  struct error *err)
{
    return process_apply(report->tx, &report->process, change, moved, &report->wakes, err);
}

/* It was ended here before the worker began it: the worker is told so. */
static bool send_away(struct report *report, struct error *err)
{
    static const struct wire_message nothing = {0};

    return process_send(report->tx, &report->process, "process_close", &nothing, &report->wakes,
                        err);
}

static bool begin(struct report *report, const struct wire_process_state *state, struct error *err)
{
    const struct process_change change = {.on = EXEC_START, .pid = state->pid};
    bool moved;

    if (report->process.has_begun)
        return report->process.is_live || send_away(report, err);
    return apply(report, &change, &moved, err) &&
           STORE(report->tx, &mount_set_dirty, NULL, NULL, err, V_TEXT(report->lease.subject_id));
}

static bool end(struct report *report, const struct wire_process_state *state, struct error *err)
{
    const struct process_change change = {
        .on = EXEC_EXIT,
        .pid = state->pid,
        .has_exit_code = !state->signal.ptr,
        .exit_code = state->exit_code,
        .signal = state->signal,
        .error = state->error,
    };
    bool moved;

    /* One that was over before its start was told: both in one report. */
    if (!report->process.has_begun && !begin(report, state, err))
        return false;
    return !report->process.is_live || apply(report, &change, &moved, err);
}

static bool fail(struct report *report, const struct wire_process_state *state, struct error *err)
{
    const struct process_change change = {
        .on = EXEC_FAIL,
        .error = state->error.ptr ? state->error : STR("it could not be started"),
    };
    bool moved;

    return apply(report, &change, &moved, err);
}

static bool take_state(struct report *report, const struct wire_process_state *state,
                       struct error *err)
{
    if (!hold(report, state->process_id, err))
        return false;
    if (state->input_offset > report->process.input_taken) {
        wakes_add(&report->wakes, "process:", report->process.id);
        if (!STORE(report->tx, &process_set_taken, NULL, NULL, err, V_TEXT(report->process.id),
                   V_INT(state->input_offset), V_INT(time_now_ms())))
            return false;
    }
    if (str_equal(state->state, STR("started")))
        return begin(report, state, err);
    if (str_equal(state->state, STR("running")))
        return true;
    if (str_equal(state->state, STR("exited")))
        return end(report, state, err);
    return str_equal(state->state, STR("failed"))
               ? fail(report, state, err)
               : error_set(err, ERR_INVALID,
                           "/processes: state must be started, running, exited or failed");
}

static bool take_all(struct report *report, struct error *err)
{
    const struct wire_process_chunk *chunks = report->wanted.chunks.items;
    const struct wire_process_state *states = report->wanted.processes.items;

    for (size_t i = 0; i < report->wanted.chunks.n; i++)
        if (!store_chunk(report, &chunks[i], err))
            return false;
    for (size_t i = 0; i < report->wanted.processes.n; i++)
        if (!take_state(report, &states[i], err))
            return false;
    return true;
}

bool lease_process_post(struct call *call, struct response *res, struct error *err)
{
    struct report *report = arena_alloc(call->arena, sizeof *report);
    AUTO_TX tx = NULL;

    *report = (struct report){.call = call, .server = server_of(call)};
    if (!read_report(report, err) || !store_begin(report->server->store, &tx, err))
        return false;
    report->tx = tx;
    if (!lease_open(tx, call, &report->wanted.fence, false, &report->lease, err) ||
        !lease_is_for(&report->lease, SUBJECT_MOUNT, err) || !take_all(report, err) ||
        !hub_commit(&report->server->hub, &tx, &report->wakes, err))
        return false;
    const struct wire_process_answer answer = {
        .durable = {report->ends, report->n_ends}
    };
    return worker_answer(res, wire_process_answer_fields, &answer, err);
}
