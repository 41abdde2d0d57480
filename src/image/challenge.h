/* WWW-Authenticate: which proof of identity a registry asks for (RFC 7235).
 *
 * The strongest scheme that is spoken here counts: Bearer before Basic, the first of each.
 */
#pragma once

#include "base/attr.h"
#include "base/str.h"

enum challenge_scheme { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
    enum challenge_scheme scheme;
    char realm[1024], service[256]; /* empty when not given */
};

/* Adds what one header line asks for. False when it is malformed or out of bounds; *challenge is
 * then as before. */
bool challenge_read(struct str line, struct challenge *challenge) MUST_USE;
