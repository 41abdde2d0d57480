#include "blob/chunk.h"

#include "base/test.h"
#include "blob/testing.h"

enum { LEN = 4 << 20, EDIT = 1000 };

static struct chunker chunker_for(size_t key, struct chunk_sizes sizes)
{
    struct seal_keys keys = test_keys(key, 1);
    struct chunk_key subkey;
    struct chunker chunker;

    chunk_key_init(&subkey, &keys.keys[0]);
    chunker_init(&chunker, &subkey, sizes);
    return chunker;
}

static size_t cuts_of(const struct chunker *chunker, struct str bytes, size_t *cuts)
{
    size_t n = 0;

    for (size_t at = 0; at < bytes.len;) {
        at += chunker_cut(chunker, (struct str){bytes.ptr + at, bytes.len - at});
        cuts[n++] = at;
    }
    return n;
}

TEST(chunks_keep_their_sizes_and_lose_nothing)
{
    static const struct chunk_sizes *sizes[] = {&chunk_sizes_file, &chunk_sizes_memory};
    AUTO_FREE uint8_t *bytes = alloc(LEN);
    AUTO_FREE size_t *cuts = alloc(LEN / 1024 * sizeof *cuts);

    test_noise(1, bytes, LEN);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct chunker chunker = chunker_for(0, *sizes[i]);
        size_t n = cuts_of(&chunker, (struct str){(char *)bytes, LEN}, cuts);
        CHECK(cuts[n - 1] == LEN);
        for (size_t k = 0; k < n; k++) {
            size_t len = cuts[k] - (k ? cuts[k - 1] : 0);
            CHECK(len <= sizes[i]->max && (len >= sizes[i]->min || k == n - 1));
        }
        CHECK(n > LEN / sizes[i]->mean / 2 && n / 2 < LEN / sizes[i]->mean);
    }
    struct chunker chunker = chunker_for(0, chunk_sizes_file);
    CHECK(chunker_cut(&chunker, (struct str){(char *)bytes, 0}) == 0);
    CHECK(chunker_cut(&chunker, (struct str){(char *)bytes, KIB(16)}) == KIB(16));
}

/* What is read ahead of the largest chunk must not matter. */
TEST(a_cut_depends_on_nothing_behind_it)
{
    AUTO_FREE uint8_t *bytes = alloc(LEN);
    struct chunker chunker = chunker_for(0, chunk_sizes_memory);

    test_noise(2, bytes, LEN);
    for (size_t at = 0; at < LEN - chunk_sizes_memory.max;) {
        size_t all = chunker_cut(&chunker, (struct str){(char *)bytes + at, LEN - at});
        size_t part =
            chunker_cut(&chunker, (struct str){(char *)bytes + at, chunk_sizes_memory.max});
        CHECK(all == part);
        at += all;
    }
}

TEST(an_insertion_moves_only_the_cuts_beside_it)
{
    AUTO_FREE uint8_t *bytes = alloc(LEN + EDIT);
    AUTO_FREE size_t *before = alloc(LEN / 1024 * sizeof *before);
    AUTO_FREE size_t *after = alloc(LEN / 1024 * sizeof *after);
    struct chunker chunker = chunker_for(0, chunk_sizes_memory);
    size_t same = 0;

    test_noise(3, bytes, LEN);
    size_t n_before = cuts_of(&chunker, (struct str){(char *)bytes, LEN}, before);
    memmove(bytes + LEN / 2 + EDIT, bytes + LEN / 2, LEN / 2);
    size_t n_after = cuts_of(&chunker, (struct str){(char *)bytes, LEN + EDIT}, after);
    for (size_t i = 0, k = 0; i < n_before && k < n_after;) {
        size_t moved = before[i] + (before[i] > LEN / 2 ? EDIT : 0);
        same += moved == after[k];
        if (moved < after[k])
            i++;
        else if (moved > after[k])
            k++;
        else
            i++, k++;
    }
    CHECK(same + 8 > n_before);
}

