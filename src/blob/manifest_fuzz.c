/* Any bytes as a manifest: what is let in names only what it lists, and writing it again gives a
 * manifest that is read as the same one. */
#include <assert.h>

#include "base/own.h"
#include "blob/manifest.h"

static void check(const struct manifest *manifest)
{
    for (size_t s = 0; s < manifest->n_streams; s++) {
        const struct manifest_stream *stream = &manifest->streams[s];
        uint64_t len = 0;
        for (size_t i = 0; i < stream->n_chunks; i++) {
            uint32_t pack = stream->chunks[i].pack;
            assert(pack == MANIFEST_ZERO || pack < manifest->n_packs);
            len += stream->chunks[i].len;
        }
        assert(len == stream->len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf first = {.max = MANIFEST_BYTES_MAX};
    AUTO(buf_finish) struct buf second = {.max = MANIFEST_BYTES_MAX};
    struct manifest manifest, again;
    struct error err;

    if (!manifest_decode((struct str){(const char *)data, size}, &arena, &manifest, &err)) {
        assert(err.code == ERR_DAMAGED);
        return 0;
    }
    check(&manifest);
    bool fine = manifest_encode(&manifest, &first, &err) &&
                manifest_decode(buf_str(&first), &arena, &again, &err) &&
                manifest_encode(&again, &second, &err);
    assert(fine && str_equal(buf_str(&first), buf_str(&second)));
    return 0;
}
