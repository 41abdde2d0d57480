/* The end of a lease with a result, believed once: the same fingerprint again gets the same
 * answer, another one is stale. */
#include "base/id.h"
#include "base/time.h"
#include "model/deployment_state.h"
#include "model/retry.h"
#include "server/caller.h"
#include "server/deployment_store.h"
#include "server/event.h"
#include "server/images.h"
#include "server/input.h"
#include "server/lease.h"
#include "server/quota.h"
#include "server/versions.h"
#include "server/wait_store.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum { ERROR_MAX = 256 * 1024 };

bool lease_finalize_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_finalize wanted;
    struct lease_row lease = {0};
    struct run_row run;
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_finalize_fields, &wanted, sizeof wanted, err) ||
        !store_begin(server->store, &tx, err) ||
        !lease_open(tx, call, &wanted.fence, true, &lease, err) ||
        !lease_is_for(&lease, SUBJECT_RUN, err) ||
        !lease_load_run(tx, &lease, call->arena, &run, err))
        return false;
    bool is_replay = lease.finalize_fp.ptr && str_equal(lease.finalize_fp, wanted.fingerprint);
    if (lease.finalize_fp.ptr && !is_replay)
        return error_set(err, ERR_LEASE_STALE, "the lease was finalized with another result");
    if (!is_replay && lease.state != LEASE_RUNNING)
        return error_set(err, ERR_LEASE_STALE, "a lease that is %s has no result",
                         lease_state_name(lease.state));
    if (!is_replay && (!STORE(tx, &lease_set_finalize, NULL, NULL, err, V_TEXT(lease.id),
                              V_STR(wanted.fingerprint)) ||
                       !store_commit(&tx, err)))
        return false;
    const struct wire_finalize_answer answer = {true, run.state == RUN_PENDING_CANCEL};
    return worker_answer(res, wire_finalize_answer_fields, &answer, err);
}

struct result {
    struct call *call;
    struct server *server;
    struct tx *tx;
    struct lease_row lease;
    struct run_row run;
    struct wire_complete wanted;
    struct wakes wakes;
};

/* Only what another try may change: never a payload, an output or a time limit. */
static bool may_retry(const struct result *result, int64_t *delay_ms)
{
    static const char *const kinds[] = {"task_failed", "out_of_memory", "disk_full"};
    struct retry_policy policy;
    struct error err;
    uint64_t random;

    if (!result->wanted.has_failure || result->run.state != RUN_EXECUTING ||
        !retry_policy_read(result->run.retry_policy, result->call->arena, &policy, &err) ||
        !retry_is_allowed(&policy, result->run.attempt))
        return false;
    random_bytes(&random, sizeof random);
    *delay_ms = retry_delay_ms(&policy, result->run.attempt, random);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_equal(result->wanted.failure.failure_kind, str_of(kinds[i])))
            return true;
    return false;
}

static bool retry_event(struct result *result, int64_t delay_ms, int64_t previous,
                        struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = KIB(70)};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_text(&json, "reason", result->wanted.failure.failure_kind);
    json_int(&json, "previous_attempt_number", previous);
    json_int(&json, "next_attempt_number", result->run.attempt);
    json_time(&json, "retry_after", time_now_ms() + delay_ms);
    json_int(&json, "delay_ms", delay_ms);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "run.retry_scheduled",
                                .severity = "warn",
                                .attributes = buf_str(&text)};
    return run_event_append(result->tx, result->run.id, &event, err);
}

static bool finish_attempt(struct result *result, struct error *err)
{
    const struct wire_complete *wanted = &result->wanted;
    bool is_cancelled = result->run.state == RUN_PENDING_CANCEL;
    AUTO(buf_finish) struct buf text = {.max = ERROR_MAX};
    struct json_writer json = json_begin(&text);

    if (wanted->has_failure)
        wire_write(&json, NULL, wire_failure_fields, &wanted->failure);
    if (!json_end(&json, err))
        return false;
    return STORE(result->tx, &attempt_finish, NULL, NULL, err, V_TEXT(result->run.id),
                 V_INT(result->lease.attempt),
                 is_cancelled ? V_TEXT("cancelled") : V_STR(wanted->outcome),
                 V_INT(wanted->exit_code), wanted->has_failure ? V_STR(buf_str(&text)) : V_NULL,
                 V_INT(time_now_ms()));
}

static enum run_event event_of(const struct result *result)
{
    struct str outcome = result->wanted.outcome;

    if (str_equal(outcome, STR("succeeded")))
        return RUN_SUCCEED;
    if (result->run.state == RUN_PENDING_CANCEL)
        return RUN_GONE;
    if (result->wanted.has_failure &&
        str_equal(result->wanted.failure.failure_kind, STR("max_duration_exceeded")))
        return RUN_MAX_DURATION;
    return RUN_FAIL;
}

