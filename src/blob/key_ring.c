#include "blob/key_ring.h"

void key_ring_init(struct key_ring *ring, enum seal_domain domain)
{
    ring->keys = (struct seal_keys){domain, ring->list, 0};
}

bool key_ring_add(struct key_ring *ring, struct str key, struct error *err)
{
    if (key.len != SEAL_KEY_LEN)
        return error_set(err, ERR_INVALID, "a key of the store has %d bytes", SEAL_KEY_LEN);
    if (ring->keys.n == KEY_RING_MAX)
        return error_set(err, ERR_INVALID, "there are more than %d keys of the store",
                         KEY_RING_MAX);
    seal_key_init(&ring->list[ring->keys.n++], (const uint8_t *)key.ptr);
    return true;
}

void key_ring_finish(struct key_ring *ring)
{
    while (ring->keys.n > 0)
        seal_key_finish(&ring->list[--ring->keys.n]);
}
