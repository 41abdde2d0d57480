#include "blob/sealing.h"

#include <pthread.h>

#include "base/own.h"
#include "base/secret.h"

/* One that is filled, one that is sealed, one that waits. */
enum { N_BUFFERS = 3 };

struct sealing {
    struct seal_writer *seal;
    struct pack_record *records;
    pthread_mutex_t lock; /* guards all below but the bytes of buffers */
    pthread_cond_t changed;
    pthread_t thread;
    bool is_running, is_ending, has_failed;
    struct error err;
    size_t n_given, n_done;
    uint64_t size;
    uint8_t *bytes[N_BUFFERS];
    size_t len[N_BUFFERS];
};

struct sealing *sealing_create(struct seal_writer *seal, struct pack_record *records)
{
    struct sealing *sealing = alloc(sizeof *sealing);

    *sealing = (struct sealing){
        .seal = seal,
        .records = records,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
    };
    return sealing;
}

uint8_t *sealing_buffer(struct sealing *sealing)
{
    uint8_t **bytes = &sealing->bytes[sealing->n_given % N_BUFFERS];

    if (!*bytes)
        *bytes = alloc(SEAL_RAW_MAX);
    return *bytes;
}

bool sealing_record(struct seal_writer *seal, struct str raw, struct pack_record *record,
                    struct error *err)
{
    uint64_t offset = seal->facts.size;

    if (!seal_writer_record(seal, raw, 0, err))
        return false;
    *record = (struct pack_record){offset, (uint32_t)(seal->facts.size - offset - SEAL_HEAD_LEN),
                                   (uint32_t)raw.len};
    return true;
}

/* Under the lock, but not while it seals. */
static void seal_next(struct sealing *sealing)
{
    size_t number = sealing->n_done, at = number % N_BUFFERS;
    struct str raw = {(const char *)sealing->bytes[at], sealing->len[at]};
    struct error err;
    bool fine = !sealing->has_failed;

    pthread_mutex_unlock(&sealing->lock);
    fine = fine && sealing_record(sealing->seal, raw, &sealing->records[number], &err);
    pthread_mutex_lock(&sealing->lock);
    if (!fine && !sealing->has_failed) {
        sealing->has_failed = true;
        sealing->err = err;
    }
    sealing->size = sealing->seal->facts.size;
    sealing->n_done++;
    pthread_cond_broadcast(&sealing->changed);
}

static void *run(void *arg)
{
    struct sealing *sealing = arg;

    pthread_mutex_lock(&sealing->lock);
    for (;;) {
        if (sealing->n_done < sealing->n_given)
            seal_next(sealing);
        else if (sealing->is_ending)
            break;
        else
            pthread_cond_wait(&sealing->changed, &sealing->lock);
    }
    pthread_mutex_unlock(&sealing->lock);
    return NULL;
}

static bool start(struct sealing *sealing, struct error *err)
{
    int code = pthread_create(&sealing->thread, NULL, run, sealing);

    if (code != 0)
        return error_set(err, ERR_UNAVAILABLE, "a thread cannot be started: %s", strerror(code));
    sealing->is_running = true;
    return true;
}

bool sealing_give(struct sealing *sealing, size_t len, struct error *err)
{
    pthread_mutex_lock(&sealing->lock);
    sealing->len[sealing->n_given % N_BUFFERS] = len;
    sealing->n_given++;
    pthread_cond_broadcast(&sealing->changed);
    while (sealing->is_running && sealing->n_given - sealing->n_done == N_BUFFERS)
        pthread_cond_wait(&sealing->changed, &sealing->lock);
    bool has_failed = sealing->has_failed;
    if (has_failed)
        *err = sealing->err;
    pthread_mutex_unlock(&sealing->lock);
    return !has_failed && (sealing->is_running || start(sealing, err));
}

uint64_t sealing_size(struct sealing *sealing)
{
    pthread_mutex_lock(&sealing->lock);
    uint64_t size = sealing->size;
    pthread_mutex_unlock(&sealing->lock);
    return size;
}

bool sealing_end(struct sealing *sealing, struct error *err)
{
    if (sealing->is_running) {
        pthread_mutex_lock(&sealing->lock);
        sealing->is_ending = true;
        pthread_cond_broadcast(&sealing->changed);
        pthread_mutex_unlock(&sealing->lock);
        pthread_join(sealing->thread, NULL);
    }
    bool fine = !sealing->has_failed;
    if (!fine)
        *err = sealing->err;
    sealing->is_running = sealing->is_ending = sealing->has_failed = false;
    sealing->n_given = sealing->n_done = 0;
    sealing->size = 0;
    return fine;
}

void sealing_destroy(struct sealing *sealing)
{
    struct error err;

    if (!sealing)
        return;
    pthread_mutex_lock(&sealing->lock);
    sealing->has_failed = true;
    pthread_mutex_unlock(&sealing->lock);
    (void)!sealing_end(sealing, &err);
    for (int i = 0; i < N_BUFFERS; i++) {
        if (!sealing->bytes[i])
            continue;
        bytes_wipe(sealing->bytes[i], SEAL_RAW_MAX);
        free(sealing->bytes[i]);
    }
    pthread_cond_destroy(&sealing->changed);
    pthread_mutex_destroy(&sealing->lock);
    free(sealing);
}
