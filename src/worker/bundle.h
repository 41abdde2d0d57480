/* Task bundles: what a deployment's guests see at /opt/helmr/task and /opt/helmr/deps.
 *
 * A bundle is an archive in the server's store, named by its digest; here it is unpacked
 * once below <work dir>/bundles/<digest> and shared read-only by every run.
 */
#pragma once

#include "worker/link.h"

/* *path is the folder, in the arena. */
bool bundle_open(struct line *line, const char *work_dir, const char *digest, int64_t size,
                 struct arena *arena, const char **path, struct error *err) MUST_USE;

/* Packs the folder (task/, deps/), stores it with the server, and keeps the folder as the local
 * copy. The folder is moved away. */
bool bundle_seal(struct line *line, const char *work_dir, const char *folder, char digest[65],
                 int64_t *size, struct error *err) MUST_USE;
