/* IPv4 ranges, as operators write them: "10/8", "192.168.0.0/16", "203.0.113.7". */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { CIDRS_MAX = 256, CIDR_TEXT = 20 };

struct cidr {
    uint32_t address; /* host byte order, bits beyond the prefix are zero */
    uint8_t prefix;
};

struct cidr_list {
    struct cidr items[CIDRS_MAX];
    size_t n;
};

bool cidr_parse(struct str text, struct cidr *cidr, struct error *err) MUST_USE;

/* Adds every range of a list separated by commas or spaces. */
bool cidr_list_add(struct cidr_list *list, struct str text, struct error *err) MUST_USE;
bool cidr_list_put(struct cidr_list *list, uint32_t address, int prefix,
                   struct error *err) MUST_USE;
bool cidr_list_has(const struct cidr_list *list, uint32_t address);

void cidr_format(const struct cidr *cidr, char text[CIDR_TEXT]);
