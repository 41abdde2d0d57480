/* Property: every instant lies in the span that begins with it, and the wall clock leads back to
 * an instant that is not later, unless it shows the same twice. */
#include "model/zone.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct zone *zone, int64_t at)
{
    struct zone_span span = zone_span(zone, at);
    int64_t back = zone_instant(zone, at + span.offset);

    if (span.until <= at || back > at)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct zone zone;
    struct error err;

    (void)zone_name_is_valid((struct str){(const char *)data, size});
    if (!zone_parse((struct str){(const char *)data, size}, &arena, &zone, &err))
        return 0;
    for (int64_t at = 0; at < INT64_C(8000000000); at += INT64_C(86400) * 97 + 1800)
        check(&zone, at);
    return 0;
}
