/* Any bytes as the index of a pack: what is let in points into the pack and is written as it was
 * read. */
#include <assert.h>

#include "base/own.h"
#include "blob/bytes.h"
#include "blob/pack_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pack_index index;
    struct error err;

    if (size < 8)
        return 0;
    uint64_t end = get_u64(data);
    struct str bytes = {(const char *)data + 8, size - 8};
    if (!pack_index_decode(bytes, end, &index, &err)) {
        assert(err.code == ERR_DAMAGED);
        return 0;
    }
    for (size_t i = 0; i < index.n_chunks; i++) {
        const struct pack_chunk *chunk = &index.chunks[i];
        assert(chunk->record < index.n_records);
        assert((uint64_t)chunk->offset + chunk->len <= index.records[chunk->record].raw);
    }
    assert(pack_index_len(&index) == bytes.len);
    AUTO_FREE uint8_t *again = alloc(bytes.len);
    pack_index_encode(&index, again);
    assert(memcmp(again, bytes.ptr, bytes.len) == 0);
    free(index.chunks);
    free(index.records);
    return 0;
}
