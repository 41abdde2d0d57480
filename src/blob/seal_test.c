#include "blob/seal.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/test.h"
#include "blob/testing.h"

/* An object of one blob in records of `record` bytes. */
static bool seal_bytes(const struct seal_keys *keys, uint32_t record, struct str bytes,
                       struct buf *out, struct seal_facts *facts, struct error *err)
{
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    struct seal_plan plan = {keys, SEAL_BLOB, .record = record};

    if (!seal_writer_begin(&writer, &plan, test_sink(out), err) ||
        !seal_writer_add(&writer, bytes, err) || !seal_writer_end(&writer, err))
        return false;
    seal_writer_facts(&writer, facts);
    return true;
}

/* All of it, or nothing. */
static bool unseal_bytes(const struct seal_keys *keys, struct str sealed, struct buf *out,
                         struct error *err)
{
    AUTO(seal_reader_finish) struct seal_reader reader = {0};
    struct str bytes;
    bool is_last = false;

    *out = (struct buf){.max = MIB(64)};
    if (!seal_reader_begin(&reader, keys, SEAL_BLOB, seal_source_memory(&sealed), err))
        return false;
    while (!is_last) {
        if (!seal_reader_next(&reader, &bytes, &is_last, err) || !buf_append(out, bytes, err))
            return false;
    }
    return true;
}

static bool opens(const struct seal_keys *keys, struct str sealed, struct error *err)
{
    AUTO(buf_finish) struct buf out = {0};
    return unseal_bytes(keys, sealed, &out, err);
}

TEST(what_was_sealed_is_read_back)
{
    static const size_t sizes[] = {0, 1, 2, 4095, 4096, 4097, 8192, 100000};
    struct seal_keys keys = test_keys(0, 1);
    AUTO_FREE uint8_t *bytes = alloc(100000);

    for (size_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
        AUTO(buf_finish) struct buf sealed = {0};
        AUTO(buf_finish) struct buf back = {0};
        struct seal_facts facts;
        struct error err;
        size_t len = sizes[i / 2];
        (i % 2 ? test_noise : test_prose)(i, bytes, len);
        struct str raw = {(const char *)bytes, len};
        CHECK(seal_bytes(&keys, 4096, raw, &sealed, &facts, &err));
        CHECK(unseal_bytes(&keys, buf_str(&sealed), &back, &err));
        CHECK(str_equal(buf_str(&back), raw));
        CHECK(facts.size == sealed.len && facts.class == SEAL_BLOB);
    }
}

TEST(bytes_that_compress_take_less_and_others_hardly_more)
{
    struct seal_keys keys = test_keys(0, 1);
    struct error err;
    struct seal_facts facts;
    AUTO_FREE uint8_t *bytes = alloc(MIB(3));

    test_prose(1, bytes, MIB(3));
    AUTO(buf_finish) struct buf prose = {0};
    CHECK(seal_bytes(&keys, 0, (struct str){(char *)bytes, MIB(3)}, &prose, &facts, &err));
    CHECK(prose.len < MIB(3) / 2);
    test_noise(1, bytes, MIB(3));
    AUTO(buf_finish) struct buf noise = {0};
    CHECK(seal_bytes(&keys, 0, (struct str){(char *)bytes, MIB(3)}, &noise, &facts, &err));
    CHECK(noise.len == MIB(3) + SEAL_HEADER_LEN + (size_t)3 * (SEAL_HEAD_LEN + SEAL_TAG_LEN));
}

/* The header as written down in the specification, byte by byte. */
TEST(the_header_has_every_field_in_its_place)
{
    struct seal_keys keys = test_keys(1, 1);
    AUTO(buf_finish) struct buf sealed = {0};
    struct seal_facts facts;
    struct error err;
    uint8_t digest[32];

    CHECK(seal_bytes(&keys, 0, STR("abc"), &sealed, &facts, &err));
    const uint8_t *at = (const uint8_t *)sealed.bytes;
    CHECK(memcmp(at, "HLMRSO01", 8) == 0 && at[8] == 1 && at[9] == 0);
    CHECK(at[10] == SEAL_STORE && at[11] == SEAL_BLOB && at[12] == 1);
    CHECK(at[13] == 0 && at[14] == 0 && at[15] == 0);
    CHECK(memcmp(at + 16, keys.keys[0].id, 8) == 0);
    CHECK(!sodium_is_zero(at + 24, 16) && !sodium_is_zero(at + 40, 32) &&
          !sodium_is_zero(at + 72, 8));
    CHECK(at[82] == 16 && sodium_is_zero(at + 84, 12));

    crypto_generichash(digest, sizeof digest, keys.keys[0].bytes, 32, NULL, 0);
    CHECK(memcmp(digest, keys.keys[0].id, 8) == 0);
    char text[SHA256_HEX];
    sha256_of(buf_str(&sealed), text);
    CHECK_STR(text, facts.digest);
}

