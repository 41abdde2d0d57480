/* Property: the difference of two texts, applied to the first by rules of its own, is the second.
 */
#include "base/text_diff.h"

#include <stdint.h>

#include "base/text_diff_testing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says where the second text begins. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(buf_finish) struct buf patch = {.max = TEXT_DIFF_OUT_MAX};
    AUTO(buf_finish) struct buf made = {.max = TEXT_DIFF_OUT_MAX};
    struct error err;

    if (size < 1)
        return 0;
    size_t cut = (size - 1) * data[0] / UINT8_MAX;
    struct str before = {(const char *)data + 1, cut};
    struct str after = {(const char *)data + 1 + cut, size - 1 - cut};
    if (!text_diff(before, after, &patch, &err)) {
        if (text_diff_takes(before) && text_diff_takes(after))
            abort();
        return 0;
    }
    if (!patch_apply(before, buf_str(&patch), &made) || !str_equal(buf_str(&made), after))
        abort();
    return 0;
}
