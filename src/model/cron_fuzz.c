/* Property: what is accepted matches some minute within fifty years, and that minute alone. */
#include "model/cron.h"

#include <stdlib.h>

#define YEARS (INT64_C(50) * 366 * 86400)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t from = 1800000000;
    struct cron cron;
    struct error err;
    int64_t first, again;

    if (!cron_parse((struct str){(const char *)data, size}, &cron, &err))
        return 0;
    if (!cron_find(&cron, from, from + YEARS, &first) || first < from || first % 60)
        abort();
    if (!cron_find(&cron, first, first + 1, &again) || again != first)
        abort();
    if (cron_find(&cron, from, first, &again))
        abort();
    return 0;
}
