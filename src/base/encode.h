/* Bytes as text and back: hex, base64, base64url, percent. Decoders are strict: no white
 * space, canonical padding, no trailing bits.
 */
#pragma once

#include "base/buf.h"

void hex_encode(struct str bytes, char *text); /* 2 * len + 1 bytes */
bool hex_decode(struct str text, void *bytes, size_t len);

size_t base64_encoded_len(size_t len);
void base64_encode(struct str bytes, char *text); /* encoded_len bytes, no NUL */
bool base64_append(struct buf *out, struct str bytes, struct error *err) MUST_USE;
/* *len in: room, out: decoded. False when malformed or too long. */
bool base64_decode(struct str text, void *bytes, size_t *len);
size_t base64_decoded_max(size_t text_len);

/* Without padding, NUL-terminated: (4 * len + 2) / 3 + 1 bytes. */
void base64url_encode(struct str bytes, char *text);
bool base64url_decode(struct str text, void *bytes, size_t *len);

/* Appends text with everything but unreserved characters as %XX. */
bool percent_append(struct buf *out, struct str text, struct error *err) MUST_USE;
/* Decodes %XX (and + as space in a query); false when malformed or with NUL. `out` has room
 * for text.len bytes and is not NUL-terminated. */
bool percent_decode(struct str text, bool is_query, char *out, size_t *len);

/* The bytes of the first character, or 0 when it is not well-formed UTF-8 (or nothing is left). */
size_t utf8_len(struct str text);
bool utf8_is_valid(struct str text);

/* Appends a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
bool json_quote(struct buf *out, struct str text, struct error *err) MUST_USE;
