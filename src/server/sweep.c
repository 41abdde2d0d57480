#include "server/sweep.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "model/deployment_state.h"
#include "model/worker_state.h"
#include "server/audit_checkpoint.h"
#include "server/deployment_store.h"
#include "server/lease.h"
#include "server/outbox.h"
#include "server/queue.h"
#include "server/schedule_store.h"
#include "server/sweep_pass.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum {
    TICK_MS = 250,
    REMIND_MS = 1000,
    SCHEDULES_MS = 1000,
    GRACE_MS = 5 * 1000,
    SILENT_MS = 60 * 1000,
    REGISTERING_MS = 5 * 60 * 1000,
    QUEUED_MAX_MS = 24 * 60 * 60 * 1000,
    BUILDING_MAX_MS = 60 * 60 * 1000,
    FORGET_MS = 10 * 60 * 1000,
    FIRES_KEPT_MS = 7 * 24 * 60 * 60 * 1000,
    ROUNDS_MAX = 20,
};

struct sweeper {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping;
};

static void apply(struct pass *pass, const char *job, sweep_one *one, const char *id,
                  const char *detail)
{
    struct wakes wakes = {0};
    struct error err;
    AUTO_TX tx = NULL;

    bool fine = store_begin(pass->server->store, &tx, &err) &&
                one(pass, tx, id, detail, &wakes, &err) &&
                hub_commit(&pass->server->hub, &tx, &wakes, &err);
    /* Stale or moved meanwhile means that somebody else did it. */
    if (!fine && err.code != ERR_LEASE_STALE && err.code != ERR_CONFLICT)
        log_warn("sweep failed", LOG_STR("job", job), LOG_STR("subject", id), LOG_ERR(&err));
}

/* Judged by the locked row: it may have been renewed since it was found. */
static bool find_cause(const struct pass *pass, const struct lease_row *lease,
                       enum lease_event *cause, struct error *err)
{
    if (lease_state_is_final(lease->state))
        return error_set(err, ERR_LEASE_STALE, "the lease is over");
    if (lease->expires_ms < pass->now - GRACE_MS)
        *cause = LEASE_EXPIRE;
    else if (lease->state_deadline_ms && lease->state_deadline_ms < pass->now)
        *cause = LEASE_STATE_DEADLINE;
    else if (lease->hard_deadline_ms && lease->hard_deadline_ms < pass->now)
        *cause = LEASE_HARD_DEADLINE;
    else
        return error_set(err, ERR_CONFLICT, "the lease is not overdue any more");
    return true;
}

static bool end_lease(struct pass *pass, struct tx *tx, const char *id, const char *detail UNUSED,
                      struct wakes *wakes, struct error *err)
{
    struct lease_row lease = {0};
    struct lease_fault fault = {
        .reason = "lost",
        .source = "sweeper",
        .layer = "guest_runtime",
        .failure_kind = "worker_lost",
        .text = STR("the worker did not renew the lease"),
    };

    if (!lease_load(tx, id, &pass->arena, &lease, err) || !find_cause(pass, &lease, &fault.on, err))
        return false;
    if (!lease.started_ms)
        fault.reason = "expired";
    if (fault.on != LEASE_HARD_DEADLINE || lease.subject != SUBJECT_RUN)
        return lease_give_back(pass->server, tx, &lease, &fault, wakes, err);

    const struct run_end end = {
        .has_exit_code = true,
        .exit_code = 1,
        .layer = "timeout",
        .failure_kind = "max_duration_exceeded",
        .message = STR("the run exceeded its maximum duration and its worker did not end it"),
        .source = "sweeper",
    };
    struct run_row run;
    return lease_apply(tx, &lease, LEASE_HARD_DEADLINE, 0, err) &&
           lease_load_run(tx, &lease, &pass->arena, &run, err) &&
           lease_finish_run(tx, &lease, &run, RUN_MAX_DURATION, &end, wakes, err);
}

/* Leases first and the worker last, as a cancel locks its run before it writes to the worker. A
 * heartbeat that came meanwhile undoes it all. */
static bool lose_worker(struct pass *pass, struct tx *tx, const char *id, const char *state_text,
                        struct wakes *wakes, struct error *err)
{
    static const struct lease_fault fault = {
        .on = LEASE_EXPIRE,
        .reason = "lost",
        .source = "sweeper",
        .layer = "guest_runtime",
        .failure_kind = "worker_lost",
        .text = {"the worker is not heard of", 26},
    };
    enum worker_state before, after;
    struct rows rows;

