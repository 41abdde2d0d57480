/* Errors: a closed set of codes, one sentence for a human, no allocation.
 *
 * A fallible function returns bool and takes `struct error *err` last. On
 * failure it returns false with *err filled; on success it leaves *err alone.
 * Code below main never prints an error: it returns it.
 */
#pragma once

#include <stdbool.h>

#include "base/attr.h"

enum error_code {
#define ERROR_CODE(name, wire, http) ERR_##name,
#include "base/error_codes.def"
#undef ERROR_CODE
};

struct error {
    enum error_code code;
    int sys; /* the errno behind it, or 0 */
    char text[512];
};

/* All three return false, so a failing function ends in `return error_set(…)`. */
bool error_set(struct error *err, enum error_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool error_errno(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Prefixes context on the way up: "starting the guest: open /dev/kvm: Permission denied". */
bool error_wrap(struct error *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

const char *error_wire_name(enum error_code code);
int error_http_status(enum error_code code);
