#include "server/lease.h"

#include <stdio.h>

#include "base/time.h"
#include "model/deployment_state.h"
#include "model/retry.h"
#include "server/caller.h"
#include "server/deployment_store.h"
#include "server/event.h"
#include "server/mount_store.h"
#include "server/queue.h"
#include "server/resume.h"
#include "store/queries.h"

static void copy_id(char to[ID_TEXT], const struct rows *rows, size_t column)
{
    const char *text = row_text(rows, 0, column);

    snprintf(to, ID_TEXT, "%s", text ? text : "");
}

static const char *const subject_names[] = {"run", "build", "mount"};

static enum lease_subject subject_of(struct str kind)
{
    enum lease_subject subject = SUBJECT_RUN;

    while (subject < SUBJECT_MOUNT && !str_equal(kind, str_of(subject_names[subject])))
        subject++;
    return subject;
}

bool lease_load(struct tx *tx, const char *id, struct arena *arena, struct lease_row *lease,
                struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &lease_lock, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_LEASE_STALE, "there is no lease %s", id);
    *lease = (struct lease_row){
        .subject = subject_of(row_str(&rows, 0, LEASE_LOCK_SUBJECT_KIND)),
        .attempt = row_int(&rows, 0, LEASE_LOCK_ATTEMPT),
        .sequence = row_int(&rows, 0, LEASE_LOCK_SEQUENCE),
        .epoch = row_int(&rows, 0, LEASE_LOCK_EPOCH),
        .granted_ms = row_int(&rows, 0, LEASE_LOCK_GRANTED_MS),
        .started_ms = row_int(&rows, 0, LEASE_LOCK_STARTED_MS),
        .expires_ms = row_int(&rows, 0, LEASE_LOCK_EXPIRES_MS),
        .prev_expires_ms = row_int(&rows, 0, LEASE_LOCK_PREV_EXPIRES_MS),
        .state_deadline_ms = row_int(&rows, 0, LEASE_LOCK_STATE_DEADLINE_MS),
        .hard_deadline_ms = row_int(&rows, 0, LEASE_LOCK_HARD_DEADLINE_MS),
        .finalize_fp = row_str(&rows, 0, LEASE_LOCK_FINALIZE_FP),
        .complete_fp = row_str(&rows, 0, LEASE_LOCK_COMPLETE_FP),
        .complete_answer = row_str(&rows, 0, LEASE_LOCK_COMPLETE_ANSWER),
    };
    copy_id(lease->id, &rows, LEASE_LOCK_ID);
    copy_id(lease->subject_id, &rows, LEASE_LOCK_SUBJECT_ID);
    copy_id(lease->environment_id, &rows, LEASE_LOCK_ENVIRONMENT_ID);
    copy_id(lease->lane_id, &rows, LEASE_LOCK_LANE_ID);
    copy_id(lease->worker_id, &rows, LEASE_LOCK_WORKER_ID);
    if (!lease_state_parse(row_str(&rows, 0, LEASE_LOCK_STATE), &lease->state))
        return error_set(err, ERR_INTERNAL, "lease %s is in no known state", id);
    return true;
}

static bool epoch_is_current(struct tx *tx, struct call *call, const struct wire_fence *fence,
                             struct error *err)
{
    const struct caller *caller = caller_of(call);
    struct rows rows;

    if (!STORE(tx, &worker_epoch, call->arena, &rows, err, V_TEXT(caller->id)))
        return false;
    if (rows.n_rows == 0 || row_int(&rows, 0, WORKER_EPOCH_EPOCH) != fence->epoch ||
        caller->epoch != fence->epoch)
        return error_set(err, ERR_EPOCH_SUPERSEDED, "a newer process of this worker is active");
    return true;
}

bool lease_open(struct tx *tx, struct call *call, const struct wire_fence *fence, bool may_be_over,
                struct lease_row *lease, struct error *err)
{
    if (call->match.n_params > 0 && !str_equal(call_param(call, 0), fence->lease_id))
        return error_set(err, ERR_INVALID, "the fence names another lease than the path");
    if (!epoch_is_current(tx, call, fence, err) ||
        !lease_load(tx, arena_text(call->arena, fence->lease_id), call->arena, lease, err))
        return false;
    bool is_theirs = str_equal(str_of(lease->worker_id), str_of(caller_of(call)->id)) &&
                     lease->epoch == fence->epoch && lease->sequence == fence->sequence;
    if (!is_theirs || (lease_state_is_final(lease->state) && !may_be_over))
        return error_set(err, ERR_LEASE_STALE, "the lease is over");
    return true;
}

