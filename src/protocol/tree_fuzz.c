/* Any bytes: the same entries and the same verdict whole and byte by byte, and what is accepted is
 * the one way to write it. */
#include <assert.h>

#include "base/own.h"
#include "protocol/tree.h"

static bool write_entry(void *arg, const struct tree_entry *entry, struct error *err)
{
    return tree_encode_entry(arg, entry, err);
}

static bool write_bytes(void *arg, struct str bytes, bool is_last UNUSED, struct error *err)
{
    return bytes.len == 0 || buf_append(arg, bytes, err);
}

/* Decodes in pieces and encodes again what came out. */
static bool rewrite(struct str input, size_t step, struct buf *out)
{
    AUTO(tree_decoder_finish) struct tree_decoder decoder;
    struct error err;
    bool is_difference = input.len >= TREE_MAGIC_LEN && input.ptr[TREE_MAGIC_LEN - 1] == '2';
    bool is_fine =
        is_difference ? tree_encode_start_difference(out, &err) : tree_encode_start(out, &err);

    tree_decoder_init(&decoder, write_entry, write_bytes, out);
    decoder.takes_differences = true;
    for (size_t at = 0; at < input.len && is_fine; at += step) {
        size_t len = input.len - at < step ? input.len - at : step;
        is_fine = tree_decode(&decoder, (struct str){input.ptr + at, len}, &err);
    }
    return is_fine && tree_decode_end(&decoder, &err) && tree_encode_finish(out, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_finish) struct buf whole = {.max = MIB(8)};
    AUTO(buf_finish) struct buf bytewise = {.max = MIB(8)};
    struct str input = {(const char *)data, size};

    if (size == 0)
        return 0;
    bool is_fine = rewrite(input, size, &whole);
    bool is_fine_bytewise = rewrite(input, 1, &bytewise);
    assert(is_fine == is_fine_bytewise);
    assert(str_equal(buf_str(&whole), buf_str(&bytewise)));
    assert(!is_fine || str_equal(buf_str(&whole), input));
    return 0;
}
