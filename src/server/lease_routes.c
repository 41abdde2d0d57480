/* What a worker reports about a lease before its end: begin, start, renew, give back. */
#include "base/time.h"
#include "server/caller.h"
#include "server/deployment_store.h"
#include "server/event.h"
#include "server/lease.h"
#include "server/mount_store.h"
#include "server/task_secrets.h"
#include "server/wait_store.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum { STARTING_MS = 10 * 60 * 1000, BUILD_MS = 60 * 60 * 1000, HARD_GRACE_MS = 60 * 1000 };

/* An open call of a lease: its transaction and the row, locked. */
struct lease_call {
    struct call *call;
    struct server *server;
    struct tx *tx;
    struct lease_row lease;
    struct wakes wakes;
};

static void finish_call(struct lease_call *open)
{
    store_rollback(&open->tx);
}

static bool open_call(struct call *call, const struct wire_fence *fence, bool may_be_over,
                      struct lease_call *open, struct error *err)
{
    open->call = call;
    open->server = server_of(call);
    return store_begin(open->server->store, &open->tx, err) &&
           lease_open(open->tx, call, fence, may_be_over, &open->lease, err);
}

static bool commit(struct lease_call *open, struct error *err)
{
    return hub_commit(&open->server->hub, &open->tx, &open->wakes, err);
}

/* With the answer, so that they cost no call of their own. What cannot be opened is left out: the
 * worker then asks, and is told why. */
static void open_secrets(struct lease_call *open, struct wire_begun *answer)
{
    struct error ignored;

    if (open->lease.subject != SUBJECT_RUN || open->lease.state != LEASE_STARTING ||
        lease_secrets_open(open->call, open->tx, &open->lease, &answer->secrets, &ignored))
        return;
    lease_secrets_wipe(&answer->secrets);
    *answer = (struct wire_begun){0};
}

bool lease_begin_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct lease_call open = {0};
    struct wire_begun answer = {0};
    struct wire_begin wanted;

    if (!worker_read(call, wire_begin_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, false, &open, err))
        return false;
    /* Asked again because the answer was lost: it has begun. */
    if (open.lease.state == LEASE_ASSIGNED &&
        !lease_apply(open.tx, &open.lease, LEASE_BEGIN, time_now_ms() + STARTING_MS, err))
        return false;
    open_secrets(&open, &answer);
    bool fine = commit(&open, err) && worker_answer(res, wire_begun_fields, &answer, err);
    lease_secrets_wipe(&answer.secrets);
    return fine;
}

static bool started_event(struct lease_call *open, const struct wire_start *start,
                          struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 4096};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "lease_id", open->lease.id);
    json_string(&json, "worker_id", open->lease.worker_id);
    json_text(&json, "engine", start->engine);
    json_text(&json, "grade", start->grade);
    json_bool(&json, "accelerated", start->accelerated);
    json_text(&json, "start", start->start);
    if (start->level.ptr)
        json_text(&json, "level", start->level);
    json_int(&json, "start_ms", start->start_ms);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "run.lease_started",
                                .source = "worker",
                                .attempt = open->lease.attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(open->tx, open->lease.subject_id, &event, err);
}

static bool phase_events(struct lease_call *open, const struct wire_start *start, struct error *err)
{
    const struct wire_phase *phases = start->phases.items;

    for (size_t i = 0; i < start->phases.n; i++) {
        AUTO(buf_finish) struct buf text = {.max = 256};
        struct json_writer json = json_begin(&text);

        json_open(&json, NULL);
        json_text(&json, "step", phases[i].step);
        json_int(&json, "ms", phases[i].ms);
        json_close(&json);
        if (!json_end(&json, err))
            return false;
        const struct event event = {.kind = "run.prepare",
                                    .source = "worker",
                                    .severity = "debug",
                                    .attempt = open->lease.attempt,
                                    .attributes = buf_str(&text)};
        if (!run_event_append(open->tx, open->lease.subject_id, &event, err))
            return false;
    }
    return true;
}

