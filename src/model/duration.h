/* Durations as people write them: `90s`, `1h30m`, `1.5h`, `7d`; a bare number is seconds.
 * One grammar for the command line, the API and the configuration. Rounded up to 1 ms.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { DURATION_TEXT = 64 };

#define DURATION_MAX_MS INT64_C(100000000000000) /* some three thousand years */

bool duration_parse(struct str text, int64_t *ms, struct error *err) MUST_USE;

/* The JSON forms: "90s", 90, 1.5 and {"hours": 1, "minutes": 30}. */
bool duration_read(struct str json, int64_t *ms, struct error *err) MUST_USE;

/* The shortest exact text, with the largest units first; duration_parse reads it back. */
char *duration_format(int64_t ms, char text[DURATION_TEXT]);
