#include "server/password.h"

#include <sodium.h>
#include <stdio.h>

#include "server/context.h"

enum { WAIT_MS = 10 * 1000 };

#define TOPIC_PASSWORD "password"

#define WORK   crypto_pwhash_OPSLIMIT_INTERACTIVE
#define MEMORY crypto_pwhash_MEMLIMIT_INTERACTIVE

_Static_assert(PASSWORD_HASH_TEXT >= crypto_pwhash_STRBYTES, "a hash fits");

const char password_nobody[] = "$argon2id$v=19$m=65536,t=2,p=1$aj9GW6ZytIcx+keUCyuuQg$"
                               "l7So5tXMH39m480QyUfeXheVcqWbO/MpFmo7ZW/QAEk";

bool password_guarded(struct call *call, struct response *res, route_handler *inside,
                      struct error *err)
{
    struct server *server = server_of(call);
    struct password_gate *gate = &server->passwords;
    bool ok = true;
    if (atomic_fetch_add(&gate->inside, 1) < PASSWORD_PLACES)
        ok = inside(call, res, err);
    else if (call->is_last_try)
        ok = error_set(err, ERR_UNAVAILABLE, "too many people sign in at once: try again");
    else
        response_park(res, TOPIC_PASSWORD, WAIT_MS);
    /* Who leaves without having been inside wakes nobody: the places are still taken. */
    if (atomic_fetch_sub(&gate->inside, 1) <= PASSWORD_PLACES)
        hub_wake(&server->hub, TOPIC_PASSWORD);
    return ok;
}

bool password_check(const char *field, struct str password, struct error *err)
{
    return (password.len >= PASSWORD_MIN && password.len <= PASSWORD_MAX) ||
           error_set(err, ERR_INVALID, "%s must have %d to %d bytes", field, PASSWORD_MIN,
                     PASSWORD_MAX);
}

bool password_hash(struct password_gate *gate, struct str password, char hash[PASSWORD_HASH_TEXT],
                   struct error *err)
{
    atomic_fetch_add(&gate->n_worked, 1);
    return crypto_pwhash_str_alg(hash, password.ptr, password.len, WORK, MEMORY,
                                 crypto_pwhash_ALG_ARGON2ID13) == 0 ||
           error_set(err, ERR_UNAVAILABLE, "there is no memory to hash a password");
}

bool password_fits(struct password_gate *gate, struct str hash, struct str password)
{
    char text[PASSWORD_HASH_TEXT];
    bool is_known = hash.len > 0 && hash.len < sizeof text;
    snprintf(text, sizeof text, "%.*s", is_known ? (int)hash.len : (int)sizeof text - 1,
             is_known ? hash.ptr : password_nobody);
    atomic_fetch_add(&gate->n_worked, 1);
    bool fits = crypto_pwhash_str_verify(text, password.ptr, password.len) == 0;
    return is_known && fits;
}
