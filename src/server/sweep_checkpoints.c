/* Parked runs and their checkpoints, in time: what a lost worker left, what is to be parked,
 * what nobody can need any more. */
#include "server/resume.h"
#include "server/sweep_pass.h"
#include "store/queries.h"

enum {
    CREATING_MS = 11 * 60 * 1000, /* a little more than its lease may take for it */
    NUDGE_MS = 3 * 1000,          /* a worker knows itself when to park */
    RETENTION_PERIOD_MS = 60 * 1000,
};

static bool lock_run(struct pass *pass, struct tx *tx, const char *run_id, struct run_row *run,
                     struct error *err)
{
    return STORE(tx, &run_lock, NULL, NULL, err, V_TEXT(run_id)) &&
           run_row_load(tx, run_id, &pass->arena, run, err);
}

/* A staged one is whole, and whoever made it is fenced by now. */
static bool end_left(struct pass *pass, struct tx *tx, const char *id, const char *run_id,
                     struct wakes *wakes, struct error *err)
{
    struct checkpoint_row checkpoint;
    struct wait_row wait;
    struct run_row run;
    bool waits;

    if (!lock_run(pass, tx, run_id, &run, err) ||
        !wait_load_open(tx, run_id, &pass->arena, &wait, &waits, err) ||
        !checkpoint_load(tx, id, &pass->arena, &checkpoint, err))
        return false;
    bool is_of_wait = waits && wait.suspension == SUSPENSION_CHECKPOINTING &&
                      strcmp(wait.checkpoint_id, id) == 0 && run.state == RUN_WAITING;
    if (checkpoint.state == CHECKPOINT_STAGED && is_of_wait)
        return resume_park(tx, &wait, &checkpoint, CHECKPOINT_LEASE_OVER, "sweeper", wakes, err);
    return checkpoint_move_by(tx, &checkpoint,
                              checkpoint.state == CHECKPOINT_CREATING ? CHECKPOINT_DEADLINE
                                                                      : CHECKPOINT_LEASE_OVER,
                              pass->now, err);
}

static bool delete_past(struct pass *pass, struct tx *tx, const char *id, const char *run_id,
                        struct wakes *wakes UNUSED, struct error *err)
{
    struct checkpoint_row checkpoint;
    struct run_row run;

    /* With the run locked nobody forks from it or goes back to it meanwhile. */
    return lock_run(pass, tx, run_id, &run, err) &&
           checkpoint_load(tx, id, &pass->arena, &checkpoint, err) &&
           checkpoint_move_by(tx, &checkpoint, CHECKPOINT_RETENTION, pass->now, err);
}

static bool nudge(struct pass *pass, struct tx *tx, const char *id, const char *run_id,
                  struct wakes *wakes, struct error *err)
{
    struct wait_row wait;
    struct run_row run;

    if (!lock_run(pass, tx, run_id, &run, err) || !wait_load(tx, id, &pass->arena, &wait, err))
        return false;
    if (wait.suspension != SUSPENSION_HOT || wait.condition != WAIT_PENDING)
        return error_set(err, ERR_CONFLICT, "the wait has moved on");
    return resume_ask_to_park(tx, &wait, &pass->arena, wakes, err);
}

/* The end of a lease takes its resumption along; this is for one that was missed. */
static bool end_forsaken(struct pass *pass, struct tx *tx, const char *lease_id,
                         const char *run_id UNUSED, struct wakes *wakes, struct error *err)
{
    static const struct lease_fault fault = {
        .on = LEASE_EXPIRE,
        .reason = "lost",
        .source = "sweeper",
        .layer = "guest_runtime",
        .failure_kind = "worker_lost",
    };
    struct lease_row lease;

    return lease_load(tx, lease_id, &pass->arena, &lease, err) &&
           lease_deliver_again(pass->server, tx, &lease, &fault, wakes, err);
}

void sweep_checkpoints(struct pass *pass)
{
    int64_t now = pass->now;

    SWEEP(pass, "checkpoints", &checkpoints_left, end_left, V_INT(now - CREATING_MS),
          V_INT(SWEEP_BATCH));
    SWEEP(pass, "parking", &waits_to_park, nudge, V_INT(now - NUDGE_MS), V_INT(SWEEP_BATCH));
    SWEEP(pass, "resumptions", &waits_forsaken, end_forsaken, V_INT(SWEEP_BATCH));
    if (sweep_is_time(pass, RETENTION_PERIOD_MS))
        SWEEP(pass, "retention", &checkpoints_past, delete_past,
              V_INT(now - pass->server->config->checkpoint_retention_ms), V_INT(SWEEP_BATCH));
}
