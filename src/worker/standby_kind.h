/* What makes two sandboxes interchangeable: what they are made of, their sizes and rules, and what
 * their Node has loaded.
 *
 * Kinds that are plain alike differ at most in the module that was imported ahead: one is then as
 * good as the other, only that a run may still have to import its own.
 */
#pragma once

#include "base/arena.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "image/image.h"

struct standby_kind {
    const struct sandbox_spec *spec;
    const struct image_config *config;
    const char *mount;
    const char *module; /* to be imported ahead of a run; NULL: none may be */
};

/* `plain` is the exact key of the same kind without a module. */
struct standby_key {
    uint8_t plain[BLAKE2B_LEN], exact[BLAKE2B_LEN];
};

void standby_kind_key(const struct standby_kind *kind, struct standby_key *key);

/* A copy of everything a kind names; for a sandbox without a lease. */
struct kept_kind {
    struct arena arena;
    struct sandbox_spec spec;
    struct image_config config;
    const char *mount, *module;
};

void kept_kind_init(struct kept_kind *kept, const struct standby_kind *kind);
void kept_kind_finish(struct kept_kind *kept);
