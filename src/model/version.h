/* The version of a deployment, YYYYMMDD.N: the UTC date, and a count from 1 per environment
 * and day. Accepted wherever a deployment's id is.
 */
#pragma once

#include <stdint.h>

#include "base/str.h"

enum { VERSION_TEXT = 32, VERSION_DATE = 9 };

char *version_format(int64_t created_ms, int64_t n, char text[VERSION_TEXT]);
bool version_parse(struct str text, char date[VERSION_DATE], int64_t *n);