bool lease_is_for(const struct lease_row *lease, enum lease_subject subject, struct error *err)
{
    return lease->subject == subject ||
           error_set(err, ERR_INVALID, "the lease is of a %s", subject_names[lease->subject]);
}

bool lease_load_run(struct tx *tx, const struct lease_row *lease, struct arena *arena,
                    struct run_row *run, struct error *err)
{
    return STORE(tx, &run_lock, NULL, NULL, err, V_TEXT(lease->subject_id)) &&
           run_row_load(tx, lease->subject_id, arena, run, err);
}

bool lease_apply(struct tx *tx, struct lease_row *lease, enum lease_event on, int64_t deadline_ms,
                 struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    enum lease_state after = lease->state;
    struct rows rows;

    if (!lease_state_apply(&after, on))
        return error_set(err, ERR_LEASE_STALE, "a lease that is %s cannot %s",
                         lease_state_name(lease->state), lease_event_name(on));
    if (!STORE(tx, &lease_move, &arena, &rows, err, V_TEXT(lease->id),
               V_TEXT(lease_state_name(lease->state)), V_TEXT(lease_state_name(after)),
               V_INT(!lease_state_is_final(after)), deadline_ms ? V_INT(deadline_ms) : V_NULL,
               V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_LEASE_STALE, "the lease moved meanwhile");
    lease->state = after;
    if (!lease_state_is_final(after))
        return true;
    return queue_recount(tx, lease->lane_id, err) &&
           STORE(tx, &lease_operations_forget, &arena, &rows, err, V_TEXT(lease->id));
}

static bool append(struct tx *tx, const struct lease_row *lease, const char *kind,
                   const char *source, struct buf *attributes, struct error *err)
{
    const struct event event = {
        .kind = kind,
        .source = source,
        .severity = str_equal(str_of(kind), STR("run.lease_released")) ? "info" : "warn",
        .attempt = lease->attempt,
        .attributes = buf_str(attributes),
    };

    return run_event_append(tx, lease->subject_id, &event, err);
}

bool lease_released_event(struct tx *tx, const struct lease_row *lease, const char *outcome,
                          struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "lease_id", lease->id);
    json_string(&json, "outcome", outcome);
    json_close(&json);
    return json_end(&json, err) && append(tx, lease, "run.lease_released", "worker", &text, err);
}

static bool requeued_event(struct tx *tx, const struct lease_row *lease, const struct run_row *run,
                           const struct lease_fault *fault, bool from_checkpoint, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 8192};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "lease_id", lease->id);
    json_string(&json, "reason", fault->reason);
    json_int(&json, "dispatch_number", run->dispatches);
    json_bool(&json, "from_checkpoint", from_checkpoint);
    if (fault->text.len > 0)
        json_text(&json, "detail", fault->text);
    json_close(&json);
    return json_end(&json, err) &&
           append(tx, lease, "run.dispatch_requeued", fault->source, &text, err);
}

static bool lost_event(struct tx *tx, const struct lease_row *lease,
                       const struct lease_fault *fault, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "lease_id", lease->id);
    json_string(&json, "worker_id", lease->worker_id);
    json_close(&json);
    return json_end(&json, err) &&
           append(tx, lease, "run.execution_lost", fault->source, &text, err);
}

bool lease_finish_run(struct tx *tx, const struct lease_row *lease, struct run_row *run,
                      enum run_event on, const struct run_end *end, struct wakes *wakes,
                      struct error *err)
{
    if (!run_finish(tx, run, on, end, wakes, err))
        return false;
    const char *state = run->status == RUN_STATUS_CANCELLED ? "cancelled" : "failed";
    wakes_add(wakes, "g", run->group_id);
    return STORE(tx, &attempt_close, NULL, NULL, err, V_TEXT(run->id), V_INT(lease->attempt),
                 V_TEXT(state), V_INT(time_now_ms()));
}

static bool dead_letter(struct tx *tx, const struct lease_row *lease, struct run_row *run,
                        const struct lease_fault *fault, struct wakes *wakes, struct error *err)
{
    const struct run_end end = {
        .layer = fault->layer ? fault->layer : "guest_runtime",
        .failure_kind = fault->failure_kind ? fault->failure_kind : "worker_lost",
        .message = fault->text.len ? fault->text : STR("every delivery of the attempt was lost"),
        .source = fault->source,
    };

    return lease_finish_run(tx, lease, run, RUN_DISPATCH_LIMIT, &end, wakes, err);
}

