/* What the `helmr image …` commands share. */
#pragma once

#include "base/command.h"
#include "image/image.h"
#include "worker/settings.h"

/* The store of the data directory the command names, made if need be. */
struct image_host {
    struct worker_settings settings;
    struct image_store *store;
};
bool image_host_open(const struct invocation *invocation, struct image_host *host,
                     struct error *err) MUST_USE;
void image_host_finish(struct image_host *host);

/* Lines of progress on stderr: over each other on a terminal, in a pipe only when is_wordy. */
struct image_meter {
    bool is_terminal, is_wordy, is_open;
};
struct image_meter image_meter(bool is_wordy);
void image_meter_line(void *arg, const char *line); /* arg: the meter */
void image_meter_end(struct image_meter *meter);

/* "41.2 MiB" on a terminal, bytes otherwise; in the arena. */
struct str image_size_text(int64_t bytes, bool is_terminal, struct arena *arena);

/* Deployments (project/image:version) that consist of the image or are built on it. */
bool image_used_by(struct image_store *store, const char *digest, struct arena *arena,
                   struct str **names, size_t *n, struct error *err) MUST_USE;

/* Prints one line of JSON text and a newline. */
bool image_print_json(const struct buf *text);
