/* The keys of the store as somebody holds them while working: the current one first, then those
 * it still reads. Wiped when released; what lasts longer is kept in a struct secret.
 */
#pragma once

#include "blob/seal.h"

enum { KEY_RING_MAX = 16 };

struct key_ring {
    struct seal_key list[KEY_RING_MAX];
    struct seal_keys keys; /* of the domain; borrows the list */
};

void key_ring_init(struct key_ring *ring, enum seal_domain domain);

/* A key of SEAL_KEY_LEN bytes. */
bool key_ring_add(struct key_ring *ring, struct str key, struct error *err) MUST_USE;
void key_ring_finish(struct key_ring *ring);
