#include "server/range.h"

#include <inttypes.h>

/* Digits only; a number that does not fit is as good as the largest. */
static bool take_number(struct str text, uint64_t *number)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text.ptr[i] - '0');
        value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
    }
    *number = value;
    return text.len > 0;
}

bool range_read(struct str header, uint64_t size, struct range *range, struct error *err)
{
    const struct str unit = STR("bytes=");
    struct str rest, from;
    uint64_t first = 0, last = UINT64_MAX;

    *range = (struct range){0, size, false};
    if (header.len <= unit.len || !str_equal_nocase((struct str){header.ptr, unit.len}, unit))
        return true;
    rest = str_trim((struct str){header.ptr + unit.len, header.len - unit.len}, STR(" \t"));
    if (rest.len == 0 || !memchr(rest.ptr, '-', rest.len) || !str_split(&rest, '-', &from))
        return true;
    bool is_suffix = from.len == 0;
    if ((!is_suffix && !take_number(from, &first)) ||
        ((is_suffix || rest.len > 0) && !take_number(rest, &last)) || (!is_suffix && last < first))
        return true;
    if (is_suffix) {
        first = last < size ? size - last : 0;
        if (last == 0)
            first = size;
        last = UINT64_MAX;
    }
    if (first >= size)
        return error_set(err, ERR_RANGE, "there are only %" PRIu64 " bytes", size);
    uint64_t end = last < size - 1 ? last + 1 : size;
    *range = (struct range){first, end - first, true};
    return true;
}
