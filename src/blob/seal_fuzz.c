/* A sealed object with some bytes changed, or with anything after its header: it is refused, and
 * nothing it claims is believed. Unchanged it opens. */
#include <assert.h>

#include "blob/pack.h"
#include "blob/testing.h"

enum { PATCH = 3 };

static struct seal_keys keys;
static struct buf object;

static void make_object(void)
{
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    struct seal_plan plan;
    struct error err;
    uint8_t bytes[600];

    keys = test_keys(0, 1);
    plan = (struct seal_plan){&keys, SEAL_BLOB, .record = 256};
    test_prose(1, bytes, 300);
    test_noise(1, bytes + 300, 300);
    bool fine = seal_writer_begin(&writer, &plan, test_sink(&object), &err) &&
                seal_writer_add(&writer, (struct str){(char *)bytes, sizeof bytes}, &err) &&
                seal_writer_end(&writer, &err);
    assert(fine);
}

static bool opens(struct str sealed)
{
    AUTO(seal_reader_finish) struct seal_reader reader = {0};
    struct str bytes;
    bool is_last = false;
    struct error err;

    if (!seal_reader_begin(&reader, &keys, SEAL_BLOB, seal_source_memory(&sealed), &err))
        return false;
    while (!is_last) {
        if (!seal_reader_next(&reader, &bytes, &is_last, &err))
            return false;
        assert(bytes.len <= SEAL_RAW_MAX);
    }
    return true;
}

/* {u16 place, u8 xor}, any number of times. */
static void check_patched(const uint8_t *data, size_t size)
{
    AUTO_FREE uint8_t *copy = alloc(object.len);

    memcpy(copy, object.bytes, object.len);
    for (; size >= PATCH; data += PATCH, size -= PATCH)
        copy[(data[0] | (size_t)data[1] << 8) % object.len] ^= data[2];
    bool is_same = memcmp(copy, object.bytes, object.len) == 0;
    assert(opens((struct str){(const char *)copy, object.len}) == is_same);
}

static void check_replaced(const uint8_t *data, size_t size)
{
    AUTO(pack_reader_finish) struct pack_reader reader = {0};
    AUTO_FREE char *copy = alloc(SEAL_HEADER_LEN + size);
    struct str sealed = {copy, SEAL_HEADER_LEN + size};
    struct error err;

    memcpy(copy, object.bytes, SEAL_HEADER_LEN);
    if (size > 0)
        memcpy(copy + SEAL_HEADER_LEN, data, size);
    assert(!opens(sealed));
    copy[11] = SEAL_PACK;
    assert(!pack_reader_begin(&reader, &keys, seal_source_memory(&sealed), &err));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!object.len)
        make_object();
    if (size == 0)
        return 0;
    (data[0] % 2 ? check_replaced : check_patched)(data + 1, size - 1);
    return 0;
}