    if (!worker_state_parse(str_of(state_text), &before))
        return error_set(err, ERR_INTERNAL, "worker %s is in no known state", id);
    after = before;
    enum worker_event on =
        before == WORKER_REGISTERING ? WORKER_REGISTRATION_DEADLINE : WORKER_HEARTBEAT_LOST;
    if (!worker_state_apply(&after, on))
        return error_set(err, ERR_CONFLICT, "worker %s is not live", id);
    if (!dispatch_lock(tx, id, err) || !lease_end_all(pass->server, tx, id, &fault, wakes, err) ||
        !STORE(tx, &worker_lose, &pass->arena, &rows, err, V_TEXT(id),
               V_TEXT(worker_state_name(before)), V_TEXT(worker_state_name(after)),
               V_INT(pass->now - SILENT_MS), V_INT(pass->now)))
        return false;
    return rows.n_changed == 1 || error_set(err, ERR_CONFLICT, "worker %s is heard of again", id);
}

static bool expire_run(struct pass *pass, struct tx *tx, const char *id, const char *detail UNUSED,
                       struct wakes *wakes, struct error *err)
{
    return run_expire(tx, id, "sweeper", &pass->arena, wakes, err);
}

static bool promote(struct pass *pass UNUSED, struct tx *tx, const char *id, const char *group_id,
                    struct wakes *wakes, struct error *err)
{
    wakes_add(wakes, "g", group_id);
    return queue_promote(tx, id, err);
}

static bool end_cancelled(struct pass *pass, struct tx *tx, const char *id,
                          const char *detail UNUSED, struct wakes *wakes, struct error *err)
{
    const struct run_end end = {.source = "sweeper"};
    struct lease_row lease = {0};
    struct run_row run;
    struct rows rows;

    if (!STORE(tx, &lease_live_find, &pass->arena, &rows, err, V_TEXT("run"), V_TEXT(id)))
        return false;
    if (rows.n_rows > 0 &&
        (!lease_load(tx, row_text(&rows, 0, LEASE_LIVE_FIND_ID), &pass->arena, &lease, err) ||
         !lease_apply(tx, &lease, LEASE_CANCEL_GRACE, 0, err)))
        return false;
    return run_row_load(tx, id, &pass->arena, &run, err) &&
           lease_finish_run(tx, &lease, &run, RUN_CANCEL_GRACE, &end, wakes, err);
}

static bool fail_deployment(struct pass *pass UNUSED, struct tx *tx, const char *id,
                            const char *state, struct wakes *wakes, struct error *err)
{
    bool queued = strcmp(state, "queued") == 0;
    const struct deployment_fault fault = {
        .layer = "deployment_build",
        .failure_kind = "build_cancelled",
        .message = queued ? STR("no worker took the build within 24 hours")
                          : STR("the build took longer than 60 minutes"),
        .source = "sweeper",
    };

    enum deployment_event on = queued ? DEPLOYMENT_QUEUE_DEADLINE : DEPLOYMENT_BUILD_DEADLINE;

    /* Its lease before itself: the order of the workers' reports. And once more, for a lease
     * that was granted while the deployment's row was waited for. */
    return outbox_revoke(tx, "build", id, fault.message, wakes, err) &&
           deployment_end_failed(tx, id, (int)on, &fault, wakes, err) &&
           outbox_revoke(tx, "build", id, fault.message, wakes, err);
}

static bool find(struct pass *pass, const struct query *query, const struct value *params, size_t n,
                 struct rows *rows)
{
    struct error err;
    AUTO_TX tx = NULL;

    if (store_begin_read(pass->server->store, &tx, &err) &&
        store_run(tx, query, params, n, &pass->arena, rows, &err))
        return true;
    log_warn("sweep cannot read", LOG_STR("query", query->name), LOG_ERR(&err));
    return false;
}

size_t sweep_each(struct pass *pass, const char *job, const struct query *query,
                  const struct value *params, size_t n, sweep_one *one)
{
    struct rows rows;

    if (!find(pass, query, params, n, &rows))
        return 0;
    for (size_t i = 0; i < rows.n_rows; i++)
        apply(pass, job, one, row_text(&rows, i, 0),
              rows.n_columns > 1 ? row_text(&rows, i, 1) : "");
    return rows.n_rows;
}

bool sweep_is_time(const struct pass *pass, int64_t period_ms)
{
    return pass->now / period_ms != pass->last / period_ms;
}

static void wake_groups(struct pass *pass, const struct query *query, const struct value *params,
                        size_t n)
{
    struct rows rows;

    if (!find(pass, query, params, n, &rows))
        return;
    for (size_t i = 0; i < rows.n_rows; i++)
        hub_wake(&pass->server->hub, arena_printf(&pass->arena, "g%s", row_text(&rows, i, 0)));
}

