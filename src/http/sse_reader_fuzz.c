/* Any bytes: no crash, and the same events whole and byte by byte. */
#include <assert.h>
#include <stdint.h>

#include "http/sse_reader.h"

static bool sum(void *arg, const struct sse_event *event)
{
    const struct str parts[] = {event->id, event->name, event->data};
    uint64_t *hash = arg;

    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        for (size_t at = 0; at < parts[i].len; at++)
            *hash = (*hash ^ (unsigned char)parts[i].ptr[at]) * 1099511628211u;
        *hash = *hash * 31 + parts[i].len;
    }
    return true;
}

static bool read_all(struct str bytes, size_t step, uint64_t *hash)
{
    AUTO(sse_reader_finish) struct sse_reader reader;
    struct error err;

    *hash = 1;
    sse_reader_init(&reader, sum, hash);
    while (bytes.len > 0) {
        size_t len = step < bytes.len ? step : bytes.len;

        if (!sse_reader_push(&reader, (struct str){bytes.ptr, len}, &err))
            return false;
        bytes = (struct str){bytes.ptr + len, bytes.len - len};
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str bytes = {(const char *)data, size};
    uint64_t whole, bytewise;

    bool accepted = read_all(bytes, size, &whole), again = read_all(bytes, 1, &bytewise);

    assert(accepted == again && (!accepted || whole == bytewise));
    return 0;
}
