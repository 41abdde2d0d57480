/* A container's view of its files under a user namespace: root inside is nobody outside.
 *
 * Everything the container may see is mounted, with its owners shifted, below one small
 * tmpfs that hides /run/helmr in the launcher's own mount namespace: a place that ids
 * without any right on the host can reach. On disk the owners stay as the image has them.
 */
#pragma once

#include <stdint.h>

#include "engine/engine.h"

enum { MAPPED_BASE = 1200000, MAPPED_IDS = 65536, MAPPED_BINDS_MAX = 64 };

#define MAPPED_STAGE "/run/helmr"

struct mapped {
    int userns_fd; /* -1: none */
    const struct sandbox_spec *spec;
    const char *work_dir; /* holds both spec->upper and `work` */
    const char *work;     /* for the overlay, when there is an upper directory */
    struct sandbox_bind binds[MAPPED_BINDS_MAX];
    char bind_paths[MAPPED_BINDS_MAX][48];
    struct sandbox_spec shown; /* the spec as the runtime must see it */
};

/* A user namespace with our one map. */
bool mapped_open(struct mapped *mapped, const struct sandbox_spec *spec, const char *work_dir,
                 const char *work, struct error *err) MUST_USE;
void mapped_finish(struct mapped *mapped);

/* In the launcher, inside its own mount namespace: makes what `shown` names. */
bool mapped_mount(const struct mapped *mapped, struct error *err) MUST_USE;
