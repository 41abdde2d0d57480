#include "engine/net/cidr.h"

#include <stdio.h>

static uint32_t mask_of(int prefix)
{
    return prefix == 0 ? 0 : UINT32_MAX << (32 - prefix);
}

/* Digits only, no sign, no leading zero that C would read as octal. */
static bool small_number(struct str text, unsigned max, unsigned *number)
{
    *number = 0;
    if (text.len == 0 || text.len > 3 || (text.len > 1 && text.ptr[0] == '0'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        *number = *number * 10 + (unsigned)(text.ptr[i] - '0');
    }
    return *number <= max;
}

bool cidr_parse(struct str text, struct cidr *cidr, struct error *err)
{
    struct str rest = text, address, octet;
    unsigned prefix = 32, number;
    uint32_t value = 0;
    int n = 0;
    bool ok = text.len > 0 && str_split(&rest, '/', &address);

    if (ok && rest.ptr)
        ok = small_number(rest, 32, &prefix);
    while (ok && str_split(&address, '.', &octet)) {
        ok = n < 4 && small_number(octet, 255, &number);
        if (ok)
            value |= (uint32_t)number << (24 - 8 * n++);
    }
    if (!ok || (n < 4 && !memchr(text.ptr, '/', text.len)))
        return error_set(err, ERR_INVALID, "\"%.*s\" is no IPv4 range", (int)text.len, text.ptr);
    *cidr = (struct cidr){.address = value & mask_of((int)prefix), .prefix = (uint8_t)prefix};
    return true;
}

bool cidr_list_put(struct cidr_list *list, uint32_t address, int prefix, struct error *err)
{
    if (list->n == CIDRS_MAX)
        return error_set(err, ERR_TOO_LARGE, "more than %d IPv4 ranges", CIDRS_MAX);
    list->items[list->n++] =
        (struct cidr){.address = address & mask_of(prefix), .prefix = (uint8_t)prefix};
    return true;
}

bool cidr_list_add(struct cidr_list *list, struct str text, struct error *err)
{
    struct str part, word;

    while (str_split(&text, ',', &part)) {
        while (str_split(&part, ' ', &word)) {
            struct cidr cidr = {0};
            if (word.len == 0)
                continue;
            if (!cidr_parse(word, &cidr, err) ||
                !cidr_list_put(list, cidr.address, cidr.prefix, err))
                return false;
        }
    }
    return true;
}

bool cidr_list_has(const struct cidr_list *list, uint32_t address)
{
    for (size_t i = 0; i < list->n; i++) {
        if ((address & mask_of(list->items[i].prefix)) == list->items[i].address)
            return true;
    }
    return false;
}

void cidr_format(const struct cidr *cidr, char text[CIDR_TEXT])
{
    snprintf(text, CIDR_TEXT, "%u.%u.%u.%u/%u", cidr->address >> 24, cidr->address >> 16 & 255,
             cidr->address >> 8 & 255, cidr->address & 255, cidr->prefix);
}
