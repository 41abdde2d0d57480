/* What time does to sessions: they expire, and what was asked of them while it could not be done
 * yet is done. */
#include "base/log.h"
#include "model/continuation_state.h"
#include "server/continuation.h"
#include "server/sweep_pass.h"
#include "server/task_session_store.h"
#include "store/queries.h"

enum { CLAIM_MS = 60 * 1000, TRIES_MAX = 3 };

static bool expire(struct pass *pass, struct tx *tx, const char *id, const char *detail UNUSED,
                   struct wakes *wakes, struct error *err)
{
    struct session_row session;
    const struct session_ending ending = {
        .server = pass->server,
        .tx = tx,
        .arena = &pass->arena,
        .on = SESSION_EXPIRE,
        .by = "sweeper",
        .source = "sweeper",
        .now = pass->now,
    };

    return task_session_hold(tx, id, &pass->arena, &session, err) &&
           task_session_end(&ending, &session, wakes, err);
}

static bool move(struct pass *pass, struct tx *tx, const char *id, enum continuation_state before,
                 enum continuation_event on, struct error *err)
{
    enum continuation_state after = before;
    struct rows rows;

    if (!continuation_state_apply(&after, on))
        return error_set(err, ERR_CONFLICT, "a continuation that is %s cannot %s",
                         continuation_state_name(before), continuation_event_name(on));
    if (!STORE(tx, &continuation_move, &pass->arena, &rows, err, V_TEXT(id),
               V_TEXT(continuation_state_name(before)), V_TEXT(continuation_state_name(after)),
               V_NULL, V_NULL, V_INT(pass->now)))
        return false;
    return rows.n_changed == 1 || error_set(err, ERR_CONFLICT, "it moved meanwhile");
}

/* Claimed in a transaction of its own, so that of several servers one makes the run; should that
 * one vanish, the claim is over in a while. */
static bool claim(struct pass *pass, const char *id, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(pass->server->store, &tx, err) &&
           move(pass, tx, id, CONTINUATION_ACCEPTED, CONTINUATION_CLAIM, err) &&
           store_commit(&tx, err);
}

static bool resolve_once(struct pass *pass, const char *id, struct error *err)
{
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    return store_begin(pass->server->store, &tx, err) &&
           continuation_resolve(tx, id, &wakes, err) &&
           hub_commit(&pass->server->hub, &tx, &wakes, err);
}

/* Whoever appends meanwhile may be in the way; the claim need not be waited out for that. */
static bool resolve(struct pass *pass, const char *id, struct error *err)
{
    for (int tries = 1; !resolve_once(pass, id, err); tries++)
        if (tries == TRIES_MAX || !store_is_retryable(err))
            return false;
    return true;
}

static void continue_sessions(struct pass *pass)
{
    struct error err;
    struct rows rows;

    {
        AUTO_TX tx = NULL;
        if (!store_begin_read(pass->server->store, &tx, &err) ||
            !STORE(tx, &continuations_due, &pass->arena, &rows, &err, V_INT(SWEEP_BATCH))) {
            log_warn("sweep cannot read", LOG_STR("query", "continuations_due"), LOG_ERR(&err));
            return;
        }
    }
    for (size_t i = 0; i < rows.n_rows; i++) {
        const char *id = row_text(&rows, i, CONTINUATIONS_DUE_ID);
        if ((!claim(pass, id, &err) || !resolve(pass, id, &err)) && err.code != ERR_CONFLICT)
            log_warn("sweep failed", LOG_STR("job", "continuations"), LOG_STR("subject", id),
                     LOG_ERR(&err));
    }
}

static bool unclaim(struct pass *pass, struct tx *tx, const char *id, const char *detail UNUSED,
                    struct wakes *wakes UNUSED, struct error *err)
{
    return move(pass, tx, id, CONTINUATION_CLAIMED, CONTINUATION_CLAIM_OVER, err);
}

void sweep_sessions(struct pass *pass)
{
    SWEEP(pass, "sessions", &sessions_past_expiry, expire, V_INT(pass->now), V_INT(SWEEP_BATCH));
    SWEEP(pass, "claims", &continuations_stale, unclaim, V_INT(pass->now - CLAIM_MS),
          V_INT(SWEEP_BATCH));
    continue_sessions(pass);
}
