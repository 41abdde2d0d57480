/* ID tokens of an OpenID provider: signed JSON, believed only under a key of the provider's set.
 *
 * RS256 with at least 2048 bits and ES256 on P-256 are accepted and nothing else, least of all
 * what the token itself would like: none, or a hash keyed with something public.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum { ID_TOKEN_MAX = 16 * 1024, KEY_SET_MAX = 256 * 1024 };

struct id_claims {
    struct str iss, sub, azp, nonce, email, name;
    struct str aud, email_verified; /* raw JSON */
    double exp;
};

/* Checks the signature under the key set (JSON) and reads the claims; they are not judged yet. */
bool id_token_read(struct str token, struct str key_set, struct arena *arena,
                   struct id_claims *claims, struct error *err) MUST_USE;

/* Whether the claims are for this client, from this issuer, of this sign-in, and still hold. */
bool id_claims_check(const struct id_claims *claims, struct str issuer, struct str client_id,
                     struct str nonce, int64_t now_ms, struct arena *arena,
                     struct error *err) MUST_USE;