/* Opened with nothing but libsodium, by the words of the specification. */
TEST(a_record_is_what_the_specification_says)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(buf_finish) struct buf sealed = {0};
    struct seal_facts facts;
    struct error err;

    CHECK(seal_bytes(&keys, 4, STR("abcdefg"), &sealed, &facts, &err));
    const uint8_t *header = (const uint8_t *)sealed.bytes;
    uint8_t text[12 + SEAL_HEADER_LEN], key[32], aad[32 + 16 + 8 + 1 + 4] = {0}, nonce[24] = {1};
    snprintf((char *)text, sizeof text, "helmr object");
    memcpy(text + 12, header, SEAL_HEADER_LEN);
    crypto_generichash(key, 32, text, sizeof text, keys.keys[0].bytes, 32);

    const uint8_t *second = header + SEAL_HEADER_LEN + SEAL_HEAD_LEN + 4 + SEAL_TAG_LEN;
    CHECK(second[0] == 3 + SEAL_TAG_LEN && second[4] == 3);
    CHECK(second[8] == (SEAL_LAST | SEAL_STORED));
    crypto_generichash(aad, 32, header, SEAL_HEADER_LEN, NULL, 0);
    memcpy(aad + 32, header + 24, 16);
    aad[48] = 1;
    aad[56] = second[8];
    aad[57] = 3;
    uint8_t plain[3];
    CHECK(crypto_aead_xchacha20poly1305_ietf_decrypt(plain, NULL, NULL, second + 9, 19, aad,
                                                     sizeof aad, nonce, key) == 0);
    CHECK(memcmp(plain, "efg", 3) == 0);
}

TEST(flipping_any_byte_is_refused)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(buf_finish) struct buf sealed = {0};
    struct seal_facts facts;
    struct error err;
    uint8_t bytes[700];

    test_prose(1, bytes, 500);
    test_noise(2, bytes + 500, 200);
    CHECK(seal_bytes(&keys, 256, (struct str){(char *)bytes, sizeof bytes}, &sealed, &facts, &err));
    CHECK(opens(&keys, buf_str(&sealed), &err));
    for (size_t i = 0; i < sealed.len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            ((uint8_t *)sealed.bytes)[i] ^= (uint8_t)(1 << bit);
            CHECK(!opens(&keys, buf_str(&sealed), &err));
            bool is_key_id = i >= 16 && i < 24;
            CHECK(err.code == (is_key_id ? ERR_KEY_MISSING : ERR_DAMAGED));
            ((uint8_t *)sealed.bytes)[i] ^= (uint8_t)(1 << bit);
        }
    }
}

TEST(truncation_is_refused)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(buf_finish) struct buf sealed = {0};
    struct seal_facts facts;
    struct error err;
    uint8_t bytes[1024];

    test_noise(3, bytes, sizeof bytes);
    CHECK(seal_bytes(&keys, 256, (struct str){(char *)bytes, sizeof bytes}, &sealed, &facts, &err));
    for (size_t len = 0; len < sealed.len; len++) {
        CHECK(!opens(&keys, (struct str){sealed.bytes, len}, &err));
        CHECK(err.code == ERR_DAMAGED);
    }
    CHECK(buf_append(&sealed, STR("x"), &err));
    CHECK(!opens(&keys, buf_str(&sealed), &err) && err.code == ERR_DAMAGED);
}

TEST(records_cannot_move_between_objects)
{
    enum { RECORD = SEAL_HEAD_LEN + 256 + SEAL_TAG_LEN };
    struct seal_keys keys = test_keys(0, 1);
    AUTO(buf_finish) struct buf first = {0};
    AUTO(buf_finish) struct buf other = {0};
    struct seal_facts facts;
    struct error err;
    uint8_t bytes[1024];

    test_noise(3, bytes, sizeof bytes);
    struct str raw = {(char *)bytes, sizeof bytes};
    CHECK(seal_bytes(&keys, 256, raw, &first, &facts, &err));
    CHECK(seal_bytes(&keys, 256, raw, &other, &facts, &err));
    CHECK(first.len == SEAL_HEADER_LEN + 4 * RECORD && other.len == first.len);
    for (size_t i = 0; i < 4; i++) {
        char *at = first.bytes + SEAL_HEADER_LEN + i * RECORD, kept[RECORD];
        memcpy(kept, at, RECORD);
        memcpy(at, other.bytes + SEAL_HEADER_LEN + i * RECORD, RECORD);
        CHECK(!opens(&keys, buf_str(&first), &err) && err.code == ERR_DAMAGED);
        /* And within the object. */
        memcpy(at, first.bytes + SEAL_HEADER_LEN + (i + 1) % 4 * RECORD, RECORD);
        CHECK(!opens(&keys, buf_str(&first), &err) && err.code == ERR_DAMAGED);
        memcpy(at, kept, RECORD);
    }
    CHECK(opens(&keys, buf_str(&first), &err));
}

