/* Whatever the file holds, what was understood of it can be written and read back the same. */
#include <stdint.h>
#include <stdlib.h>

#include "cli/toml.h"

enum { WRITTEN_MAX = 8 * TOML_BYTES_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf out = {.max = WRITTEN_MAX};
    struct toml_pair *pairs, *again;
    size_t n, n_again;
    struct error err;

    if (!toml_parse((struct str){(const char *)bytes, len}, &arena, &pairs, &n, &err))
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!toml_append(&out, &pairs[i], &err))
            abort();
    }
    /* Escapes make text longer, so only that may be a reason. */
    if (!toml_parse(buf_str(&out), &arena, &again, &n_again, &err)) {
        if (err.code != ERR_TOO_LARGE)
            abort();
        return 0;
    }
    if (n_again != n)
        abort();
    for (size_t i = 0; i < n; i++) {
        if (!str_equal(pairs[i].key, again[i].key) || !str_equal(pairs[i].value, again[i].value))
            abort();
    }
    return 0;
}
