/* SHA-256 for programs of the host, by OpenSSL. It can fail only for want of memory, which ends
 * the process everywhere, so nothing here fails.
 */
#pragma once

#include <openssl/types.h>

#include "base/str.h"

enum { SHA256_HEX_LEN = 64, SHA256_HEX = SHA256_HEX_LEN + 1 };

struct sha256 {
    EVP_MD_CTX *ctx;
};

void sha256_init(struct sha256 *state);
void sha256_finish(struct sha256 *state);
void sha256_update(struct sha256 *state, struct str bytes);

/* What was given so far, in lower-case hex digits; the state starts anew. */
void sha256_take(struct sha256 *state, char hex[SHA256_HEX]);

void sha256_of(struct str bytes, char hex[SHA256_HEX]);

/* Whether the text is what sha256_take writes. */
bool sha256_hex_is_valid(struct str text);
