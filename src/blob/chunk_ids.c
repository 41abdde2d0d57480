/* Ids of many chunks, or digests of many files, at once: four BLAKE2b side by side in the lanes of
 * vector registers, which is three times as fast as one after the other. A lane that has ended
 * takes the next chunk. */
#include <sodium.h>

#include "blob/bytes.h"
#include "blob/chunk.h"

#if defined(__x86_64__)

enum { N_LANES = 4, BLOCK = 128, N_ROUNDS = 12 };

/* A vector type has no other name. */
typedef uint64_t lanes __attribute__((vector_size(8 * N_LANES)));

/* What runs in lanes is written once and compiled for each kind of vector register, by being part
 * of a function that is. Nothing may be called beside it: old and new vector instructions in turns
 * wait for each other. */
#define INLINE static inline __attribute__((always_inline))

/* What one lane is at: its chunk, and how much of it has been taken. */
struct lane {
    struct str rest;
    uint64_t taken, last; /* last: all ones with the last block, as the hash has it */
    uint8_t *id;          /* NULL: it has nothing to do */
    uint8_t padded[BLOCK];
};

struct batch {
    const struct str *chunks;
    uint8_t (*ids)[CHUNK_ID_LEN];
    size_t n, next;
    bool is_keyed;
    uint8_t key_block[BLOCK];
    lanes h[8];
    struct lane lane[N_LANES];
};

