/* The holds of all live processes, as a collector sees them in one moment. */
#pragma once

#include <time.h>

#include "base/map.h"
#include "image/store.h"

struct holds {
    struct map blobs, layers; /* hex names */
    struct timespec now;      /* when they were read */
    struct timespec since;    /* what was used then or later may be part of work under way */
};

/* Also removes what the dead left. */
bool holds_read(struct image_store *store, struct holds *holds, struct error *err) MUST_USE;
void holds_finish(struct holds *holds);
bool holds_have(const struct map *names, const char *name);

static inline bool stamp_before(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}
