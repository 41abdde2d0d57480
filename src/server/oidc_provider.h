/* Talking to the OpenID provider: where its endpoints are, codes for tokens, its keys.
 *
 * Every address it names must be https or on this machine. Redirects are not followed, answers
 * are bounded, and only a few calls wait for a provider at once.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

struct server;

struct oidc_endpoints {
    struct str issuer, authorization, token, key_set, user_info; /* the last may be empty */
};

/* What is remembered between sign-ins. */
struct oidc_cache {
    pthread_mutex_t lock;
    char *document; /* the provider's configuration, JSON; owned */
    int64_t read_ms;
    atomic_int inside;
};

void oidc_cache_init(struct oidc_cache *cache);
void oidc_cache_finish(struct oidc_cache *cache);

bool oidc_find_endpoints(struct server *server, struct arena *arena,
                         struct oidc_endpoints *endpoints, struct error *err) MUST_USE;

struct oidc_tokens {
    struct str id_token, access_token;
};

bool oidc_redeem(struct server *server, const struct oidc_endpoints *endpoints, struct str code,
                 struct str verifier, const char *redirect_uri, struct arena *arena,
                 struct oidc_tokens *tokens, struct error *err) MUST_USE;

/* GET of one of the addresses; with a token as its bearer. */
bool oidc_fetch(struct str url, struct str token, size_t max, struct arena *arena,
                struct str *answer, struct error *err) MUST_USE;
