#include "base/hash.h"

#include <stdbool.h>

static uint32_t crc32c_portable(uint32_t crc, const uint8_t *at, size_t len)
{
    /* Half a byte at a time: small enough to check by eye, and only for old processors. */
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };

    for (; len; at++, len--) {
        crc = table[(crc ^ *at) & 15] ^ crc >> 4;
        crc = table[(crc ^ *at >> 4) & 15] ^ crc >> 4;
    }
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_fast(uint32_t crc, const uint8_t *at,
                                                              size_t len)
{
    uint64_t wide = crc;

    for (; len >= 8; at += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, at, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len; at++, len--)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}
#endif

uint32_t crc32c(uint32_t seed, struct str bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.ptr;

#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc32c_fast(~seed, at, bytes.len);
#endif
    return ~crc32c_portable(~seed, at, bytes.len);
}

static const uint64_t blake2b_iv[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const uint8_t blake2b_sigma[10][16] = {
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
};

static uint64_t rotate_right(uint64_t x, int by)
{
    return x >> by | x << (64 - by);
}

static void mix(uint64_t v[16], const uint8_t at[4], uint64_t x, uint64_t y)
{
    uint64_t a = v[at[0]], b = v[at[1]], c = v[at[2]], d = v[at[3]];

    a += b + x;
    d = rotate_right(d ^ a, 32);
    c += d;
    b = rotate_right(b ^ c, 24);
    a += b + y;
    d = rotate_right(d ^ a, 16);
    c += d;
    b = rotate_right(b ^ c, 63);
    v[at[0]] = a;
    v[at[1]] = b;
    v[at[2]] = c;
    v[at[3]] = d;
}

static void compress(struct blake2b *state, bool is_last)
{
    static const uint8_t lanes[8][4] = {
        {0, 4, 8,  12},
        {1, 5, 9,  13},
        {2, 6, 10, 14},
        {3, 7, 11, 15},
        {0, 5, 10, 15},
        {1, 6, 11, 12},
        {2, 7, 8,  13},
        {3, 4, 9,  14},
    };
    uint64_t v[16], m[16];

    for (int i = 0; i < 16; i++) {
        m[i] = 0;
        for (int byte = 7; byte >= 0; byte--)
            m[i] = m[i] << 8 | state->block[i * 8 + byte];
    }
    memcpy(v, state->h, sizeof state->h);
    memcpy(v + 8, blake2b_iv, sizeof blake2b_iv);
    v[12] ^= state->t[0];
    v[13] ^= state->t[1];
    if (is_last)
        v[14] = ~v[14];

    for (int round = 0; round < 12; round++) {
        const uint8_t *sigma = blake2b_sigma[round % 10];

        for (size_t lane = 0; lane < 8; lane++)
            mix(v, lanes[lane], m[sigma[2 * lane]], m[sigma[2 * lane + 1]]);
    }
    for (int i = 0; i < 8; i++)
        state->h[i] ^= v[i] ^ v[i + 8];
}

static void count(struct blake2b *state, size_t n)
{
    state->t[0] += n;
    state->t[1] += state->t[0] < n;
}

void blake2b_init(struct blake2b *state, struct str key)
{
    *state = (struct blake2b){0};
    memcpy(state->h, blake2b_iv, sizeof blake2b_iv);
    state->h[0] ^= 0x01010000 ^ key.len << 8 ^ BLAKE2B_LEN;
    if (key.len) {
        memcpy(state->block, key.ptr, key.len);
        state->fill = sizeof state->block;
    }
}

void blake2b_update(struct blake2b *state, struct str bytes)
{
    /* The last block is compressed by final, so a full one waits until more comes. */
    while (bytes.len) {
        if (state->fill == sizeof state->block) {
            count(state, sizeof state->block);
            compress(state, false);
            state->fill = 0;
        }

        size_t room = sizeof state->block - state->fill;
        size_t n = bytes.len < room ? bytes.len : room;

        memcpy(state->block + state->fill, bytes.ptr, n);
        state->fill += n;
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
    }
}

void blake2b_final(struct blake2b *state, uint8_t out[BLAKE2B_LEN])
{
    count(state, state->fill);
    memset(state->block + state->fill, 0, sizeof state->block - state->fill);
    compress(state, true);
    for (int i = 0; i < BLAKE2B_LEN; i++)
        out[i] = (uint8_t)(state->h[i / 8] >> (8 * (i % 8)));
}

void blake2b_list(struct str key, const struct str *pieces, size_t n, uint8_t out[BLAKE2B_LEN])
{
    struct blake2b state;

    blake2b_init(&state, key);
    for (size_t i = 0; i < n; i++) {
        uint64_t len = pieces[i].len;
        blake2b_update(&state, (struct str){(const char *)&len, sizeof len});
        blake2b_update(&state, pieces[i]);
    }
    blake2b_final(&state, out);
}
