#include "blob/pack.h"

#include "base/test.h"
#include "blob/pack_index.h"
#include "blob/testing.h"

enum { N_CHUNKS = 40, CHUNK_LEN = 50000 };

struct made {
    struct buf sealed;
    struct seal_facts facts;
    uint8_t ids[N_CHUNKS][CHUNK_ID_LEN];
};

static void made_finish(struct made *made)
{
    buf_finish(&made->sealed);
}

static void fill_chunk(size_t i, uint8_t bytes[CHUNK_LEN])
{
    (i % 3 ? test_prose : test_noise)(i, bytes, CHUNK_LEN);
}

/* `n` chunks of `len` bytes, a third of them incompressible. */
static bool make_pack(const struct seal_keys *keys, size_t n, size_t len, struct made *made,
                      struct error *err)
{
    AUTO(seal_writer_finish) struct seal_writer seal = {0};
    AUTO(pack_writer_finish) struct pack_writer writer = {0};
    struct seal_plan plan = {keys, SEAL_PACK};
    static uint8_t bytes[CHUNK_LEN];
    struct chunk_key key;

    chunk_key_init(&key, &keys->keys[0]);
    if (!pack_writer_begin(&writer, &seal, &plan, test_sink(&made->sealed), err))
        return false;
    for (size_t i = 0; i < n; i++) {
        fill_chunk(i, bytes);
        struct str chunk = {(char *)bytes, len};
        chunk_id(&key, chunk, made->ids[i]);
        if (!pack_writer_add(&writer, made->ids[i], chunk, err))
            return false;
    }
    return pack_writer_end(&writer, &made->facts, err);
}

/* Every chunk of the pack is what it was. */
static bool reads_back(const struct seal_keys *keys, const struct made *made, size_t n, size_t len,
                       struct error *err)
{
    AUTO(pack_reader_finish) struct pack_reader reader = {0};
    static uint8_t want[CHUNK_LEN];
    struct str sealed = buf_str(&made->sealed), bytes;

    if (!pack_reader_begin(&reader, keys, seal_source_memory(&sealed), err))
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t which = i * 7 % n;
        fill_chunk(which, want);
        if (!pack_reader_chunk(&reader, made->ids[which], &bytes, err))
            return false;
        if (!str_equal(bytes, (struct str){(char *)want, len}))
            return error_set(err, ERR_INTERNAL, "chunk %zu is another", which);
    }
    return true;
}

TEST(every_chunk_is_found_again_in_any_order)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(made_finish) struct made made = {0};
    struct error err;

    CHECK(make_pack(&keys, N_CHUNKS, CHUNK_LEN, &made, &err));
    CHECK(made.facts.size == made.sealed.len);
    CHECK(made.sealed.len < (size_t)N_CHUNKS * CHUNK_LEN * 3 / 4);
    CHECK(reads_back(&keys, &made, N_CHUNKS, CHUNK_LEN, &err));

    AUTO(pack_reader_finish) struct pack_reader reader = {0};
    struct str sealed = buf_str(&made.sealed), bytes;
    CHECK(pack_reader_begin(&reader, &keys, seal_source_memory(&sealed), &err));
    CHECK(reader.n_chunks == N_CHUNKS && reader.n_records == 2);
    uint8_t unknown[CHUNK_ID_LEN] = {0};
    CHECK(pack_reader_has(&reader, made.ids[5]) && !pack_reader_has(&reader, unknown));
    CHECK(!pack_reader_chunk(&reader, unknown, &bytes, &err) && err.code == ERR_DAMAGED);
}

TEST(an_empty_pack_is_a_pack)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(made_finish) struct made made = {0};
    struct error err;

    CHECK(make_pack(&keys, 0, 1, &made, &err));
    CHECK(reads_back(&keys, &made, 0, 1, &err));
}

TEST(flipping_any_byte_of_a_pack_is_refused)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(made_finish) struct made made = {0};
    struct error err;

    CHECK(make_pack(&keys, 3, 200, &made, &err));
    CHECK(reads_back(&keys, &made, 3, 200, &err));
    for (size_t i = 0; i < made.sealed.len; i++) {
        made.sealed.bytes[i] ^= 0x41;
        CHECK(!reads_back(&keys, &made, 3, 200, &err));
        CHECK(err.code == ERR_DAMAGED || err.code == ERR_KEY_MISSING);
        made.sealed.bytes[i] ^= 0x41;
    }
    size_t whole = made.sealed.len;
    for (made.sealed.len = 0; made.sealed.len < whole; made.sealed.len++)
        CHECK(!reads_back(&keys, &made, 3, 200, &err) && err.code == ERR_DAMAGED);
}

/* Somebody with the key lies about what a chunk is: still no wrong byte is handed out. */
TEST(a_chunk_under_a_wrong_id_is_refused)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(seal_writer_finish) struct seal_writer seal = {0};
    AUTO(pack_writer_finish) struct pack_writer writer = {0};
    AUTO(pack_reader_finish) struct pack_reader reader = {0};
    AUTO(buf_finish) struct buf sealed = {0};
    struct seal_plan plan = {&keys, SEAL_PACK};
    struct seal_facts facts;
    struct error err;
    struct str bytes;
    uint8_t id[CHUNK_ID_LEN] = {1};

    CHECK(pack_writer_begin(&writer, &seal, &plan, test_sink(&sealed), &err));
    CHECK(pack_writer_add(&writer, id, STR("not what the id says"), &err));
    CHECK(pack_writer_end(&writer, &facts, &err));
    struct str source = buf_str(&sealed);
    CHECK(pack_reader_begin(&reader, &keys, seal_source_memory(&source), &err));
    CHECK(!pack_reader_chunk(&reader, id, &bytes, &err) && err.code == ERR_DAMAGED);
}

