#include "worker/mount_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "protocol/worker_api_mount.h"
#include "worker/worker.h"

enum {
    PIECE_MAX = 256 * 1024,
    BATCH_BYTES = 4 * 1024 * 1024,
    SPOOL_MAX = 8 * 1024 * 1024,
    CALL_TIMEOUT_MS = 15 * 1000,
    START_MS = 50, /* how long a start waits for its end: a short command is one call */
    INPUT_MS = 5,  /* and input that moved for more of it */
};

/* Adjacent bytes of one stream. */
struct piece {
    struct piece *next;
    char process_id[ID_TEXT];
    const char *stream;
    int64_t offset, at_ms;
    uint64_t number; /* counts all pieces */
    size_t len, room;
    char bytes[];
};

struct state {
    struct state *next;
    char process_id[ID_TEXT], name[16], signal[16], error[512];
    int64_t pid, exit_code, input_offset, at_ms;
    uint64_t after; /* the piece that must be stored before it, or with it */
    int64_t patience_ms;
    bool is_urgent;
};

struct mount_output {
    struct lease *lease;
    int room;
    struct line line;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct piece *first, *last;
    struct state *states, *last_state;
    uint64_t n_pieces;
    size_t waiting; /* bytes not stored yet */
    bool held_back, closing, flushing, failed;
    struct error err;
};

/* One call: the pieces and states that go with it, the first ones of both lists. */
struct batch {
    struct piece *pieces[WIRE_CHUNKS_MAX];
    struct state *states[WIRE_CHUNKS_MAX];
    size_t n_pieces, n_states;
};

static struct piece *add_piece(struct mount_output *output, const char *process_id,
                               const char *stream, int64_t offset, size_t room)
{
    struct piece *piece = alloc(sizeof *piece + room);

    *piece = (struct piece){.stream = stream,
                            .offset = offset,
                            .at_ms = time_now_ms(),
                            .number = ++output->n_pieces,
                            .room = room};
    snprintf(piece->process_id, sizeof piece->process_id, "%s", process_id);
    if (output->last)
        output->last->next = piece;
    else
        output->first = piece;
    output->last = piece;
    return piece;
}

static void append(struct mount_output *output, const char *process_id, const char *stream,
                   int64_t offset, struct str bytes)
{
    while (bytes.len > 0) {
        struct piece *tail = output->last;

        if (!tail || tail->stream != stream || tail->len == tail->room ||
            strcmp(tail->process_id, process_id) != 0) {
            /* A small write gets a small piece, unless more is already waiting. */
            size_t room = bytes.len < PIECE_MAX && !tail ? bytes.len : PIECE_MAX;
            tail = add_piece(output, process_id, stream, offset, room);
        }
        size_t n = tail->room - tail->len < bytes.len ? tail->room - tail->len : bytes.len;
        memcpy(tail->bytes + tail->len, bytes.ptr, n);
        tail->len += n;
        offset += (int64_t)n;
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
    }
}

bool mount_output_add(struct mount_output *output, const char *process_id, const char *stream,
                      int64_t offset, struct str bytes)
{
    pthread_mutex_lock(&output->lock);
    append(output, process_id, stream, offset, bytes);
    output->waiting += bytes.len;
    output->held_back |= output->waiting > SPOOL_MAX;
    bool has_room = !output->held_back;
    pthread_cond_signal(&output->changed);
    pthread_mutex_unlock(&output->lock);
    return has_room;
}

bool mount_output_has_room(struct mount_output *output)
{
    pthread_mutex_lock(&output->lock);
    bool has_room = !output->held_back;
    pthread_mutex_unlock(&output->lock);
    return has_room;
}

/* One that still waits is only brought up to date. */
static bool update_last(struct mount_output *output, const struct mount_news *news)
{
    struct state *last = output->last_state;

    if (!last || strcmp(news->state, "running") != 0 ||
        strcmp(last->process_id, news->process_id) != 0 || last->is_urgent)
        return false;
    last->input_offset = news->input_offset;
    last->patience_ms = INPUT_MS;
    return true;
}

void mount_output_tell(struct mount_output *output, const struct mount_news *news)
{
    pthread_mutex_lock(&output->lock);
    if (!update_last(output, news)) {
        struct state *state = alloc(sizeof *state);
        *state = (struct state){
            .pid = news->pid,
            .exit_code = news->exit_code,
            .input_offset = news->input_offset,
            .at_ms = time_boot_ms(),
            .after = output->n_pieces,
            .patience_ms = strcmp(news->state, "started") == 0 ? START_MS : INPUT_MS,
            .is_urgent = strcmp(news->state, "exited") == 0 || strcmp(news->state, "failed") == 0,
        };
        snprintf(state->process_id, sizeof state->process_id, "%s", news->process_id);
        snprintf(state->name, sizeof state->name, "%s", news->state);
        snprintf(state->signal, sizeof state->signal, "%s", news->signal ? news->signal : "");
        snprintf(state->error, sizeof state->error, "%s", news->error ? news->error : "");
        if (output->last_state)
            output->last_state->next = state;
        else
            output->states = state;
        output->last_state = state;
    }
    pthread_cond_signal(&output->changed);
    pthread_mutex_unlock(&output->lock);
}

