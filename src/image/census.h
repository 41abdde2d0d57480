/* A census: everything in the store at one moment, when it was last used, and who reaches it.
 *
 * While a census lives no other collector removes anything. What is used meanwhile has a later
 * time than the census knows, and is therefore not removed.
 */
#pragma once

#include "image/hold.h"

enum thing_kind { THING_BLOB, THING_LAYER, THING_STEP, THING_CACHE, THING_BUNDLE, THING_DRIVE };

enum {
    REACH_NAME = 1,  /* by a reference that only this store knows */
    REACH_LOCAL = 2, /* by a deployment's: the server has it too */
    REACH_STEP = 4,  /* by a finished step */
    REACH_HELD = 8,
    REACH_PART = 16, /* a manifest or configuration of a named image: small, and tells the rest */
};

struct thing {
    enum thing_kind kind;
    unsigned reach;
    const char *folder, *name; /* folder: below <work>, for steps, caches, bundles, drives */
    int64_t size;
    struct timespec used;
    struct thing *blob; /* of a step: its layer, or NULL */
    bool has_layer;     /* of a step */
    bool is_gone;
};

struct census {
    struct image_store *store;
    struct arena arena;
    struct holds holds;
    struct thing **things;
    size_t n, room;
    struct map blobs, layers; /* hex name to thing */
    int lock;
};

/* Blobs, unpacked layers and steps, marked by holds and steps. ERR_CONFLICT when another has a
 * census and this one may not wait. */
bool census_open(struct image_store *store, bool may_wait, struct census *census,
                 struct error *err) MUST_USE;
/* The same, marked by references too. */
bool census_take(struct image_store *store, bool may_wait, struct census *census,
                 struct error *err) MUST_USE;
void census_finish(struct census *census);

/* One thing more, its size and time unknown yet; `folder` must live as long as the census. */
struct thing *census_add(struct census *census, enum thing_kind kind, const char *folder,
                         const char *name);

/* When it was last used, by what is on disk now; false when it is gone. */
bool census_used(struct census *census, const struct thing *thing, int folder,
                 struct timespec *used);

int64_t census_bytes(const struct census *census);

/* Whether the thing may go at all: nobody holds it, no work under way uses it. */
bool census_is_idle(const struct census *census, const struct thing *thing);

/* Removes it, unless it was used meanwhile; thing->is_gone tells. */
bool census_remove(struct census *census, struct thing *thing, struct image_collected *collected,
                   struct error *err) MUST_USE;

/* Removes what was left unfinished in tmp/ more than a day ago by processes that died. */
bool census_sweep(struct census *census, struct error *err) MUST_USE;

/* Counts it as gone and leaves it. */
void census_count(struct thing *thing, struct image_collected *collected);