/* Whether the run goes on from a checkpoint: then its time goes on too. */
static bool is_resumption(struct lease_call *open, bool *is, struct error *err)
{
    struct wait_row wait;
    bool found;

    if (!wait_load_open(open->tx, open->lease.subject_id, open->call->arena, &wait, &found, err))
        return false;
    *is = found && wait.suspension == SUSPENSION_RESUMING &&
          strcmp(wait.lease_id, open->lease.id) == 0;
    return true;
}

/* Sets what the attempt may still take; from the start it is the whole. */
static bool set_time(struct lease_call *open, struct run_row *run, int64_t now, int64_t *hard_ms,
                     struct error *err)
{
    bool is_resumed;

    if (!is_resumption(open, &is_resumed, err))
        return false;
    if (!is_resumed) {
        run->active_base_ms = run->active_ms;
        if (!STORE(open->tx, &run_count_from_start, NULL, NULL, err, V_TEXT(run->id)))
            return false;
    }
    *hard_ms = now + run_active_left_ms(run, now) + HARD_GRACE_MS;
    return true;
}

static bool start_run(struct lease_call *open, const struct wire_start *start, int64_t *hard_ms,
                      struct error *err)
{
    struct run_row run;
    int64_t now = time_now_ms();

    if (!lease_load_run(open->tx, &open->lease, open->call->arena, &run, err))
        return false;
    /* Asked to end meanwhile: the program must not be let go. */
    if (run.state == RUN_PENDING_CANCEL)
        return error_set(err, ERR_CONFLICT, "the run is being cancelled");
    return set_time(open, &run, now, hard_ms, err) &&
           run_move(open->tx, &run, RUN_START, &open->wakes, err) &&
           STORE(open->tx, &run_set_isolation, NULL, NULL, err, V_TEXT(run.id),
                 V_STR(start->engine), V_STR(start->grade), V_INT(start->accelerated),
                 V_INT(now)) &&
           STORE(open->tx, &attempt_upsert, NULL, NULL, err, V_TEXT(run.id), V_INT(run.attempt),
                 V_TEXT("executing"), V_INT(now)) &&
           started_event(open, start, err) && phase_events(open, start, err);
}

/* A mount has no end of its own: it lasts while it is used. */
static bool start_subject(struct lease_call *open, const struct wire_start *start, int64_t *hard_ms,
                          struct error *err)
{
    const struct lease_row *lease = &open->lease;
    const struct deployment_builder builder = {lease->worker_id, lease->id, start->engine,
                                               start->grade};

    switch (lease->subject) {
    case SUBJECT_RUN: return start_run(open, start, hard_ms, err);
    case SUBJECT_MOUNT:
        return STORE(open->tx, &mount_set_started, NULL, NULL, err, V_TEXT(lease->subject_id),
                     V_STR(start->engine), V_STR(start->grade), V_INT(start->accelerated),
                     V_INT(time_now_ms()));
    case SUBJECT_BUILD: break;
    }
    *hard_ms = time_now_ms() + BUILD_MS;
    return deployment_start_build(open->tx, lease->subject_id, &builder, &open->wakes, err);
}

static bool record_start(struct lease_call *open, const struct wire_start *start, struct error *err)
{
    int64_t now = time_now_ms(), hard_ms = 0;
    struct lease_row *lease = &open->lease;

    if (!lease_apply(open->tx, lease, LEASE_START, 0, err))
        return false;
    bool moved = start_subject(open, start, &hard_ms, err);
    lease->expires_ms = now + open->server->config->lease_ttl_ms;
    lease->hard_deadline_ms = hard_ms;
    return moved && STORE(open->tx, &lease_set_started, NULL, NULL, err, V_TEXT(lease->id),
                          V_INT(now), V_INT(lease->expires_ms), hard_ms ? V_INT(hard_ms) : V_NULL);
}

bool lease_start_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct lease_call open = {0};
    struct wire_start wanted;

    if (!worker_read(call, wire_start_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, false, &open, err))
        return false;
    if (open.lease.state != LEASE_RUNNING &&
        (!record_start(&open, &wanted, err) || !commit(&open, err)))
        return false;
    const struct wire_lease_times times = {open.lease.expires_ms, open.lease.hard_deadline_ms};
    return worker_answer(res, wire_lease_times_fields, &times, err);
}

