/* Hashes that the guest needs too, so without a library. The host uses OpenSSL for SHA-256. */
#pragma once

#include <stdint.h>

#include "base/str.h"

uint32_t crc32c(uint32_t seed, struct str bytes);

enum { BLAKE2B_LEN = 32 };

struct blake2b {
    uint64_t h[8], t[2];
    uint8_t block[128];
    size_t fill;
};

/* BLAKE2b-256, optionally keyed (key.len <= 64). */
void blake2b_init(struct blake2b *state, struct str key);
void blake2b_update(struct blake2b *state, struct str bytes);
void blake2b_final(struct blake2b *state, uint8_t out[BLAKE2B_LEN]);

/* Of a list, each piece after its length, so that no two lists are the same bytes. */
void blake2b_list(struct str key, const struct str *pieces, size_t n, uint8_t out[BLAKE2B_LEN]);
