/* Which part of some bytes a Range header asks for: one range, as `bytes=a-b`, `a-` or `-n`. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct range {
    uint64_t first, len;
    bool is_part; /* of the whole: the answer is a 206 */
};

/* All of it when there is no header, or one that may be passed over: another unit, several ranges,
 * or what is none at all. ERR_RANGE when it names nothing of the `size` bytes. */
bool range_read(struct str header, uint64_t size, struct range *range, struct error *err) MUST_USE;
