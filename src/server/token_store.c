#include "server/token_store.h"

#include <stdio.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/time.h"
#include "store/queries.h"

static void derive(const struct keys *keys, size_t key, const char *purpose, const char *id,
                   const char *start, char secret[TOKEN_TEXT])
{
    const struct str pieces[] = {str_of(purpose), str_of(id)};
    uint8_t tag[BLAKE2B_LEN];
    char text[TOKEN_SECRET + 1];

    blake2b_list(keys_subkey(keys, KEY_AUTH, key), pieces, COUNT_OF(pieces), tag);
    base64url_encode((struct str){(const char *)tag, sizeof tag}, text);
    snprintf(secret, TOKEN_TEXT, "%s%s", start, text);
}

static void derive_both(const struct keys *keys, size_t key, const char *id,
                        struct token_secrets *secrets)
{
    derive(keys, key, "token callback", id, "", secrets->callback);
    derive(keys, key, "token public access", id, PUBLIC_TOKEN_START, secrets->bearer);
}

bool token_secrets_of(const struct keys *keys, struct str key_id, const char *id,
                      struct token_secrets *secrets)
{
    size_t key;

    if (!keys_find(keys, KEY_AUTH, key_id, &key))
        return false;
    derive_both(keys, key, id, secrets);
    return true;
}

static bool insert_public(struct tx *tx, const struct keys *keys, const struct token_new *made,
                          const char *id, const char *token_id, const char *bearer, int64_t now,
                          struct error *err)
{
    uint8_t hash[BLAKE2B_LEN];
    char scope[128];

    keys_hash_token(keys, str_of(bearer), hash);
    snprintf(scope, sizeof scope, "{\"type\":\"token.complete\",\"token_id\":\"%s\"}", token_id);
    return STORE(tx, &public_access_token_insert, NULL, NULL, err, V_TEXT(id),
                 V_TEXT(made->environment_id),
                 V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_TEXT(keys_id(keys, KEY_AUTH, 0)), V_TEXT("token.complete"), V_TEXT(scope),
                 V_TEXT(token_id), V_NULL, V_INT(made->timeout_at_ms), V_INT(now));
}

bool token_create(struct tx *tx, const struct keys *keys, const struct token_new *made,
                  const char *id, struct error *err)
{
    struct token_secrets secrets;
    uint8_t hash[BLAKE2B_LEN];
    char public_id[ID_TEXT];
    int64_t now = time_now_ms();

    id_make(public_id);
    derive_both(keys, 0, id, &secrets);
    keys_hash_token(keys, str_of(secrets.callback), hash);
    return STORE(tx, &token_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(made->environment_id),
                 V_TEXT_OR_NULL(made->run_id), V_INT(made->timeout_at_ms), V_STR(made->metadata),
                 V_STR(made->tags), V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_TEXT(keys_id(keys, KEY_AUTH, 0)), V_TEXT(public_id), V_INT(now)) &&
           insert_public(tx, keys, made, public_id, id, secrets.bearer, now, err);
}

bool token_load(struct tx *tx, const char *id, struct arena *arena, struct token_row *token,
                struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &token_lock, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", id);
    *token = (struct token_row){
        .timeout_at_ms = row_int(&rows, 0, TOKEN_LOCK_TIMEOUT_AT_MS),
        .data = row_str(&rows, 0, TOKEN_LOCK_DATA),
        .cancel_reason = row_str(&rows, 0, TOKEN_LOCK_CANCEL_REASON),
    };
    row_id(&rows, 0, TOKEN_LOCK_ID, token->id);
    row_id(&rows, 0, TOKEN_LOCK_ENVIRONMENT_ID, token->environment_id);
    row_id(&rows, 0, TOKEN_LOCK_RUN_ID, token->run_id);
    return token_state_parse(row_str(&rows, 0, TOKEN_LOCK_STATUS), &token->state) ||
           error_set(err, ERR_INTERNAL, "token %s is in no known state", id);
}

bool token_hold(struct tx *tx, const char *id, struct arena *arena, struct token_hold *hold,
                struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &waits_of_token, arena, &rows, err, V_TEXT(id)))
        return false;
    *hold = (struct token_hold){
        .waits = arena_array(arena, rows.n_rows + 1, sizeof *hold->waits),
        .n_waits = rows.n_rows,
    };
    for (size_t i = 0; i < rows.n_rows; i++) {
        const char *run = row_text(&rows, i, WAITS_OF_TOKEN_RUN_ID);

        if (!STORE(tx, &run_lock, NULL, NULL, err, V_TEXT(run)) ||
            !wait_load(tx, row_text(&rows, i, WAITS_OF_TOKEN_ID), arena, &hold->waits[i], err))
            return false;
    }
    return token_load(tx, id, arena, &hold->token, err);
}