static bool fail_resume(struct tx *tx, const struct lease_row *lease, struct run_row *run,
                        const struct lease_fault *fault, struct wakes *wakes, struct error *err)
{
    const struct run_end end = {
        .has_exit_code = true,
        .exit_code = 1,
        .layer = "parked_wait",
        .failure_kind = "wait_resume_failed",
        .message = fault->text.len ? fault->text : STR("no worker could resume the run"),
        .source = fault->source,
    };

    return lease_finish_run(tx, lease, run,
                            run->state == RUN_LEASED ? RUN_PREPARATION_FAILED : RUN_FAIL, &end,
                            wakes, err);
}

/* Back into the queue, unless it was delivered too often. */
static bool deliver_again(struct server *server, struct tx *tx, const struct lease_row *lease,
                          struct run_row *run, const struct lease_fault *fault,
                          const struct resume_verdict *verdict, struct wakes *wakes,
                          struct error *err)
{
    enum run_event on = fault->on == LEASE_REJECT ? RUN_REJECT : RUN_LEASE_OVER;
    const char *from = verdict->checkpoint_id;
    bool is_last = run->dispatches >= server->config->max_dispatches && !verdict->was_resuming;
    /* Another checkpoint is another try: there is nothing to wait for. */
    bool is_later = fault->on == LEASE_REJECT && !fault->is_damaged;
    int64_t delay = is_later ? redelivery_delay_ms(run->dispatches - 1) : 0;
    int64_t at = time_now_ms() + delay;

    bool queued = from ? run_requeue_from(tx, run, on, at, from, wakes, err)
                       : run_requeue(tx, run, on, at, wakes, err);
    if (!queued || !requeued_event(tx, lease, run, fault, from, err))
        return false;
    return !is_last || dead_letter(tx, lease, run, fault, wakes, err);
}

bool lease_deliver_again(struct server *server, struct tx *tx, struct lease_row *lease,
                         const struct lease_fault *fault, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct resume_verdict verdict;
    struct run_row run;

    if (!lease_load_run(tx, lease, &arena, &run, err))
        return false;
    if (run_state_is_final(run.state))
        return true;
    if (run.state == RUN_PENDING_CANCEL)
        return lease_finish_run(tx, lease, &run,
                                fault->on == LEASE_REJECT ? RUN_REJECT : RUN_LEASE_OVER,
                                &(struct run_end){.source = fault->source}, wakes, err);
    if (!resume_after_loss(tx, lease, &run, fault, &arena, wakes, &verdict, err))
        return false;
    if (verdict.next == NEXT_PARKED) {
        wakes_add(wakes, "g", run.group_id);
        return lease_released_event(tx, lease, "checkpointed", err);
    }
    if (lease->started_ms && !lost_event(tx, lease, fault, err))
        return false;
    if (verdict.next == NEXT_FAILED)
        return fail_resume(tx, lease, &run, fault, wakes, err);
    return deliver_again(server, tx, lease, &run, fault, &verdict, wakes, err);
}

bool lease_give_back(struct server *server, struct tx *tx, struct lease_row *lease,
                     const struct lease_fault *fault, struct wakes *wakes, struct error *err)
{
    if (!lease_apply(tx, lease, fault->on, 0, err))
        return false;
    wakes_add(wakes, "w", lease->worker_id);
    if (lease->subject == SUBJECT_BUILD)
        return deployment_give_back(tx, lease->subject_id, lease->lane_id, fault->reason,
                                    fault->text, wakes, err);
    if (lease->subject == SUBJECT_MOUNT)
        return mount_give_back(server, tx, lease, fault, false, wakes, err);
    return lease_deliver_again(server, tx, lease, fault, wakes, err);
}

bool lease_end_all(struct server *server, struct tx *tx, const char *worker_id,
                   const struct lease_fault *fault, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &leases_of_worker, &arena, &rows, err, V_TEXT(worker_id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct lease_row lease = {0};

        if (!lease_load(tx, row_text(&rows, i, LEASES_OF_WORKER_ID), &arena, &lease, err))
            return false;
        /* Its end may have been reported while its lock was waited for. */
        if (!lease_state_is_final(lease.state) &&
            !lease_give_back(server, tx, &lease, fault, wakes, err))
            return false;
    }
    return true;
}