/* A queue may be of any length, so what is due in it goes on while there is more of it. */
static void sweep_queue(struct pass *pass)
{
    for (int i = 0; i < ROUNDS_MAX; i++) {
        size_t n = SWEEP(pass, "ttl", &runs_past_ttl, expire_run, V_INT(pass->now),
                         V_INT(SWEEP_BATCH)),
               m = SWEEP(pass, "delays", &ready_due, promote, V_INT(pass->now), V_INT(SWEEP_BATCH));
        if (n < SWEEP_BATCH && m < SWEEP_BATCH)
            break;
    }
    /* Should a wake-up have been lost. */
    if (sweep_is_time(pass, REMIND_MS))
        wake_groups(pass, &groups_waiting, NULL, 0);
}

static int64_t sweep_since(struct server *server, int64_t last)
{
    struct pass pass = {.server = server, .now = time_now_ms(), .last = last};
    int64_t now = pass.now;

    SWEEP(&pass, "leases", &leases_overdue, end_lease, V_INT(now), V_INT(now - GRACE_MS),
          V_INT(SWEEP_BATCH));
    SWEEP(&pass, "workers", &workers_silent, lose_worker, V_INT(now - SILENT_MS),
          V_INT(now - REGISTERING_MS), V_INT(SWEEP_BATCH));
    SWEEP(&pass, "cancel", &runs_past_cancel, end_cancelled, V_INT(now), V_INT(SWEEP_BATCH));
    SWEEP(&pass, "deployments", &deployments_stale, fail_deployment, V_INT(now - QUEUED_MAX_MS),
          V_INT(now - BUILDING_MAX_MS), V_INT(SWEEP_BATCH));
    sweep_waits(&pass);
    sweep_sessions(&pass);
    sweep_checkpoints(&pass);
    sweep_workspaces(&pass);
    sweep_mounts(&pass);
    if (sweep_is_time(&pass, SCHEDULES_MS))
        schedules_fire(server, now);
    sweep_queue(&pass);
    arena_finish(&pass.arena);
    return now;
}

void sweep_once(struct server *server)
{
    sweep_since(server, time_now_ms() - TICK_MS);
}

static void forget_old(struct server *server)
{
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, &err) ||
        !STORE(tx, &idempotency_forget, NULL, NULL, &err, V_INT(time_now_ms())) ||
        !STORE(tx, &schedule_fires_forget, NULL, NULL, &err,
               V_INT(time_now_ms() - FIRES_KEPT_MS)) ||
        !STORE(tx, &user_sessions_forget, NULL, NULL, &err, V_INT(time_now_ms())) ||
        !queue_collect(tx, time_now_ms(), &err) || !store_commit(&tx, &err))
        log_warn("old rows not removed", LOG_ERR(&err));
}

static void *sweeper_main(void *arg)
{
    struct sweeper *sweeper = arg;
    int64_t forget_ms = time_boot_ms() + FORGET_MS, last = time_now_ms();

    pthread_mutex_lock(&sweeper->lock);
    while (!sweeper->is_stopping) {
        struct timespec until;

        pthread_mutex_unlock(&sweeper->lock);
        last = sweep_since(sweeper->server, last);
        audit_checkpoint_renew(sweeper->server, false);
        if (time_boot_ms() > forget_ms) {
            forget_ms = time_boot_ms() + FORGET_MS;
            forget_old(sweeper->server);
        }
        pthread_mutex_lock(&sweeper->lock);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000L;
        }
        if (!sweeper->is_stopping)
            pthread_cond_timedwait(&sweeper->changed, &sweeper->lock, &until);
    }
    pthread_mutex_unlock(&sweeper->lock);
    return NULL;
}

bool sweeper_start(struct server *server, struct sweeper **sweeper, struct error *err)
{
    struct sweeper *made = alloc(sizeof *made);

    *made = (struct sweeper){.server = server};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (pthread_create(&made->thread, NULL, sweeper_main, made) != 0) {
        free(made);
        return error_set(err, ERR_INTERNAL, "the sweeper's thread could not be made");
    }
    *sweeper = made;
    return true;
}

void sweeper_stop(struct sweeper *sweeper)
{
    if (!sweeper)
        return;
    pthread_mutex_lock(&sweeper->lock);
    sweeper->is_stopping = true;
    pthread_cond_signal(&sweeper->changed);
    pthread_mutex_unlock(&sweeper->lock);
    pthread_join(sweeper->thread, NULL);
    pthread_mutex_destroy(&sweeper->lock);
    pthread_cond_destroy(&sweeper->changed);
    free(sweeper);
}