bool lease_renew_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct lease_call open = {0};
    struct wire_renew wanted;
    struct lease_row *lease = &open.lease;

    if (!worker_read(call, wire_renew_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, false, &open, err))
        return false;
    if (wanted.expires_ms == lease->expires_ms) {
        int64_t expires = time_now_ms() + open.server->config->lease_ttl_ms;

        if (lease->hard_deadline_ms && expires > lease->hard_deadline_ms)
            expires = lease->hard_deadline_ms;
        if (!STORE(open.tx, &lease_renew, NULL, NULL, err, V_TEXT(lease->id),
                   V_INT(wanted.expires_ms), V_INT(expires)) ||
            !commit(&open, err))
            return false;
        lease->expires_ms = expires;
    } else if (wanted.expires_ms != lease->prev_expires_ms) {
        return error_set(err, ERR_LEASE_STALE, "the lease was renewed by somebody else");
    }
    const struct wire_lease_times times = {lease->expires_ms, lease->hard_deadline_ms};
    return worker_answer(res, wire_lease_times_fields, &times, err);
}

static bool fail_preparation(struct lease_call *open, const struct wire_reject *reject,
                             struct error *err)
{
    struct arena *arena = open->call->arena;
    const struct run_end end = {
        .has_exit_code = true,
        .exit_code = 1,
        .layer = arena_text(arena, reject->layer),
        .failure_kind = arena_text(arena, reject->failure_kind),
        .message = reject->text,
        .source = "worker",
    };
    struct run_row run;

    if (!lease_apply(open->tx, &open->lease, LEASE_REJECT_FINAL, 0, err) ||
        !lease_load_run(open->tx, &open->lease, arena, &run, err))
        return false;
    return lease_released_event(open->tx, &open->lease, "failed", err) &&
           lease_finish_run(open->tx, &open->lease, &run, RUN_PREPARATION_FAILED, &end,
                            &open->wakes, err);
}

static bool fail_mount(struct lease_call *open, const struct lease_fault *fault, struct error *err)
{
    return lease_apply(open->tx, &open->lease, LEASE_REJECT_FINAL, 0, err) &&
           mount_give_back(open->server, open->tx, &open->lease, fault, true, &open->wakes, err);
}

bool lease_reject_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct lease_call open = {0};
    struct wire_reject wanted;

    if (!worker_read(call, wire_reject_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, true, &open, err))
        return false;
    if (lease_state_is_final(open.lease.state))
        return worker_answer_nothing(res, err); /* told twice */
    const struct lease_fault fault = {
        .on = LEASE_REJECT,
        .reason = "rejected",
        .source = "worker",
        .layer = arena_text(call->arena, wanted.layer),
        .failure_kind = arena_text(call->arena, wanted.failure_kind),
        .text = wanted.text,
        .is_damaged = !wanted.retryable && str_equal(wanted.code, STR("checkpoint_invalid")),
    };
    /* A build's own faults are completed, not rejected: what comes here is tried again. */
    bool is_final = !wanted.retryable && open.lease.subject != SUBJECT_BUILD &&
                    open.lease.state == LEASE_STARTING && !fault.is_damaged;
    bool moved = !is_final
                     ? lease_give_back(open.server, open.tx, &open.lease, &fault, &open.wakes, err)
                 : open.lease.subject == SUBJECT_RUN ? fail_preparation(&open, &wanted, err)
                                                     : fail_mount(&open, &fault, err);
    return moved && commit(&open, err) && worker_answer_nothing(res, err);
}

bool lease_release_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct lease_call open = {0};
    struct wire_release wanted;

    if (!worker_read(call, wire_release_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, true, &open, err))
        return false;
    if (lease_state_is_final(open.lease.state))
        return worker_answer_nothing(res, err);
    const struct lease_fault fault = {
        .on = LEASE_RELEASE,
        .reason = "lost",
        .source = "worker",
        .layer = "guest_runtime",
        .failure_kind = "worker_lost",
        .text = wanted.reason,
    };
    return lease_give_back(open.server, open.tx, &open.lease, &fault, &open.wakes, err) &&
           commit(&open, err) && worker_answer_nothing(res, err);
}