static bool finish_run(struct result *result, struct error *err)
{
    const struct wire_complete *wanted = &result->wanted;
    struct arena *arena = result->call->arena;
    struct run_end end = {
        .has_exit_code = true,
        .exit_code = wanted->exit_code,
        .output = wanted->output,
        .source = "worker",
    };
    int64_t delay_ms, previous = result->run.attempt;

    if (may_retry(result, &delay_ms))
        return run_requeue(result->tx, &result->run, RUN_RETRY, time_now_ms() + delay_ms,
                           &result->wakes, err) &&
               retry_event(result, delay_ms, previous, err);
    if (wanted->has_failure) {
        end.layer = arena_text(arena, wanted->failure.layer);
        end.failure_kind = arena_text(arena, wanted->failure.failure_kind);
        end.message = wanted->failure.message;
        end.details = wanted->failure.details;
    }
    return lease_finish_run(result->tx, &result->lease, &result->run, event_of(result), &end,
                            &result->wakes, err);
}

/* An outcome is one of three, with a failure exactly where something failed. */
static bool result_is_sound(const struct result *result, struct error *err)
{
    struct str outcome = result->wanted.outcome;
    bool is_failed = str_equal(outcome, STR("failed"));
    bool is_cancelled = str_equal(outcome, STR("cancelled"));

    if (!is_failed && !is_cancelled && !str_equal(outcome, STR("succeeded")))
        return error_set(err, ERR_INVALID, "/outcome must be succeeded, failed or cancelled");
    if (result->wanted.has_failure != is_failed)
        return error_set(err, ERR_INVALID, "/failure belongs to a failed outcome, and only there");
    if (is_cancelled && result->run.state != RUN_PENDING_CANCEL)
        return error_set(err, ERR_CONFLICT, "nobody asked to cancel the run");
    if (!result->lease.finalize_fp.ptr ||
        !str_equal(result->lease.finalize_fp, result->wanted.fingerprint))
        return error_set(err, ERR_LEASE_STALE, "the lease was not finalized with this result");
    return true;
}

static enum lease_event lease_event_of(struct str outcome)
{
    if (str_equal(outcome, STR("succeeded")))
        return LEASE_SUCCEED;
    return str_equal(outcome, STR("cancelled")) ? LEASE_CANCEL : LEASE_FAIL;
}

static bool logs_are_whole(const struct result *result, struct error *err)
{
    static const char *const streams[] = {"stdout", "stderr"};
    const int64_t ends[] = {result->wanted.stdout_end, result->wanted.stderr_end};

    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        struct rows rows;
        if (!STORE(result->tx, &log_position, result->call->arena, &rows, err,
                   V_TEXT(result->run.id), V_INT(result->lease.sequence), V_TEXT(streams[i])))
            return false;
        if (row_int(&rows, 0, LOG_POSITION_END) != ends[i])
            return error_set(err, ERR_CONFLICT, "/%s: %lld bytes were printed, %lld are stored",
                             streams[i], (long long)ends[i],
                             (long long)row_int(&rows, 0, LOG_POSITION_END));
    }
    return true;
}

/* What a success leaves is the workspace from now on; what a failure leaves can be looked at. */
static bool publish_version(struct result *result, struct error *err)
{
    bool succeeds = event_of(result) == RUN_SUCCEED && result->run.state != RUN_PENDING_CANCEL;

    return !result->wanted.has_version ||
           version_publish(result->server, result->tx, &result->wanted.version, result->run.id,
                           succeeds ? VERSION_USER : VERSION_SYSTEM, &result->wakes, err);
}

/* What does not fit into its environment is no result: a success becomes a failure that says so,
 * and what a failure leaves is not kept. Decided before anything is written. */
static bool check_room(struct result *result, struct error *err)
{
    struct wire_complete *wanted = &result->wanted;
    struct error why;
    bool fits = true;

    if (wanted->has_version && !quota_has_room(result->tx, result->run.environment_id,
                                               &wanted->version.objects, &fits, &why, err))
        return false;
    if (fits)
        return true;
    wanted->has_version = false;
    if (!str_equal(wanted->outcome, STR("succeeded")))
        return true;
    wanted->outcome = STR("failed");
    wanted->exit_code = 1;
    wanted->output = (struct str){0};
    wanted->has_failure = true;
    wanted->failure = (struct wire_failure){
        .layer = STR("guest_runtime"),
        .failure_kind = STR("quota_exceeded"),
        .message = arena_str(result->call->arena, str_of(why.text)),
    };
    return true;
}

