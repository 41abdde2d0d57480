/* SHA-256 in the text form OCI uses: "sha256:" and 64 lower-case hex digits. */
#pragma once

#include <openssl/types.h>

#include "image/image.h"

struct digest_state {
    EVP_MD_CTX *ctx;
};

void digest_init(struct digest_state *state);
void digest_finish(struct digest_state *state);
void digest_update(struct digest_state *state, struct str bytes);

/* What was given so far, as text; the state starts anew. */
void digest_take(struct digest_state *state, char text[DIGEST_TEXT]);

void digest_of(struct str bytes, char text[DIGEST_TEXT]);
bool digest_is_valid(struct str text);

/* The digits behind the colon. */
const char *digest_hex(const char *digest);
