/* SHA-256 in the text form OCI uses: "sha256:" and 64 lower-case hex digits. */
#pragma once

#include "base/sha256.h"
#include "image/image.h"

/* What was given so far, as text; the state starts anew. */
void digest_take(struct sha256 *state, char text[DIGEST_TEXT]);

void digest_of(struct str bytes, char text[DIGEST_TEXT]);
bool digest_is_valid(struct str text);

/* The digits behind the colon. */
const char *digest_hex(const char *digest);