/* A program may end while it waits, by an exit or because it does not need the answer. */
static bool leave_wait(struct result *result, struct error *err)
{
    return wait_drop(result->tx, result->run.id, WAIT_RUN_OVER, STR("the program ended"),
                     &result->wakes, err) &&
           (result->run.state != RUN_WAITING ||
            run_move(result->tx, &result->run, RUN_SETTLE_HOT, &result->wakes, err));
}

static bool complete(struct result *result, struct error *err)
{
    if (!result_is_sound(result, err) || !check_room(result, err))
        return false;
    const char *outcome = arena_text(result->call->arena, result->wanted.outcome);

    return logs_are_whole(result, err) && leave_wait(result, err) &&
           lease_apply(result->tx, &result->lease, lease_event_of(result->wanted.outcome), 0,
                       err) &&
           finish_attempt(result, err) &&
           lease_released_event(result->tx, &result->lease, outcome, err) &&
           publish_version(result, err) && finish_run(result, err) &&
           STORE(result->tx, &lease_set_complete, NULL, NULL, err, V_TEXT(result->lease.id),
                 V_STR(result->wanted.fingerprint), V_TEXT(run_status_name(result->run.status))) &&
           hub_commit(&result->server->hub, &result->tx, &result->wakes, err);
}

bool lease_complete_post(struct call *call, struct response *res, struct error *err)
{
    struct result result = {.call = call, .server = server_of(call)};
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_complete_fields, &result.wanted, sizeof result.wanted, err) ||
        !store_begin(result.server->store, &tx, err) ||
        !lease_open(tx, call, &result.wanted.fence, true, &result.lease, err) ||
        !lease_is_for(&result.lease, SUBJECT_RUN, err))
        return false;
    if (result.lease.complete_fp.ptr &&
        str_equal(result.lease.complete_fp, result.wanted.fingerprint)) {
        const struct wire_completed again = {result.lease.complete_answer};
        return worker_answer(res, wire_completed_fields, &again, err);
    }
    if (lease_state_is_final(result.lease.state))
        return error_set(err, ERR_LEASE_STALE, "the lease is over");
    if (!lease_load_run(tx, &result.lease, call->arena, &result.run, err))
        return false;
    result.tx = tx;
    bool done = complete(&result, err);
    tx = result.tx; /* NULL once committed */
    const struct wire_completed answer = {str_of(run_status_name(result.run.status))};
    return done && worker_answer(res, wire_completed_fields, &answer, err);
}

static bool end_build(struct call *call, struct tx *tx, const struct lease_row *lease,
                      const struct wire_build_complete *built, struct wakes *wakes,
                      struct error *err)
{
    struct server *server = server_of(call);

    if (built->has_failure) {
        const struct deployment_fault fault = {
            .layer = arena_text(call->arena, built->failure.layer),
            .failure_kind = arena_text(call->arena, built->failure.failure_kind),
            .message = built->failure.message,
            .details = built->failure.details,
            .source = "worker",
        };
        return deployment_end_failed(tx, lease->subject_id, DEPLOYMENT_FAIL, &fault, wakes, err);
    }
    if (!built->bundle.digest.ptr || !blob_id_is_valid(built->bundle.digest))
        return error_set(err, ERR_OBJECT_GONE, "the bundle is not in the store");
    return object_keep(server, tx, built->bundle.digest, call->arena, err) &&
           images_publish(server, tx, lease->subject_id, built, err) &&
           deployment_end_deployed(tx, lease->subject_id, built, wakes, err);
}

bool build_complete_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_build_complete built;
    struct lease_row lease = {0};
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_build_complete_fields, &built, sizeof built, err) ||
        !store_begin(server->store, &tx, err) ||
        !lease_open(tx, call, &built.fence, true, &lease, err) ||
        !lease_is_for(&lease, SUBJECT_BUILD, err))
        return false;
    if (lease.complete_fp.ptr && str_equal(lease.complete_fp, built.fingerprint))
        return worker_answer_nothing(res, err);
    if (lease_state_is_final(lease.state))
        return error_set(err, ERR_LEASE_STALE, "the lease is over");
    if (!str_equal(built.outcome, built.has_failure ? STR("failed") : STR("succeeded")))
        return error_set(err, ERR_INVALID, "/failure belongs to a failed outcome, and only there");
    return lease_apply(tx, &lease, built.has_failure ? LEASE_FAIL : LEASE_SUCCEED, 0, err) &&
           end_build(call, tx, &lease, &built, &wakes, err) &&
           STORE(tx, &lease_set_complete, NULL, NULL, err, V_TEXT(lease.id),
                 V_STR(built.fingerprint), V_TEXT("")) &&
           hub_commit(&server->hub, &tx, &wakes, err) && worker_answer_nothing(res, err);
}