TEST(chunks_are_checked_under_the_key_of_their_pack)
{
    struct seal_keys old = test_keys(1, 1), rotated = test_keys(0, 2), other = test_keys(2, 1);
    AUTO(made_finish) struct made made = {0};
    struct error err;

    CHECK(make_pack(&old, N_CHUNKS, 1000, &made, &err));
    CHECK(reads_back(&rotated, &made, N_CHUNKS, 1000, &err));
    CHECK(!reads_back(&other, &made, N_CHUNKS, 1000, &err) && err.code == ERR_KEY_MISSING);
}

static bool write_some(void *arg, struct str bytes, struct error *err)
{
    size_t *left = arg;

    if (bytes.len > *left)
        return error_set(err, ERR_UNAVAILABLE, "no room");
    *left -= bytes.len;
    return true;
}

/* Records are sealed by a thread of their own: its failure must arrive here, whenever it is. */
TEST(a_sink_that_fails_at_any_record_ends_the_pack)
{
    enum { RECORDS = 8, PIECE = CHUNK_MAX };
    struct seal_keys keys = test_keys(0, 1);
    AUTO(seal_writer_finish) struct seal_writer seal = {0};
    AUTO(pack_writer_finish) struct pack_writer writer = {0};
    AUTO_FREE uint8_t *bytes = alloc((size_t)RECORDS * SEAL_RAW_MAX);
    struct seal_plan plan = {&keys, SEAL_PACK};
    struct seal_facts facts;
    struct error err;

    test_noise(1, bytes, (size_t)RECORDS * SEAL_RAW_MAX);
    for (size_t room = 0; room <= RECORDS + 1; room++) {
        size_t left = SEAL_HEADER_LEN + room * (SEAL_HEAD_LEN + SEAL_RAW_MAX + SEAL_TAG_LEN);
        bool fine =
            pack_writer_begin(&writer, &seal, &plan, (struct seal_sink){write_some, &left}, &err);
        CHECK(fine);
        for (uint8_t i = 0; fine && i < RECORDS * (SEAL_RAW_MAX / PIECE); i++) {
            uint8_t id[CHUNK_ID_LEN] = {i};
            fine = pack_writer_add(&writer, id,
                                   (struct str){(char *)bytes + (size_t)i * PIECE, PIECE}, &err);
        }
        fine = fine && pack_writer_end(&writer, &facts, &err);
        CHECK(fine == (room > RECORDS));
        CHECK(fine || err.code == ERR_UNAVAILABLE);
    }
    /* Given up half-way, a writer can be begun again or finished. */
    size_t left = SIZE_MAX;
    for (int round = 0; round < 2; round++) {
        CHECK(
            pack_writer_begin(&writer, &seal, &plan, (struct seal_sink){write_some, &left}, &err));
        for (uint8_t i = 0; i < 20; i++) {
            uint8_t id[CHUNK_ID_LEN] = {i};
            CHECK(pack_writer_add(&writer, id,
                                  (struct str){(char *)bytes + (size_t)i * PIECE, PIECE}, &err));
        }
    }
}

static bool decodes(const struct pack_index *index, uint64_t end)
{
    AUTO_FREE uint8_t *bytes = alloc(pack_index_len(index));
    struct pack_index copy = *index, read;
    struct error err;

    pack_index_encode(&copy, bytes);
    if (!pack_index_decode((struct str){(char *)bytes, pack_index_len(index)}, end, &read, &err))
        return false;
    free(read.chunks);
    free(read.records);
    return true;
}

TEST(an_index_that_points_outside_is_refused)
{
    struct pack_record record = {SEAL_HEADER_LEN, 116, 200};
    struct pack_chunk chunk = {.record = 0, .offset = 100, .len = 100};
    struct pack_index index = {&chunk, &record, 1, 1};
    const uint64_t end = SEAL_HEADER_LEN + SEAL_HEAD_LEN + 116;

    CHECK(decodes(&index, end) && !decodes(&index, end + 1));
    chunk.len = 101;
    CHECK(!decodes(&index, end));
    chunk.len = 0;
    CHECK(!decodes(&index, end));
    chunk = (struct pack_chunk){.record = 1, .offset = 0, .len = 1};
    CHECK(!decodes(&index, end));
    chunk = (struct pack_chunk){.offset = UINT32_MAX, .len = 2};
    CHECK(!decodes(&index, end));
    chunk = (struct pack_chunk){.len = 1};
    record.raw = SEAL_RAW_MAX + 1;
    CHECK(!decodes(&index, end));
    record = (struct pack_record){SEAL_HEADER_LEN + 1, 115, 200};
    CHECK(!decodes(&index, end));
}

TEST_MAIN()
