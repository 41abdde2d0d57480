#include "image/registry_batch.h"

#include "base/own.h"
#include "base/pool.h"
#include "base/time.h"
#include "base/wait.h"

enum { SAY_EVERY_MS = 300, LOOK_EVERY_MS = 100 };

static bool is_listed(const struct batch_blob *blobs, size_t n, const char *digest)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(blobs[i].digest, digest) == 0)
            return true;
    return false;
}

size_t batch_layers(const struct image *image, struct batch_blob *blobs)
{
    size_t n = 0;

    for (size_t i = 0; i < image->n_layers; i++)
        if (!is_listed(blobs, n, image->layers[i].digest))
            blobs[n++] = (struct batch_blob){image->layers[i].digest, image->layers[i].size};
    return n;
}

static void say(struct batch *batch, bool is_last)
{
    const struct image_transfer *transfer = batch->transfer;
    int64_t now = time_boot_ms();
    char line[512];

    if (!transfer->progress || (!is_last && now - batch->said_ms < SAY_EVERY_MS))
        return;
    batch->said_ms = now;
    (void)snprintf(line, sizeof line, "%s: %zu of %zu layers, %.1f of %.1f MiB", batch->name,
                   batch->moved, batch->n_blobs, (double)batch->bytes / (1 << 20),
                   (double)batch->total / (1 << 20));
    transfer->progress(transfer->arg, line);
}

void batch_progress(struct batch *batch, int64_t bytes)
{
    pthread_mutex_lock(&batch->lock);
    batch->bytes += bytes;
    say(batch, false);
    pthread_mutex_unlock(&batch->lock);
}

static void fail(struct batch *batch, const struct error *err)
{
    pthread_mutex_lock(&batch->lock);
    if (!batch->failed)
        batch->err = *err;
    batch->failed = batch->stop = true;
    pthread_mutex_unlock(&batch->lock);
}

static const struct batch_blob *take_next(struct batch *batch, bool is_done)
{
    const struct batch_blob *blob = NULL;

    pthread_mutex_lock(&batch->lock);
    if (is_done) {
        batch->moved++;
        say(batch, batch->moved == batch->n_blobs);
    }
    if (!batch->stop && batch->next < batch->n_blobs)
        blob = &batch->blobs[batch->next++];
    pthread_mutex_unlock(&batch->lock);
    return blob;
}

static void move_blobs(struct batch *batch)
{
    struct registry_line line;
    struct error err;
    bool is_done = false;

    if (!registry_line_open(&line, batch->transfer->registries, batch->endpoint, batch->repository,
                            batch->actions, &batch->stop, &err)) {
        fail(batch, &err);
        return;
    }
    for (const struct batch_blob *blob; (blob = take_next(batch, is_done));) {
        is_done = batch->move(batch, &line, blob, &err);
        if (!is_done)
            fail(batch, &err);
    }
    registry_line_close(&line);
}

static void run_line(void *arg)
{
    struct batch *batch = arg;

    move_blobs(batch);
    pthread_mutex_lock(&batch->lock);
    batch->lines--;
    pthread_cond_signal(&batch->changed);
    pthread_mutex_unlock(&batch->lock);
}

static void wait_for_lines(struct batch *batch)
{
    const volatile bool *abort = batch->transfer->abort;

    pthread_mutex_lock(&batch->lock);
    while (batch->lines > 0) {
        (void)wait_ms(&batch->changed, &batch->lock, LOOK_EVERY_MS);
        batch->stop = batch->stop || (abort && *abort);
    }
    pthread_mutex_unlock(&batch->lock);
}

bool batch_run(struct batch *batch, struct error *err)
{
    size_t lines = batch->n_blobs < BATCH_LINES ? batch->n_blobs : BATCH_LINES;
    struct pool *pool = NULL;

    if (lines == 0)
        return true;
    for (size_t i = 0; i < batch->n_blobs; i++)
        batch->total += batch->blobs[i].size;
    batch->lines = lines;
    batch->said_ms = time_boot_ms();
    if (!pool_create(lines, &pool, err))
        return false;
    pthread_mutex_init(&batch->lock, NULL);
    pthread_cond_init(&batch->changed, NULL);
    for (size_t i = 0; i < lines; i++)
        pool_give(pool, run_line, batch);
    wait_for_lines(batch);
    pool_destroy(pool);
    pthread_mutex_destroy(&batch->lock);
    pthread_cond_destroy(&batch->changed);
    if (batch->failed)
        *err = batch->err;
    else if (batch->moved < batch->n_blobs)
        (void)error_set(err, ERR_CANCELLED, "stopped while moving %s", batch->name);
    return !batch->failed && batch->moved == batch->n_blobs;
}