/* The lists stay whole: what is in the batch is dropped once stored. */
static void batch_fill(struct mount_output *output, struct batch *batch)
{
    size_t bytes = 0;
    uint64_t reached = output->n_pieces;

    batch->n_pieces = batch->n_states = 0;
    for (struct piece *at = output->first; at; at = at->next) {
        if (batch->n_pieces == WIRE_CHUNKS_MAX || bytes + at->len > BATCH_BYTES) {
            reached = at->number - 1;
            break;
        }
        batch->pieces[batch->n_pieces++] = at;
        bytes += at->len;
        at->room = at->len; /* closed: what comes now starts a new piece */
    }
    for (struct state *at = output->states; at && at->after <= reached; at = at->next) {
        if (batch->n_states == WIRE_CHUNKS_MAX)
            break;
        batch->states[batch->n_states++] = at;
        at->is_urgent = true; /* no longer to be changed */
    }
}

static struct str text_or_none(const char *text)
{
    return text[0] ? str_of(text) : (struct str){0};
}

static bool send(struct mount_output *output, const struct batch *batch, struct arena *arena,
                 struct error *err)
{
    const struct lease *lease = output->lease;
    struct wire_process_chunk *chunks = arena_array(arena, batch->n_pieces + 1, sizeof *chunks);
    struct wire_process_state *states = arena_array(arena, batch->n_states + 1, sizeof *states);
    struct str *bytes = arena_array(arena, batch->n_pieces + 1, sizeof *bytes);
    const struct wire_process message = {
        .fence = {lease->worker->link.epoch, lease->sequence, str_of(lease->id)},
        .chunks = {chunks, batch->n_pieces},
        .processes = {states, batch->n_states},
    };
    struct wire_process_answer answer;

    for (size_t i = 0; i < batch->n_pieces; i++) {
        const struct piece *piece = batch->pieces[i];
        bytes[i] = (struct str){piece->bytes, piece->len};
        chunks[i] = (struct wire_process_chunk){
            .process_id = str_of(piece->process_id),
            .stream = str_of(piece->stream),
            .offset = piece->offset,
            .observed_ms = piece->at_ms,
            .len = (int64_t)piece->len,
        };
    }
    for (size_t i = 0; i < batch->n_states; i++) {
        const struct state *state = batch->states[i];
        states[i] = (struct wire_process_state){
            .process_id = str_of(state->process_id),
            .state = str_of(state->name),
            .pid = state->pid,
            .exit_code = state->exit_code,
            .signal = text_or_none(state->signal),
            .error = text_or_none(state->error),
            .input_offset = state->input_offset,
        };
    }
    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/process", lease->id),
        .request_fields = wire_process_fields,
        .request = &message,
        .tail = bytes,
        .n_tail = batch->n_pieces,
        ANSWER(wire_process_answer_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    return line_insist(&output->line, &exchange, lease_look(output->lease).fence_ms, arena, err);
}

static void drop_sent(struct mount_output *output, const struct batch *batch)
{
    for (size_t i = 0; i < batch->n_pieces; i++) {
        struct piece *piece = output->first;
        output->first = piece->next;
        output->waiting -= piece->len;
        free(piece);
    }
    if (!output->first)
        output->last = NULL;
    for (size_t i = 0; i < batch->n_states; i++) {
        struct state *state = output->states;
        output->states = state->next;
        free(state);
    }
    if (!output->states)
        output->last_state = NULL;
    if (output->held_back && output->waiting <= SPOOL_MAX / 2) {
        output->held_back = false;
        eventfd_write(output->room, 1);
    }
}

/* With the lock given up while it is on the wire. */
static void ship(struct mount_output *output)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct batch batch;
    struct error err;

    batch_fill(output, &batch);
    pthread_mutex_unlock(&output->lock);
    bool is_sent = send(output, &batch, &arena, &err);
    pthread_mutex_lock(&output->lock);
    if (is_sent) {
        drop_sent(output, &batch);
    } else {
        output->failed = true;
        output->err = err;
        eventfd_write(output->room, 1);
    }
    pthread_cond_broadcast(&output->changed);
}

/* How long what is there may wait for more; negative: there is nothing. */
static int64_t patience(const struct mount_output *output)
{
    int64_t left = -1;

    if (output->first)
        return 0;
    for (const struct state *at = output->states; at; at = at->next) {
        if (at->is_urgent || output->closing || output->flushing)
            return 0;
        int64_t its = at->at_ms + at->patience_ms - time_boot_ms();
        its = its < 0 ? 0 : its;
        left = left < 0 || its < left ? its : left;
    }
    return left;
}

static void *shipper_main(void *arg)
{
    struct mount_output *output = arg;

    pthread_mutex_lock(&output->lock);
    while (!output->failed) {
        int64_t left = patience(output);
        if (left == 0)
            ship(output);
        else if (left > 0)
            wait_ms(&output->changed, &output->lock, left);
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

bool mount_output_create(struct lease *lease, int room, struct mount_output **output,
                         struct error *err)
{
    struct mount_output *made = alloc(sizeof *made);

    *made = (struct mount_output){.lease = lease, .room = room};
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

bool mount_output_flush(struct mount_output *output, struct error *err)
{
    pthread_mutex_lock(&output->lock);
    output->flushing = true;
    pthread_cond_broadcast(&output->changed);
    while ((output->first || output->states) && !output->failed)
        pthread_cond_wait(&output->changed, &output->lock);
    output->flushing = false;
    bool fine = !output->failed;
    if (!fine)
        *err = output->err;
    pthread_mutex_unlock(&output->lock);
    return fine;
}

void mount_output_destroy(struct mount_output *output)
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
    while (output->states) {
        struct state *state = output->states;
        output->states = state->next;
        free(state);
    }
    line_close(&output->line);
    pthread_mutex_destroy(&output->lock);
    pthread_cond_destroy(&output->changed);
    free(output);
}
