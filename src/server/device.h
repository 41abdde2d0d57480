/* Sign-in of a device by a code that a person approves in a browser (as RFC 8628 does it).
 *
 * The device holds one code and polls with it, the person is shown the other. Both are kept as
 * hashes, live for ten minutes, and give one session.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct call;

enum { USER_CODE_TEXT = 10 }; /* XXXX-XXXX */

/* What people type: any case, with or without the hyphen. ERR_NOT_FOUND. */
bool device_code_read(struct str text, char code[USER_CODE_TEXT], struct error *err) MUST_USE;

/* pending, approved, denied, consumed or expired; of an unknown code ERR_NOT_FOUND. */
bool device_code_status(struct call *call, struct str text, const char **status,
                        int64_t *expires_ms, struct error *err) MUST_USE;

/* For the caller of the call; only a pending code can be decided. *status: what holds then. */
bool device_code_settle(struct call *call, struct str text, const char *decision,
                        const char *user_id, const char **status, struct error *err) MUST_USE;