static bool is_held(const struct token_hold *hold, struct str wait_id)
{
    for (size_t i = 0; i < hold->n_waits; i++)
        if (str_equal(str_of(hold->waits[i].id), wait_id))
            return true;
    return false;
}

/* One that was opened between the look and the lock is not locked in order: from the start. */
static bool nobody_came(struct tx *tx, const struct token_hold *hold, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &waits_of_token, &arena, &rows, err, V_TEXT(hold->token.id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!is_held(hold, row_str(&rows, i, WAITS_OF_TOKEN_ID)))
            return store_lost_race(err, "a wait for the token was opened meanwhile");
    return true;
}

static bool move(struct tx *tx, struct token_row *token, const struct token_end *end,
                 struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    enum token_state after = token->state;
    int64_t now = time_now_ms();
    struct rows rows;

    if (!token_state_apply(&after, end->on))
        return error_set(err, ERR_CONFLICT, "a token that is %s cannot %s",
                         token_state_name(token->state), token_event_name(end->on));
    if (!STORE(tx, &token_move, &arena, &rows, err, V_TEXT(token->id),
               V_TEXT(token_state_name(token->state)), V_TEXT(token_state_name(after)),
               V_STR_OR_NULL(end->data), V_STR_OR_NULL(end->by), V_STR_OR_NULL(end->reason),
               V_INT(now), after == TOKEN_COMPLETED ? V_INT(now) : V_NULL))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the token moved meanwhile");
    token->state = after;
    token->data = end->data;
    return true;
}

static enum condition_event condition_of(enum token_event on)
{
    switch (on) {
    case TOKEN_COMPLETE: return CONDITION_COMPLETE;
    case TOKEN_CANCEL: return CONDITION_CANCEL;
    case TOKEN_EXPIRE:
    case TOKEN_EVENT_COUNT: break;
    }
    return CONDITION_EXPIRE;
}

bool token_end(struct tx *tx, struct token_hold *hold, const struct token_end *end,
               struct wakes *wakes, struct error *err)
{
    AUTO(buf_finish) struct buf decision = {.max = WAIT_DECISION_MAX};
    enum condition_event on = condition_of(end->on);
    int64_t now = time_now_ms();

    if (!wait_decision(on, end->data, end->reason, &decision, err) ||
        !move(tx, &hold->token, end, err) || !nobody_came(tx, hold, err))
        return false;
    for (size_t i = 0; i < hold->n_waits; i++) {
        struct wait_row *wait = &hold->waits[i];
        /* Too late for this one: it is the sweeper's to expire. */
        bool is_late = wait->timeout_at_ms && wait->timeout_at_ms <= now && !wait->owns_token;

        if (wait->condition == WAIT_PENDING && !is_late &&
            !wait_settle(tx, wait, on, buf_str(&decision), wakes, err))
            return false;
    }
    return true;
}

bool token_complete(struct tx *tx, struct token_hold *hold, struct str data, struct str by,
                    bool *already, struct wakes *wakes, struct error *err)
{
    const struct token_end end = {.on = TOKEN_COMPLETE, .data = data, .by = by};
    const struct token_row *token = &hold->token;

    *already = token->state == TOKEN_COMPLETED && str_equal(token->data, data);
    if (*already)
        return true;
    if (token->state == TOKEN_COMPLETED)
        return error_set(err, ERR_TOKEN_CONFLICT, "the token was completed with other data");
    if (token->state == TOKEN_CANCELLED)
        return error_set(err, ERR_TOKEN_CANCELLED, "the token was cancelled");
    if (token->state == TOKEN_EXPIRED || token->timeout_at_ms <= time_now_ms())
        return error_set(err, ERR_TOKEN_EXPIRED, "the token has expired");
    return token_end(tx, hold, &end, wakes, err);
}

bool token_drop(struct tx *tx, const char *id, struct str reason, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct token_end end = {.on = TOKEN_CANCEL, .reason = reason};
    struct token_row token = {0};

    return token_load(tx, id, &arena, &token, err) &&
           (token.state != TOKEN_PENDING || move(tx, &token, &end, err));
}
