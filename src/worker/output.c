#include "worker/output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/worker.h"

enum {
    PIECE_MAX = 256 * 1024,
    BATCH_BYTES = 4 * 1024 * 1024,
    SPOOL_MAX = 16 * 1024 * 1024,
    CALL_TIMEOUT_MS = 15 * 1000,
    EVENT_ATTRIBUTES_MAX = 512 * 1024,
};

/* Adjacent bytes of one stream, or one event. */
struct piece {
    struct piece *next;
    enum output_stream stream;
    const char *event; /* its kind; NULL for bytes */
    int64_t offset, at_ms;
    size_t len, room;
    char bytes[];
};

struct output {
    struct lease *lease;
    int room;
    struct line line;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct piece *first, *last;
    size_t waiting; /* bytes not stored yet */
    int64_t ends[OUTPUT_STREAMS];
    int64_t n_events;
    bool held_back, sending, closing, failed;
    struct error err;
    const struct redactor *redactor;
    struct redaction redactions[OUTPUT_STREAMS]; /* of the adding thread */
};

static struct piece *piece_create(enum output_stream stream, int64_t offset, size_t room)
{
    struct piece *piece = alloc(sizeof *piece + room);

    *piece = (struct piece){.stream = stream, .offset = offset, .room = room};
    piece->at_ms = time_now_ms();
    return piece;
}

static void append(struct output *output, struct piece *piece)
{
    if (output->last)
        output->last->next = piece;
    else
        output->first = piece;
    output->last = piece;
}

static void append_bytes(struct output *output, enum output_stream stream, struct str bytes)
{
    while (bytes.len > 0) {
        struct piece *tail = output->last;

        if (!tail || tail->event || tail->stream != stream || tail->len == tail->room) {
            /* A small write gets a small piece, unless more of it is already coming. */
            size_t room = bytes.len < PIECE_MAX && !output->sending ? bytes.len : PIECE_MAX;
            tail = piece_create(stream, output->ends[stream], room);
            append(output, tail);
        }
        size_t n = tail->room - tail->len < bytes.len ? tail->room - tail->len : bytes.len;
        memcpy(tail->bytes + tail->len, bytes.ptr, n);
        tail->len += n;
        output->ends[stream] += (int64_t)n;
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
    }
}

static bool add(struct output *output, enum output_stream stream, struct str bytes)
{
    pthread_mutex_lock(&output->lock);
    append_bytes(output, stream, bytes);
    output->waiting += bytes.len;
    /* Only the shipper lets go: it is the one that tells the guest of the room. */
    output->held_back |= output->waiting > SPOOL_MAX;
    bool has_room = !output->held_back;
    pthread_cond_signal(&output->changed);
    pthread_mutex_unlock(&output->lock);
    return has_room;
}

static bool add_stdout(void *arg, struct str bytes)
{
    return add(arg, OUTPUT_STDOUT, bytes);
}

static bool add_stderr(void *arg, struct str bytes)
{
    return add(arg, OUTPUT_STDERR, bytes);
}

void output_redact(struct output *output, const struct redactor *redactor)
{
    output->redactor = redactor;
    redaction_init(&output->redactions[OUTPUT_STDOUT], redactor, add_stdout, output);
    redaction_init(&output->redactions[OUTPUT_STDERR], redactor, add_stderr, output);
}

bool output_add(struct output *output, enum output_stream stream, struct str bytes)
{
    return output->redactor ? redaction_feed(&output->redactions[stream], bytes)
                            : add(output, stream, bytes);
}

static void add_event(struct output *output, const char *kind, struct str attributes)
{
    if (attributes.len > EVENT_ATTRIBUTES_MAX)
        attributes = STR("{\"omitted\":true}");

    struct piece *piece = piece_create(OUTPUT_STDOUT, 0, attributes.len);
    piece->event = kind;
    piece->len = attributes.len;
    memcpy(piece->bytes, attributes.ptr, attributes.len);

    pthread_mutex_lock(&output->lock);
    piece->offset = ++output->n_events;
    append(output, piece);
    output->waiting += piece->len;
    pthread_cond_signal(&output->changed);
    pthread_mutex_unlock(&output->lock);
}

void output_event(struct output *output, const char *kind, struct str attributes)
{
    AUTO(buf_finish) struct buf clean = {.max = EVENT_ATTRIBUTES_MAX};
    struct error err = {0};

    if (!output->redactor)
        add_event(output, kind, attributes);
    else if (redact_json(output->redactor, attributes, &clean, &err))
        add_event(output, kind, buf_str(&clean));
    else
        add_event(output, kind, STR("{\"omitted\":true}"));
}

int64_t output_end(const struct output *output, enum output_stream stream)
{
    return output->ends[stream];
}

/* The longest run of pieces of one kind that fits a message. The list stays whole: it is
 * dropped once stored. Returns how many. */
static size_t batch_of(struct output *output, struct piece **pieces)
{
    size_t n = 0, bytes = 0;

    for (struct piece *at = output->first; at && n < WIRE_CHUNKS_MAX; at = at->next) {
        if (n > 0 && (!at->event != !pieces[0]->event || bytes + at->len > BATCH_BYTES))
            break;
        pieces[n++] = at;
        bytes += at->len;
        at->room = at->len; /* closed: what comes now starts a new piece */
    }
    return n;
}

