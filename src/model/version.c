#include "model/version.h"

#include <stdio.h>

#include "base/time.h"

char *version_format(int64_t created_ms, int64_t n, char text[VERSION_TEXT])
{
    char date[VERSION_DATE];

    time_date(created_ms, date);
    snprintf(text, VERSION_TEXT, "%s.%lld", date, (long long)n);
    return text;
}

static bool take_number(struct str digits, int64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
            return false;
        *number = *number * 10 + (digits.ptr[i] - '0');
    }
    return digits.len;
}

bool version_parse(struct str text, char date[VERSION_DATE], int64_t *n)
{
    int64_t day, count, ms;
    char check[TIME_TEXT_MAX];
    struct error ignored;

    if (text.len < 10 || text.len > 18 || text.ptr[8] != '.' || text.ptr[9] == '0')
        return false;
    if (!take_number((struct str){text.ptr, 8}, &day) ||
        !take_number((struct str){text.ptr + 9, text.len - 9}, &count))
        return false;

    snprintf(check, sizeof check, "%.4s-%.2s-%.2sT00:00:00Z", text.ptr, text.ptr + 4, text.ptr + 6);
    if (!time_parse(str_of(check), &ms, &ignored))
        return false;
    memcpy(date, text.ptr, 8);
    date[8] = '\0';
    *n = count;
    return true;
}
