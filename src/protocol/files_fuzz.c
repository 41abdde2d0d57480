/* What a hostile agent could answer about a directory: whatever is taken is written back as the
 * same bytes. */
#include <assert.h>
#include <string.h>

#include "protocol/files.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct str rest = {(const char *)data, size};

    while (rest.len > 0) {
        AUTO(buf_finish) struct buf again = {.max = KIB(8)};
        struct files_entry entry;
        struct error err;
        const char *from = rest.ptr;

        if (!files_entry_take(&rest, &entry, &err))
            break;
        assert(files_entry_append(&again, &entry, &err));
        assert(again.len == (size_t)(rest.ptr - from) && memcmp(again.bytes, from, again.len) == 0);
    }
    return 0;
}
