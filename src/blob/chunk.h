/* Chunks: pieces of a stream, cut where the content says so and known by a keyed hash.
 *
 * Cutting depends only on the bytes since the last cut, so an insertion moves the cuts beside it
 * and no others. The hash and the table that decides about cuts come from the domain key: neither
 * ids nor lengths tell anything to whom does not have it.
 */
#pragma once

#include <stdint.h>

#include "base/hash.h"
#include "blob/seal.h"

enum { CHUNK_ID_LEN = 32, CHUNK_MAX = 256 * 1024 };

struct chunk_key {
    uint8_t bytes[SEAL_KEY_LEN];
};

/* Bytes of a chunk; the mean is a power of two between the others. */
struct chunk_sizes {
    uint32_t min, mean, max;
};

struct chunker {
    uint64_t gear[256];
    uint64_t strict, loose; /* masks: before the mean, and from there on */
    struct chunk_sizes sizes;
};

extern const struct chunk_sizes chunk_sizes_file;   /* 16, 64, 256 KiB */
extern const struct chunk_sizes chunk_sizes_memory; /* 2, 4, 16 KiB: what differs is scattered */

void chunk_key_init(struct chunk_key *key, const struct seal_key *domain);
void chunk_key_finish(struct chunk_key *key);

void chunk_id(const struct chunk_key *key, struct str bytes, uint8_t id[CHUNK_ID_LEN]);
/* The ids of many, which is faster than one after the other. */
void chunk_ids(const struct chunk_key *key, const struct str *chunks, size_t n,
               uint8_t (*ids)[CHUNK_ID_LEN]);
/* BLAKE2b-256 of many texts, without a key, in the same way. */
void chunk_digests(const struct str *texts, size_t n, uint8_t (*digests)[BLAKE2B_LEN]);
bool chunk_is_zero(struct str bytes);

void chunker_init(struct chunker *chunker, const struct chunk_key *key, struct chunk_sizes sizes);

/* The length of the first chunk. Give at least sizes.max bytes unless the stream ends with them;
 * 0 only for no bytes. */
size_t chunker_cut(const struct chunker *chunker, struct str bytes);
