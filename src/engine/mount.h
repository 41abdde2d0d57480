/* Mounts of a sandbox, made inside the launcher's own mount namespace.
 *
 * They are seen by the engine's processes only and end with the last of them, so no
 * crash can leave one behind on the host; mount_is_below proves that nothing else did.
 * The functions that mount run between fork and exec and allocate nothing.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

enum { MOUNT_LAYERS_MAX = 200 };

/* A mount namespace of the caller's own. Mounts made here stay here; unmounts of the host still
 * arrive, so that nothing of another sandbox is held. */
bool mount_isolate(struct error *err) MUST_USE;

/* The layers, lowest first, as one tree at `target`: read-only without `upper`, else writable
 * with changes going to `upper` and `work` (same filesystem). One layer alone is a bind. */
bool mount_layers(const char *const *layers, size_t n, const char *upper, const char *work,
                  const char *target, struct error *err) MUST_USE;

bool mount_bind(const char *source, const char *target, bool is_writable,
                struct error *err) MUST_USE;

/* Hides a directory behind an empty one. */
bool mount_empty(const char *target, struct error *err) MUST_USE;

/* Whether the mount table of this process has an entry at or below the path. */
bool mount_is_below(const char *path, bool *is_below, struct error *err) MUST_USE;

/* Detaches every mount below the path (and at it), the deepest first, then proves absence. */
bool mount_remove_below(const char *path, struct error *err) MUST_USE;