TEST(another_key_cuts_and_names_differently)
{
    AUTO_FREE uint8_t *bytes = alloc(LEN);
    AUTO_FREE size_t *first = alloc(LEN / 1024 * sizeof *first);
    AUTO_FREE size_t *second = alloc(LEN / 1024 * sizeof *second);
    struct chunker a = chunker_for(0, chunk_sizes_memory), b = chunker_for(1, chunk_sizes_memory);
    struct seal_keys keys = test_keys(0, 2);
    struct chunk_key key_a, key_b;
    uint8_t id_a[CHUNK_ID_LEN], id_b[CHUNK_ID_LEN];

    test_noise(4, bytes, LEN);
    size_t n = cuts_of(&a, (struct str){(char *)bytes, LEN}, first);
    (void)cuts_of(&b, (struct str){(char *)bytes, LEN}, second);
    CHECK(memcmp(first, second, n / 2 * sizeof *first) != 0);
    chunk_key_init(&key_a, &keys.keys[0]);
    chunk_key_init(&key_b, &keys.keys[1]);
    chunk_id(&key_a, STR("same"), id_a);
    chunk_id(&key_b, STR("same"), id_b);
    CHECK(memcmp(id_a, id_b, sizeof id_a) != 0);
}

/* Lengths around the blocks of the hash, in every lane and in batches of every size. */
TEST(ids_of_many_are_those_of_each)
{
    static const size_t lengths[] = {0, 1, 127, 128, 129, 255, 256, 257, 4096, 20000, 64, 3};
    enum { N = 3 * COUNT_OF(lengths) };
    AUTO_FREE uint8_t *bytes = alloc(KIB(64));
    struct seal_keys keys = test_keys(0, 1);
    uint8_t ids[N][CHUNK_ID_LEN], want[CHUNK_ID_LEN];
    struct str chunks[N];
    struct chunk_key key;

    test_noise(7, bytes, KIB(64));
    chunk_key_init(&key, &keys.keys[0]);
    for (size_t n = 0; n <= N; n++) {
        for (size_t i = 0; i < n; i++)
            chunks[i] = (struct str){(char *)bytes + 11 * i + n, lengths[(i * 5 + n) % 12]};
        chunk_ids(&key, chunks, n, ids);
        for (size_t i = 0; i < n; i++) {
            chunk_id(&key, chunks[i], want);
            CHECK(memcmp(want, ids[i], CHUNK_ID_LEN) == 0);
        }
    }
}

TEST(digests_of_many_are_those_of_each)
{
    static const size_t lengths[] = {0, 1, 127, 128, 129, 255, 256, 257, 4096, 20000, 64, 3};
    enum { N = 2 * COUNT_OF(lengths) };
    AUTO_FREE uint8_t *bytes = alloc(KIB(64));
    uint8_t digests[N][BLAKE2B_LEN], want[BLAKE2B_LEN];
    struct str texts[N] = {0};

    test_noise(8, bytes, KIB(64));
    for (size_t n = 0; n <= N; n++) {
        for (size_t i = 0; i < n; i++)
            texts[i] = (struct str){(char *)bytes + 13 * i + n, lengths[(i * 7 + n) % 12]};
        if (n > 0)
            texts[n / 2] = (struct str){0};
        chunk_digests(texts, n, digests);
        for (size_t i = 0; i < n; i++) {
            struct blake2b state;
            blake2b_init(&state, (struct str){0});
            blake2b_update(&state, texts[i]);
            blake2b_final(&state, want);
            CHECK(memcmp(want, digests[i], BLAKE2B_LEN) == 0);
        }
    }
}

TEST(zeros_are_known_as_such)
{
    AUTO_FREE char *bytes = alloc(KIB(64));
    struct chunker chunker = chunker_for(0, chunk_sizes_memory);

    memset(bytes, 0, KIB(64));
    CHECK(chunk_is_zero((struct str){bytes, KIB(64)}) && chunk_is_zero((struct str){bytes, 1}));
    CHECK(!chunk_is_zero((struct str){bytes, 0}));
    CHECK(chunker_cut(&chunker, (struct str){bytes, KIB(64)}) >= KIB(4));
    bytes[KIB(64) - 1] = 1;
    CHECK(!chunk_is_zero((struct str){bytes, KIB(64)}));
    bytes[KIB(64) - 1] = 0;
    bytes[0] = 1;
    CHECK(!chunk_is_zero((struct str){bytes, KIB(64)}));
}

TEST_MAIN()