static const uint64_t start[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t order[N_ROUNDS][16] = {
    {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15},
    {14, 10, 4,  8,  9,  15, 13, 6,  1,  12, 0,  2,  11, 7,  5,  3 },
    {11, 8,  12, 0,  5,  2,  15, 13, 10, 14, 3,  6,  7,  1,  9,  4 },
    {7,  9,  3,  1,  13, 12, 11, 14, 2,  6,  5,  10, 4,  0,  15, 8 },
    {9,  0,  5,  7,  2,  4,  10, 15, 14, 1,  11, 12, 6,  8,  3,  13},
    {2,  12, 6,  10, 0,  11, 8,  3,  4,  13, 7,  5,  15, 14, 1,  9 },
    {12, 5,  1,  15, 14, 13, 4,  10, 0,  7,  6,  3,  9,  2,  8,  11},
    {13, 11, 7,  14, 12, 1,  3,  9,  5,  0,  15, 4,  8,  6,  2,  10},
    {6,  15, 14, 9,  11, 3,  0,  8,  12, 2,  13, 7,  1,  4,  10, 5 },
    {10, 2,  8,  4,  7,  6,  1,  5,  15, 11, 9,  14, 3,  12, 13, 0 },
    {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15},
    {14, 10, 4,  8,  9,  15, 13, 6,  1,  12, 0,  2,  11, 7,  5,  3 },
};

#define ROTATE(x, n) (((x) >> (n)) | ((x) << (64 - (n))))

#define MIX(a, b, c, d, x, y)           \
    do {                                \
        v[a] += v[b] + (x);             \
        v[d] = ROTATE(v[d] ^ v[a], 32); \
        v[c] += v[d];                   \
        v[b] = ROTATE(v[b] ^ v[c], 24); \
        v[a] += v[b] + (y);             \
        v[d] = ROTATE(v[d] ^ v[a], 16); \
        v[c] += v[d];                   \
        v[b] = ROTATE(v[b] ^ v[c], 63); \
    } while (0)

#define SHUFFLE __builtin_shufflevector

/* Four words of each block become four vectors of one word of all blocks. */
INLINE void load_words(const uint8_t *const block[N_LANES], size_t offset, lanes m[4])
{
    lanes a, b, c, d;

    memcpy(&a, block[0] + offset, sizeof a);
    memcpy(&b, block[1] + offset, sizeof b);
    memcpy(&c, block[2] + offset, sizeof c);
    memcpy(&d, block[3] + offset, sizeof d);
    lanes even = SHUFFLE(a, b, 0, 4, 2, 6), odd = SHUFFLE(a, b, 1, 5, 3, 7);
    lanes even_too = SHUFFLE(c, d, 0, 4, 2, 6), odd_too = SHUFFLE(c, d, 1, 5, 3, 7);
    m[0] = SHUFFLE(even, even_too, 0, 1, 4, 5);
    m[1] = SHUFFLE(odd, odd_too, 0, 1, 4, 5);
    m[2] = SHUFFLE(even, even_too, 2, 3, 6, 7);
    m[3] = SHUFFLE(odd, odd_too, 2, 3, 6, 7);
}

INLINE void compress(lanes h[8], const uint8_t *const block[N_LANES], const lanes *counted,
                     const lanes *last)
{
    lanes v[16], m[16];

#pragma GCC unroll 4
    for (size_t i = 0; i < 16; i += 4)
        load_words(block, 8 * i, m + i);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        v[i] = h[i];
        v[i + 8] = (lanes){start[i], start[i], start[i], start[i]};
    }
    v[12] ^= *counted;
    v[14] ^= *last;
#pragma GCC unroll 12
    for (int r = 0; r < N_ROUNDS; r++) {
        const uint8_t *s = order[r];
        MIX(0, 4, 8, 12, m[s[0]], m[s[1]]);
        MIX(1, 5, 9, 13, m[s[2]], m[s[3]]);
        MIX(2, 6, 10, 14, m[s[4]], m[s[5]]);
        MIX(3, 7, 11, 15, m[s[6]], m[s[7]]);
        MIX(0, 5, 10, 15, m[s[8]], m[s[9]]);
        MIX(1, 6, 11, 12, m[s[10]], m[s[11]]);
        MIX(2, 7, 8, 13, m[s[12]], m[s[13]]);
        MIX(3, 4, 9, 14, m[s[14]], m[s[15]]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        h[i] ^= v[i] ^ v[i + 8];
}

/* The lane begins with the next chunk, or has nothing more to do. Its first block is the key, if
 * there is one. */
INLINE void refill(struct batch *batch, int at)
{
    struct lane *lane = &batch->lane[at];
    const uint64_t key_len = batch->is_keyed ? SEAL_KEY_LEN : 0;
    const uint64_t parameters = 0x01010000 ^ (key_len << 8) ^ CHUNK_ID_LEN;

    *lane = (struct lane){0};
    if (batch->next == batch->n)
        return;
    lane->rest = batch->chunks[batch->next];
    lane->id = batch->ids[batch->next++];
    for (int i = 0; i < 8; i++)
        batch->h[i][at] = start[i] ^ (i == 0 ? parameters : 0);
}

/* The block the lane is at: the key, full ones, and at last one that is padded with zeros. */
INLINE const uint8_t *take_block(const struct batch *batch, struct lane *lane)
{
    if (!lane->id)
        return batch->key_block;
    if (lane->taken == 0 && batch->is_keyed) {
        lane->taken = BLOCK;
        lane->last = lane->rest.len == 0 ? ~(uint64_t)0 : 0;
        return batch->key_block;
    }
    if (lane->rest.len == 0) {
        lane->last = ~(uint64_t)0;
        return lane->padded;
    }
    const char *from = lane->rest.ptr;
    size_t len = lane->rest.len < BLOCK ? lane->rest.len : BLOCK;
    lane->rest = (struct str){from + len, lane->rest.len - len};
    lane->taken += len;
    lane->last = lane->rest.len == 0 ? ~(uint64_t)0 : 0;
    if (len == BLOCK)
        return (const uint8_t *)from;
    memcpy(lane->padded, from, len);
    return lane->padded;
}

INLINE void step(struct batch *batch)
{
    struct lane *lane = batch->lane;
    const uint8_t *block[N_LANES] = {take_block(batch, lane), take_block(batch, lane + 1),
                                     take_block(batch, lane + 2), take_block(batch, lane + 3)};
    lanes counted = {lane[0].taken, lane[1].taken, lane[2].taken, lane[3].taken};
    lanes last = {lane[0].last, lane[1].last, lane[2].last, lane[3].last};

    compress(batch->h, block, &counted, &last);
    for (int i = 0; i < N_LANES; i++) {
        if (!lane[i].last)
            continue;
        for (int word = 0; word < CHUNK_ID_LEN / 8; word++)
            put_u64(lane[i].id + 8 * (size_t)word, batch->h[word][i]);
        refill(batch, i);
    }
}

INLINE bool is_busy(const struct batch *batch)
{
    bool busy = false;

    for (int i = 0; i < N_LANES; i++)
        busy = busy || batch->lane[i].id;
    return busy;
}

INLINE void hash(const struct chunk_key *key, const struct str *chunks, size_t n,
                 uint8_t (*ids)[CHUNK_ID_LEN])
{
    struct batch batch = {.chunks = chunks, .ids = ids, .n = n, .is_keyed = key != NULL};

    if (key)
        memcpy(batch.key_block, key->bytes, SEAL_KEY_LEN);
    for (int i = 0; i < N_LANES; i++)
        refill(&batch, i);
    while (is_busy(&batch))
        step(&batch);
    sodium_memzero(&batch, sizeof batch);
}

__attribute__((target("avx2"))) static void hash_avx2(const struct chunk_key *key,
                                                      const struct str *chunks, size_t n,
                                                      uint8_t (*ids)[CHUNK_ID_LEN])
{
    hash(key, chunks, n, ids);
}

/* It can rotate. */
__attribute__((target("avx512vl"))) static void hash_avx512(const struct chunk_key *key,
                                                            const struct str *chunks, size_t n,
                                                            uint8_t (*ids)[CHUNK_ID_LEN])
{
    hash(key, chunks, n, ids);
}

static bool hash_wide(const struct chunk_key *key, const struct str *chunks, size_t n,
                      uint8_t (*ids)[CHUNK_ID_LEN])
{
    if (__builtin_cpu_supports("avx512vl"))
        hash_avx512(key, chunks, n, ids);
    else if (__builtin_cpu_supports("avx2"))
        hash_avx2(key, chunks, n, ids);
    else
        return false;
    return true;
}

#else

static bool hash_wide(const struct chunk_key *key UNUSED, const struct str *chunks UNUSED,
                      size_t n UNUSED, uint8_t (*ids)[CHUNK_ID_LEN] UNUSED)
{
    return false;
}

#endif

void chunk_ids(const struct chunk_key *key, const struct str *chunks, size_t n,
               uint8_t (*ids)[CHUNK_ID_LEN])
{
    if (n > 1 && hash_wide(key, chunks, n, ids))
        return;
    for (size_t i = 0; i < n; i++)
        chunk_id(key, chunks[i], ids[i]);
}

void chunk_digests(const struct str *texts, size_t n, uint8_t (*digests)[BLAKE2B_LEN])
{
    if (n > 1 && hash_wide(NULL, texts, n, digests))
        return;
    for (size_t i = 0; i < n; i++)
        crypto_generichash(digests[i], BLAKE2B_LEN, (const uint8_t *)texts[i].ptr, texts[i].len,
                           NULL, 0);
}
