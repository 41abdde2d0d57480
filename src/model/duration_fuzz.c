/* Property: what is accepted is never negative, and its printed form reads back as the same. */
#include "model/duration.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int64_t ms)
{
    char text[DURATION_TEXT];
    struct error err;
    int64_t again;

    if (ms < 0 || ms > DURATION_MAX_MS)
        abort();
    if (!duration_parse(str_of(duration_format(ms, text)), &again, &err) || again != ms)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct error err;
    int64_t ms;

    if (duration_parse(text, &ms, &err))
        check(ms);
    if (duration_read(text, &ms, &err))
        check(ms);
    return 0;
}
