/* Property: a directory that is accepted is written back as the same bytes. */
#include "blob/node.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf again = {.max = size + 1};
    struct str bytes = {(const char *)data, size};
    struct node node;
    struct error err;

    if (!node_decode(bytes, &arena, &node, &err))
        return 0;
    if (!node_encode(&node, &again, &err) || !str_equal(buf_str(&again), bytes))
        abort();
    return 0;
}
