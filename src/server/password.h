/* Passwords: Argon2id as libsodium writes it, and a bound on how many are worked on at once.
 *
 * Hashing takes 64 MiB and a good part of a tenth of a second, so calls that hash go through
 * password_guarded: at most PASSWORD_PLACES run, the others wait outside the pool.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "http/route.h"

enum { PASSWORD_PLACES = 2, PASSWORD_MIN = 12, PASSWORD_MAX = 1024, PASSWORD_HASH_TEXT = 128 };

struct password_gate {
    atomic_int inside;
    atomic_ulong n_worked; /* hashes made or compared so far */
};

/* Runs the handler when there is a place for it, else parks the call until there is one. */
bool password_guarded(struct call *call, struct response *res, route_handler *inside,
                      struct error *err) MUST_USE;

/* ERR_INVALID unless it has 12 to 1024 bytes. */
bool password_check(const char *field, struct str password, struct error *err) MUST_USE;

bool password_hash(struct password_gate *gate, struct str password, char hash[PASSWORD_HASH_TEXT],
                   struct error *err) MUST_USE;

/* The same work for an empty hash, which no password fits: who has no account is not told
 * apart by the time it takes. */
bool password_fits(struct password_gate *gate, struct str hash, struct str password);

/* What is compared with when there is no hash. */
extern const char password_nobody[];
