#include "server/run_store.h"

#include "base/json.h"
#include "base/time.h"
#include "server/continuation.h"
#include "server/event.h"
#include "server/queue.h"
#include "server/wait_store.h"
#include "store/queries.h"

enum { ERROR_MAX = 256 * 1024 };

bool run_row_load(struct tx *tx, const char *run_id, struct arena *arena, struct run_row *run,
                  struct error *err)
{
    struct rows rows;
    if (!STORE(tx, &run_load, arena, &rows, err, V_TEXT(run_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no run %s", run_id);

    *run = (struct run_row){
        .attempt = row_int(&rows, 0, RUN_LOAD_ATTEMPT),
        .dispatches = row_int(&rows, 0, RUN_LOAD_DISPATCHES),
        .lease_sequence = row_int(&rows, 0, RUN_LOAD_LEASE_SEQUENCE),
        .started_ms = row_int(&rows, 0, RUN_LOAD_STARTED_MS),
        .active_ms = row_int(&rows, 0, RUN_LOAD_ACTIVE_MS),
        .active_since_ms = row_int(&rows, 0, RUN_LOAD_ACTIVE_SINCE_MS),
        .active_base_ms = row_int(&rows, 0, RUN_LOAD_ACTIVE_BASE_MS),
        .max_duration_seconds = row_int(&rows, 0, RUN_LOAD_MAX_DURATION_SECONDS),
        .is_cancelled = !row_is_null(&rows, 0, RUN_LOAD_CANCEL_REQUESTED_MS),
        .cancel_force = row_int(&rows, 0, RUN_LOAD_CANCEL_FORCE) != 0,
        .retry_policy = row_str(&rows, 0, RUN_LOAD_RETRY_POLICY),
        .cancel_reason = row_str(&rows, 0, RUN_LOAD_CANCEL_REASON),
    };
    row_id(&rows, 0, RUN_LOAD_ID, run->id);
    row_id(&rows, 0, RUN_LOAD_ENVIRONMENT_ID, run->environment_id);
    row_id(&rows, 0, RUN_LOAD_GROUP_ID, run->group_id);
    row_id(&rows, 0, RUN_LOAD_SESSION_ID, run->session_id);
    if (!run_state_parse(row_str(&rows, 0, RUN_LOAD_STATE), &run->state) ||
        !run_status_parse(row_str(&rows, 0, RUN_LOAD_STATUS), &run->status))
        return error_set(err, ERR_INTERNAL, "run %s is in no known state", run_id);
    return true;
}

/* What the table makes of the event; nothing is written yet. */
static bool apply(const struct run_row *run, enum run_event on, struct run_row *after,
                  enum run_outcome *outcome, struct error *err)
{
    *after = *run;
    *outcome = RUN_OUTCOME_NONE;
    if (!run_state_apply(&after->state, on, outcome))
        return error_set(err, ERR_CONFLICT, "a run that is %s cannot %s",
                         run_state_name(run->state), run_event_name(on));
    if (after->state != RUN_PENDING_CANCEL)
        after->status = run_status_of(after->state, *outcome, run->state);
    return true;
}

/* Time counts while the program runs, also while it is asked to end. */
static void count_active(struct run_row *run, int64_t now)
{
    bool runs = run->state == RUN_EXECUTING ||
                (run->state == RUN_PENDING_CANCEL && run->status == RUN_STATUS_RUNNING);
    if (run->active_since_ms && !runs) {
        run->active_ms += now > run->active_since_ms ? now - run->active_since_ms : 0;
        run->active_since_ms = 0;
    }
    if (!run->active_since_ms && run->state == RUN_EXECUTING)
        run->active_since_ms = now;
}

static bool write_state(struct tx *tx, const struct run_row *before, const struct run_row *after,
                        int64_t now, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    if (!STORE(tx, &run_update_state, &arena, &rows, err, V_TEXT(before->id),
               V_TEXT(run_state_name(before->state)), V_TEXT(run_state_name(after->state)),
               V_TEXT(run_status_name(after->status)), V_INT(now), V_INT(after->active_ms),
               after->active_since_ms ? V_INT(after->active_since_ms) : V_NULL,
               V_INT(after->attempt), V_INT(after->dispatches)))
        return false;
    return rows.n_changed == 1 || store_lost_race(err, "the run moved meanwhile");
}

static void note(const struct run_row *run, struct wakes *wakes)
{
    wakes_add(wakes, "run:", run->id);
    wakes_add(wakes, "env:", run->environment_id);
}

bool run_move(struct tx *tx, struct run_row *run, enum run_event on, struct wakes *wakes,
              struct error *err)
{
    struct run_row after;
    enum run_outcome outcome;
    int64_t now = time_now_ms();
    if (!apply(run, on, &after, &outcome, err))
        return false;
    if (after.state == RUN_QUEUED || after.state == RUN_FINISHED)
        return error_set(err, ERR_INTERNAL, "run_move cannot queue or finish");

    count_active(&after, now);
    if (after.state == RUN_EXECUTING && !after.started_ms)
        after.started_ms = now;
    if (!write_state(tx, run, &after, now, err))
        return false;
    *run = after;
    note(run, wakes);
    return true;
}

int64_t run_active_left_ms(const struct run_row *run, int64_t now)
{
    int64_t used = run->active_ms - run->active_base_ms;
    if (run->active_since_ms && now > run->active_since_ms)
        used += now - run->active_since_ms;
    int64_t left = run->max_duration_seconds * 1000 - used;
    return left > 0 ? left : 0;
}

static bool requeue(struct tx *tx, struct run_row *run, enum run_event on, int64_t not_before_ms,
                    const char *checkpoint_id, struct wakes *wakes, struct error *err)
{
    struct run_row after;
    enum run_outcome outcome;
    int64_t now = time_now_ms();
    if (!apply(run, on, &after, &outcome, err))
        return false;
    if (after.state != RUN_QUEUED)
        return error_set(err, ERR_CONFLICT, "the run does not go back into the queue");

    count_active(&after, now);
    if (on == RUN_RETRY) {
        after.attempt++;
        after.dispatches = 0;
    }
    if (!write_state(tx, run, &after, now, err) ||
        !queue_put_run(tx, run->id, not_before_ms, checkpoint_id, err))
        return false;
    *run = after;
    note(run, wakes);
    wakes_add(wakes, "g", run->group_id);
    return true;
}

bool run_requeue(struct tx *tx, struct run_row *run, enum run_event on, int64_t not_before_ms,
                 struct wakes *wakes, struct error *err)
{
    return requeue(tx, run, on, not_before_ms, NULL, wakes, err);
}

bool run_requeue_from(struct tx *tx, struct run_row *run, enum run_event on, int64_t not_before_ms,
                      const char *checkpoint_id, struct wakes *wakes, struct error *err)
{
    return requeue(tx, run, on, not_before_ms, checkpoint_id, wakes, err);
}

static const char *final_kind(enum run_outcome outcome)
{
    switch (outcome) {
    case RUN_OUTCOME_SUCCEEDED: return "run.completed";
    case RUN_OUTCOME_CANCELLED: return "run.cancelled";
    case RUN_OUTCOME_EXPIRED: return "run.expired";
    case RUN_OUTCOME_DEAD_LETTERED: return "run.dead_lettered";
    case RUN_OUTCOME_FAILED:
    case RUN_OUTCOME_NONE:
    case RUN_OUTCOME_COUNT: break;
    }
    return "run.failed";
}

static void write_failure(struct json_writer *json, const struct run_end *end,
                          const char *message_name)
{
    json_string(json, "layer", end->layer);
    json_string(json, "failure_kind", end->failure_kind);
    json_text(json, message_name, end->message.ptr ? end->message : STR(""));
}

static bool final_event(struct tx *tx, const struct run_row *run, enum run_outcome outcome,
                        const struct run_end *end, struct error *err)
{
    AUTO(buf_finish) struct buf attributes = {.max = ERROR_MAX};
    struct json_writer json = json_begin(&attributes);
    json_open(&json, NULL);
    if (outcome == RUN_OUTCOME_DEAD_LETTERED) {
        json_text(&json, "message", end->message.ptr ? end->message : STR(""));
        json_int(&json, "dispatch_number", run->dispatches);
    } else if (outcome == RUN_OUTCOME_FAILED) {
        write_failure(&json, end, "detail");
    } else if (outcome == RUN_OUTCOME_EXPIRED && end->message.ptr) {
        json_text(&json, "message", end->message);
    } else if (outcome == RUN_OUTCOME_CANCELLED) {
        if (run->cancel_reason.ptr)
            json_text(&json, "reason", run->cancel_reason);
        json_bool(&json, "force", run->cancel_force);
    }
    if (end->has_exit_code && outcome != RUN_OUTCOME_CANCELLED)
        json_int(&json, "exit_code", end->exit_code);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    bool is_bad = outcome == RUN_OUTCOME_FAILED || outcome == RUN_OUTCOME_DEAD_LETTERED;
    struct event event = {.kind = final_kind(outcome),
                          .severity = is_bad ? "error" : "info",
                          .source = end->source,
                          .attempt = run->started_ms ? run->attempt : 0,
                          .attributes = buf_str(&attributes)};
    return run_event_append(tx, run->id, &event, err);
}

static bool write_error(const struct run_end *end, struct buf *out, struct error *err)
{
    struct json_writer json = json_begin(out);
    json_open(&json, NULL);
    write_failure(&json, end, "message");
    if (end->details.ptr)
        json_raw(&json, "details", end->details);
    json_close(&json);
    return json_end(&json, err);
}

static bool write_end(struct tx *tx, const struct run_row *before, const struct run_row *after,
                      enum run_outcome outcome, const struct run_end *end, int64_t now,
                      struct error *err)
{
    AUTO(buf_finish) struct buf failure = {.max = ERROR_MAX};
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    bool is_cancelled = outcome == RUN_OUTCOME_CANCELLED;
    bool has_error = end->layer && !is_cancelled;
    if (has_error && !write_error(end, &failure, err))
        return false;
    if (!STORE(tx, &run_update_finished, &arena, &rows, err, V_TEXT(before->id),
               V_TEXT(run_state_name(before->state)), V_TEXT(run_status_name(after->status)),
               V_TEXT(run_outcome_name(outcome)),
               end->has_exit_code ? V_INT(end->exit_code) : V_NULL,
               has_error ? V_STR(buf_str(&failure)) : V_NULL, V_INT(after->active_ms), V_INT(now)))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the run moved meanwhile");
    return !end->output.ptr || is_cancelled ||
           STORE(tx, &run_output_set, NULL, NULL, err, V_TEXT(before->id), V_STR(end->output));
}

bool run_finish(struct tx *tx, struct run_row *run, enum run_event on, const struct run_end *end,
                struct wakes *wakes, struct error *err)
{
    struct run_row after;
    enum run_outcome outcome;
    int64_t now = time_now_ms();
    if (!apply(run, on, &after, &outcome, err))
        return false;
    if (after.state != RUN_FINISHED)
        return error_set(err, ERR_CONFLICT, "the run does not end by that");

    count_active(&after, now);
    if (!write_end(tx, run, &after, outcome, end, now, err) || !queue_remove(tx, run->id, err) ||
        (run->is_cancelled &&
         !STORE(tx, &operations_apply, NULL, NULL, err, V_TEXT(run->id), V_INT(now))) ||
        !wait_drop(tx, run->id, WAIT_RUN_OVER, STR("the run is over"), wakes, err) ||
        (outcome != RUN_OUTCOME_CANCELLED && !continuation_ask(tx, run, wakes, err)) ||
        !final_event(tx, &after, outcome, end, err))
        return false;
    *run = after;
    note(run, wakes);
    return true;
}

bool run_expire(struct tx *tx, const char *run_id, const char *source, struct arena *arena,
                struct wakes *wakes, struct error *err)
{
    const struct run_end end = {.message = STR("no worker started it within its ttl"),
                                .source = source};
    struct run_row run = {0};

    if (!STORE(tx, &run_lock, NULL, NULL, err, V_TEXT(run_id)) ||
        !run_row_load(tx, run_id, arena, &run, err))
        return false;
    if (run.started_ms)
        return error_set(err, ERR_CONFLICT, "the run was started in time");
    return run_finish(tx, &run, RUN_TTL, &end, wakes, err);
}
