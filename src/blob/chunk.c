#include "blob/chunk.h"

#include <endian.h>
#include <sodium.h>

#include "base/buf.h"

const struct chunk_sizes chunk_sizes_file = {KIB(16), KIB(64), KIB(256)};
const struct chunk_sizes chunk_sizes_memory = {2 << 10, 4 << 10, 16 << 10};

/* The hash of 64 bytes back is shifted out, so it need not be older when a cut becomes legal. */
enum { WINDOW = 64 };

void chunk_key_init(struct chunk_key *key, const struct seal_key *domain)
{
    crypto_generichash(key->bytes, SEAL_KEY_LEN, (const uint8_t *)"helmr chunk", 11, domain->bytes,
                       SEAL_KEY_LEN);
}

void chunk_key_finish(struct chunk_key *key)
{
    sodium_memzero(key, sizeof *key);
}

void chunk_id(const struct chunk_key *key, struct str bytes, uint8_t id[CHUNK_ID_LEN])
{
    crypto_generichash(id, CHUNK_ID_LEN, (const uint8_t *)bytes.ptr, bytes.len, key->bytes,
                       sizeof key->bytes);
}

bool chunk_is_zero(struct str bytes)
{
    return bytes.len > 0 && bytes.ptr[0] == 0 &&
           memcmp(bytes.ptr, bytes.ptr + 1, bytes.len - 1) == 0;
}

/* The topmost bits: they depend on the most bytes. */
static uint64_t top_bits(unsigned n)
{
    return ~(uint64_t)0 << (64 - n);
}

void chunker_init(struct chunker *chunker, const struct chunk_key *key, struct chunk_sizes sizes)
{
    uint8_t seed[crypto_stream_chacha20_KEYBYTES];
    static const uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
    unsigned bits = (unsigned)__builtin_ctz(sizes.mean);

    crypto_generichash(seed, sizeof seed, (const uint8_t *)"helmr gear", 10, key->bytes,
                       sizeof key->bytes);
    crypto_stream_chacha20((uint8_t *)chunker->gear, sizeof chunker->gear, nonce, seed);
    sodium_memzero(seed, sizeof seed);
    for (size_t i = 0; i < COUNT_OF(chunker->gear); i++)
        chunker->gear[i] = le64toh(chunker->gear[i]);
    chunker->sizes = sizes;
    chunker->strict = top_bits(bits + 1);
    chunker->loose = top_bits(bits - 1);
}

/* The first place from `at` on, before `end`, after which the hash has no bit of the mask. */
static size_t find_cut(const struct chunker *chunker, const uint8_t *bytes, size_t at, size_t end,
                       uint64_t mask, uint64_t *hash)
{
    const uint64_t *gear = chunker->gear;
    uint64_t h = *hash;

    for (; at + 4 <= end; at += 4) {
        uint64_t a = (h << 1) + gear[bytes[at]];
        uint64_t b = (a << 1) + gear[bytes[at + 1]];
        uint64_t c = (b << 1) + gear[bytes[at + 2]];
        h = (c << 1) + gear[bytes[at + 3]];
        if (!(a & mask))
            return at + 1;
        if (!(b & mask))
            return at + 2;
        if (!(c & mask))
            return at + 3;
        if (!(h & mask))
            return at + 4;
    }
    for (; at < end; at++) {
        h = (h << 1) + gear[bytes[at]];
        if (!(h & mask))
            return at + 1;
    }
    *hash = h;
    return 0;
}

size_t chunker_cut(const struct chunker *chunker, struct str bytes)
{
    const uint8_t *from = (const uint8_t *)bytes.ptr;
    const struct chunk_sizes *sizes = &chunker->sizes;
    size_t end = bytes.len < sizes->max ? bytes.len : sizes->max;
    size_t mean = end < sizes->mean ? end : sizes->mean;
    uint64_t hash = 0;

    if (end <= sizes->min)
        return end;
    for (size_t i = sizes->min - WINDOW; i < sizes->min; i++)
        hash = (hash << 1) + chunker->gear[from[i]];
    size_t cut = find_cut(chunker, from, sizes->min, mean, chunker->strict, &hash);
    if (!cut)
        cut = find_cut(chunker, from, mean, end, chunker->loose, &hash);
    return cut ? cut : end;
}
