/* Takes out of a step's upper folder what must never enter a layer.
 *
 * These are the platform's own files and the mount points of caches, with the folders that were
 * only made to hold them.
 */
#pragma once

#include "image/view.h"

/* `mounts` are paths inside the image, absolute. `below` is the image before the step. */
bool prune_upper(int upper, const struct view *below, const char *const *mounts, size_t n,
                 struct error *err) MUST_USE;