static bool send_logs(struct output *output, struct piece **pieces, size_t n, struct arena *arena,
                      struct error *err)
{
    struct wire_log_chunk *chunks = arena_array(arena, n, sizeof *chunks);
    struct str *bytes = arena_array(arena, n, sizeof *bytes);
    struct wire_logs logs = {
        .fence = {output->lease->worker->link.epoch, output->lease->sequence,
                  str_of(output->lease->id)},
        .chunks = {chunks, n},
    };
    struct wire_logs_answer answer;

    for (size_t i = 0; i < n; i++) {
        bytes[i] = (struct str){pieces[i]->bytes, pieces[i]->len};
        chunks[i] = (struct wire_log_chunk){
            .stream = pieces[i]->stream == OUTPUT_STDOUT ? STR("stdout") : STR("stderr"),
            .offset = pieces[i]->offset,
            .observed_ms = pieces[i]->at_ms,
            .len = (int64_t)pieces[i]->len,
        };
    }
    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/logs", output->lease->id),
        .request_fields = wire_logs_fields,
        .request = &logs,
        .tail = bytes,
        .n_tail = n,
        ANSWER(wire_logs_answer_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    return line_insist(&output->line, &exchange, lease_look(output->lease).fence_ms, arena, err);
}

static bool send_events(struct output *output, struct piece **pieces, size_t n, struct arena *arena,
                        struct error *err)
{
    struct wire_event *list = arena_array(arena, n, sizeof *list);
    struct wire_events events = {
        .fence = {output->lease->worker->link.epoch, output->lease->sequence,
                  str_of(output->lease->id)},
        .events = {list, n},
    };
    bool is_build = output->lease->grant.has_build;

    for (size_t i = 0; i < n; i++)
        list[i] = (struct wire_event){
            .op = str_of(arena_printf(arena, "e%lld", (long long)pieces[i]->offset)),
            .kind = str_of(pieces[i]->event),
            .attributes = {pieces[i]->bytes, pieces[i]->len},
            .at_ms = pieces[i]->at_ms,
        };
    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/%s", output->lease->id,
                              is_build ? "build/progress" : "events"),
        .request_fields = wire_events_fields,
        .request = &events,
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    return line_insist(&output->line, &exchange, lease_look(output->lease).fence_ms, arena, err);
}

static void drop_sent(struct output *output, size_t n)
{
    for (size_t i = 0; i < n && output->first; i++) {
        struct piece *piece = output->first;

        output->first = piece->next;
        if (!output->first)
            output->last = NULL;
        output->waiting -= piece->len;
        free(piece);
    }
    if (output->held_back && output->waiting <= SPOOL_MAX / 2) {
        output->held_back = false;
        eventfd_write(output->room, 1);
    }
}

/* One batch, with the lock given up while it is on the wire. */
static void ship(struct output *output)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct piece *pieces[WIRE_CHUNKS_MAX];
    struct error err;
    size_t n = batch_of(output, pieces);

    output->sending = true;
    pthread_mutex_unlock(&output->lock);
    bool sent = pieces[0]->event ? send_events(output, pieces, n, &arena, &err)
                                 : send_logs(output, pieces, n, &arena, &err);
    pthread_mutex_lock(&output->lock);
    output->sending = false;
    if (sent) {
        drop_sent(output, n);
    } else {
        output->failed = true;
        output->err = err;
        eventfd_write(output->room, 1);
    }
    pthread_cond_broadcast(&output->changed);
}

static void *shipper_main(void *arg)
{
    struct output *output = arg;

    pthread_mutex_lock(&output->lock);
    while (!output->failed) {
        if (output->first)
            ship(output);
        else if (output->closing)
            break;
        else
            pthread_cond_wait(&output->changed, &output->lock);
    }
    pthread_mutex_unlock(&output->lock);
    if (output->failed && output->err.code == ERR_LEASE_STALE)
        lease_mark_stale(&output->lease->worker->leases, output->lease->id);
    else if (output->failed)
        log_warn("output not stored", LOG_STR("lease", output->lease->id), LOG_ERR(&output->err));
    return NULL;
}

bool output_create(struct lease *lease, int room, struct output **output, struct error *err)
{
    struct output *made = alloc(sizeof *made);

    *made = (struct output){.lease = lease, .room = room};
    if (!line_open(&lease->worker->link, &made->line, err)) {
        free(made);
        return false;
    }
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (pthread_create(&made->thread, NULL, shipper_main, made) != 0)
        abort();
    *output = made;
    return true;
}

void output_set_room(struct output *output, int room)
{
    pthread_mutex_lock(&output->lock);
    output->room = room;
    output->held_back = false;
    pthread_mutex_unlock(&output->lock);
}

bool output_flush(struct output *output, struct error *err)
{
    for (size_t i = 0; output->redactor && i < OUTPUT_STREAMS; i++)
        (void)redaction_end(&output->redactions[i]); /* no room is no matter at the end */
    pthread_mutex_lock(&output->lock);
    while (output->first && !output->failed)
        pthread_cond_wait(&output->changed, &output->lock);
    bool fine = !output->failed;
    if (!fine)
        *err = output->err;
    pthread_mutex_unlock(&output->lock);
    return fine;
}

void output_destroy(struct output *output)
{
    if (!output)
        return;
    pthread_mutex_lock(&output->lock);
    output->closing = true;
    pthread_cond_broadcast(&output->changed);
    pthread_mutex_unlock(&output->lock);
    pthread_join(output->thread, NULL);

    while (output->first) {
        struct piece *piece = output->first;
        output->first = piece->next;
        free(piece);
    }
    line_close(&output->line);
    pthread_mutex_destroy(&output->lock);
    pthread_cond_destroy(&output->changed);
    free(output);
}
