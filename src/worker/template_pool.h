/* The templates of a worker by their kind: so many as fit into the memory they may take. One that
 * was not used for longest goes first, never one that is being copied or has living copies, for
 * that would free nothing. One that is not there is made by one thread at a time, and one whose
 * copies keep failing is made anew.
 */
#pragma once

#include "base/hash.h"
#include "worker/template.h"

struct template_pool;

void template_pool_create(int64_t max_bytes, struct template_pool **pool);
void template_pool_destroy(struct template_pool *pool); /* accepts NULL */

/* Held for the caller, who drops it; NULL: there is none. */
struct template *template_pool_find(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN]);

/* The one that was stored as this manifest, in the same way. */
struct template *template_pool_find_stored(struct template_pool *pool, struct str manifest);

/* True: there is none, and the caller is the one who makes it and settles. It is not tried again
 * for a while after it could not be made. */
bool template_pool_claim(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN],
                         int64_t now_ms) MUST_USE;

/* The template is the pool's after it; NULL: it could not be made. False: it found no room. */
bool template_pool_settle(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN],
                          struct template *template, int64_t now_ms);

/* How a copy of it went. */
void template_pool_note(struct template_pool *pool, const uint8_t key[BLAKE2B_LEN],
                        const struct template *template, bool worked);
