/* Tokens as the server keeps them: made with their two secrets, ended once, and with them every
 * wait for them.
 *
 * A token's secrets are derived from its id under the master key and stored as hashes only, so
 * they can be given again to whoever made it and read from no table.
 */
#pragma once

#include "base/id.h"
#include "model/token_state.h"
#include "server/hub.h"
#include "server/input.h"
#include "server/keys.h"
#include "server/wait_store.h"

#define TOKEN_TIMEOUT_MS   (7 * DAY_MS)
#define TOKEN_TIMEOUT_MAX  (365 * DAY_MS)
#define PUBLIC_TOKEN_START "hlmr_pat_"

struct token_row {
    char id[ID_TEXT], environment_id[ID_TEXT], run_id[ID_TEXT]; /* run "": none */
    enum token_state state;
    int64_t timeout_at_ms;
    struct str data, cancel_reason; /* in the arena; ptr NULL: none; data is canonical JSON */
};

struct token_new {
    const char *environment_id, *run_id; /* run NULL: none */
    int64_t timeout_at_ms;
    struct str metadata, tags; /* JSON */
};

struct token_secrets {
    char callback[TOKEN_TEXT], bearer[TOKEN_TEXT];
};

/* Makes a token with this id and the public access token that ends with it. */
bool token_create(struct tx *tx, const struct keys *keys, const struct token_new *made,
                  const char *id, struct error *err) MUST_USE;

/* Of a token whose row names this key. False when we do not have that key any more. */
bool token_secrets_of(const struct keys *keys, struct str key_id, const char *id,
                      struct token_secrets *secrets);

/* Locks the row. ERR_TOKEN_NOT_FOUND when there is none. */
bool token_load(struct tx *tx, const char *id, struct arena *arena, struct token_row *token,
                struct error *err) MUST_USE;

/* A token and every pending wait for it, all locked, their runs first. */
struct token_hold {
    struct token_row token;
    struct wait_row *waits; /* in the arena */
    size_t n_waits;
};
bool token_hold(struct tx *tx, const char *id, struct arena *arena, struct token_hold *hold,
                struct error *err) MUST_USE;

struct token_end {
    enum token_event on;
    struct str data;   /* completed: canonical JSON */
    struct str by;     /* completed: a JSON object {type, id, name?} */
    struct str reason; /* cancelled; ptr NULL: none */
};

/* Ends a pending token and settles the waits for it. ERR_CONFLICT when it is not pending. */
bool token_end(struct tx *tx, struct token_hold *hold, const struct token_end *end,
               struct wakes *wakes, struct error *err) MUST_USE;

/* Completes it: once. *already when it was completed with equal data before. An error says what
 * else it was: conflict, cancelled, expired. */
bool token_complete(struct tx *tx, struct token_hold *hold, struct str data, struct str by,
                    bool *already, struct wakes *wakes, struct error *err) MUST_USE;

/* Cancels a token that was made for one wait only, which is over; nothing when it has ended. */
bool token_drop(struct tx *tx, const char *id, struct str reason, struct error *err) MUST_USE;
