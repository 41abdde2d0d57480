/* Identifiers: UUIDv7 text, lower-case and hyphenated, which sorts by creation time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { ID_LEN = 36, ID_TEXT = ID_LEN + 1, ID_BYTES = 16 };

/* A fresh id; later ones sort after earlier ones of the same process. */
void id_make(char text[ID_TEXT]);

/* Lower-cases into `text`; false when it is no UUID (any version is accepted). */
bool id_parse(struct str input, char text[ID_TEXT]);

/* The same id in binary forms; `id` must be one id_parse has accepted or id_make has made. */
void id_to_bytes(const char *id, uint8_t bytes[ID_BYTES]);
void id_from_bytes(const uint8_t bytes[ID_BYTES], char text[ID_TEXT]);

/* The last 12 hex digits: short enough for interface and cgroup names. */
const char *id_short(const char *id);

/* Fills with random bytes from the kernel; a failure aborts. */
void random_bytes(void *bytes, size_t len);
