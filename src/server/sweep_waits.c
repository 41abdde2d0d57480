/* What time does to waits: timers come due, waits and tokens expire. All of it is written down as
 * instants, so it happens after any downtime, late but once. */
#include "server/sweep_pass.h"
#include "server/token_store.h"
#include "server/wait_store.h"
#include "store/queries.h"

/* The run first, as everyone who settles from outside. */
static bool open_wait(struct pass *pass, struct tx *tx, const char *id, const char *run_id,
                      struct wait_row *wait, struct error *err)
{
    return STORE(tx, &run_lock, NULL, NULL, err, V_TEXT(run_id)) &&
           wait_load(tx, id, &pass->arena, wait, err);
}

static bool settle(struct tx *tx, struct wait_row *wait, enum condition_event on,
                   struct wakes *wakes, struct error *err)
{
    AUTO(buf_finish) struct buf decision = {.max = WAIT_DECISION_MAX};

    return wait_decision(on, (struct str){0}, (struct str){0}, &decision, err) &&
           wait_settle(tx, wait, on, buf_str(&decision), wakes, err);
}

static bool fire_timer(struct pass *pass, struct tx *tx, const char *id, const char *run_id,
                       struct wakes *wakes, struct error *err)
{
    struct wait_row wait;

    return open_wait(pass, tx, id, run_id, &wait, err) &&
           settle(tx, &wait, CONDITION_COMPLETE, wakes, err);
}

static bool expire_wait(struct pass *pass, struct tx *tx, const char *id, const char *run_id,
                        struct wakes *wakes, struct error *err)
{
    struct wait_row wait;

    return open_wait(pass, tx, id, run_id, &wait, err) &&
           settle(tx, &wait, CONDITION_EXPIRE, wakes, err);
}

static bool expire_token(struct pass *pass, struct tx *tx, const char *id,
                         const char *detail UNUSED, struct wakes *wakes, struct error *err)
{
    static const struct token_end end = {.on = TOKEN_EXPIRE};
    struct token_hold hold;

    return token_hold(tx, id, &pass->arena, &hold, err) && token_end(tx, &hold, &end, wakes, err);
}

void sweep_waits(struct pass *pass)
{
    SWEEP(pass, "timers", &waits_due, fire_timer, V_INT(pass->now), V_INT(SWEEP_BATCH));
    SWEEP(pass, "waits", &waits_timed_out, expire_wait, V_INT(pass->now), V_INT(SWEEP_BATCH));
    SWEEP(pass, "tokens", &tokens_timed_out, expire_token, V_INT(pass->now), V_INT(SWEEP_BATCH));
}
