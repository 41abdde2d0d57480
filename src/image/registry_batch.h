/* Several blobs at a time, each on a line of its own thread; the first failure stops the rest. */
#pragma once

#include "image/registry_line.h"

enum { BATCH_LINES = 4 };

struct batch_blob {
    const char *digest; /* borrowed */
    int64_t size;
};

struct batch;

/* Moves one blob, from any thread; tells the batch what it did. */
typedef bool batch_move(struct batch *batch, struct registry_line *line,
                        const struct batch_blob *blob, struct error *err);

struct batch {
    struct image_store *store;
    const struct image_transfer *transfer;
    const struct registry_endpoint *endpoint;
    const char *name; /* how people call the image */
    const char *repository, *actions;
    const struct batch_blob *blobs; /* no digest twice */
    size_t n_blobs;
    batch_move *move;
    /* below: the batch's own */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t next, moved, lines;
    int64_t total, bytes, said_ms;
    volatile bool stop;
    bool failed;
    struct error err;
};

bool batch_run(struct batch *batch, struct error *err) MUST_USE;

/* The layers of an image, none twice, into room for all; how many. */
size_t batch_layers(const struct image *image, struct batch_blob *blobs);

/* Bytes more (or, when some have to be moved again, less). */
void batch_progress(struct batch *batch, int64_t bytes);