TEST(a_key_that_is_not_there_is_told_as_that)
{
    struct seal_keys old = test_keys(1, 1), rotated = test_keys(0, 3), other = test_keys(2, 1);
    AUTO(buf_finish) struct buf sealed = {0};
    AUTO(buf_finish) struct buf nothing = {0};
    struct seal_facts facts;
    struct error err;

    CHECK(seal_bytes(&old, 0, STR("abc"), &sealed, &facts, &err));
    CHECK(opens(&rotated, buf_str(&sealed), &err));
    CHECK(!opens(&other, buf_str(&sealed), &err) && err.code == ERR_KEY_MISSING);
    CHECK(strstr(err.text, facts.key_id));
    other.n = 0;
    CHECK(!seal_bytes(&other, 0, STR("abc"), &nothing, &facts, &err));
    CHECK(err.code == ERR_KEY_MISSING);
    rotated.domain = SEAL_CHECKPOINT;
    CHECK(!opens(&rotated, buf_str(&sealed), &err) && err.code == ERR_DAMAGED);
}

/* A length that is larger than what follows must not be believed before it is checked. */
TEST(a_claimed_length_allocates_nothing)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(seal_reader_finish) struct seal_reader reader = {0};
    AUTO(buf_finish) struct buf sealed = {0};
    struct seal_facts facts;
    struct error err;
    struct str bytes;
    bool is_last;

    CHECK(seal_bytes(&keys, 0, STR("abc"), &sealed, &facts, &err));
    uint8_t *head = (uint8_t *)sealed.bytes + SEAL_HEADER_LEN;
    seal_head_encode(&(struct seal_head){SEAL_RAW_MAX, SEAL_RAW_MAX, SEAL_LAST}, head);
    struct str source = buf_str(&sealed);
    CHECK(seal_reader_begin(&reader, &keys, SEAL_BLOB, seal_source_memory(&source), &err));
    CHECK(!seal_reader_next(&reader, &bytes, &is_last, &err) && err.code == ERR_DAMAGED);
    CHECK(reader.raw_room == 0 && reader.sealed_room == 0 && reader.packed_room == 0);
    seal_head_encode(&(struct seal_head){3 + SEAL_TAG_LEN, SEAL_RAW_MAX + 1, SEAL_LAST}, head);
    CHECK(!seal_reader_next(&reader, &bytes, &is_last, &err) && err.code == ERR_DAMAGED);
}

TEST(an_object_is_written_to_and_read_from_a_file)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    AUTO(seal_reader_finish) struct seal_reader reader = {0};
    AUTO_FD int fd = memfd_create("object", MFD_CLOEXEC);
    struct seal_plan plan = {&keys, SEAL_MANIFEST, .level = 1};
    struct seal_source source;
    struct seal_facts facts;
    struct error err;
    struct str bytes;
    bool is_last;
    char digest[SHA256_HEX];

    CHECK(fd >= 0);
    for (int round = 0; round < 2; round++) {
        CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
        CHECK(seal_writer_begin(&writer, &plan, seal_sink_fd(&fd), &err));
        CHECK(seal_writer_record(&writer, STR("first"), 0, &err));
        CHECK(seal_writer_record(&writer, STR("second"), SEAL_LAST, &err));
        seal_writer_facts(&writer, &facts);
        CHECK(seal_source_fd(&fd, &source, &err) && source.size == facts.size);
        CHECK(seal_source_digest(&source, digest, &err));
        CHECK_STR(digest, facts.digest);
        CHECK(seal_reader_begin(&reader, &keys, SEAL_MANIFEST, source, &err));
        CHECK(seal_reader_next(&reader, &bytes, &is_last, &err) && !is_last);
        CHECK(str_equal(bytes, STR("first")));
        CHECK(seal_reader_next(&reader, &bytes, &is_last, &err) && is_last);
        CHECK(str_equal(bytes, STR("second")));
        CHECK(!seal_reader_next(&reader, &bytes, &is_last, &err));
    }
    CHECK(!seal_reader_begin(&reader, &keys, SEAL_PACK, source, &err));
    CHECK(err.code == ERR_DAMAGED);
}

TEST_MAIN()
