/* How a wait comes to its end: by what it waited for, or because nobody waits any more. */
#include "base/json.h"
#include "base/time.h"
#include "server/event.h"
#include "server/outbox.h"
#include "server/resume.h"
#include "server/token_store.h"
#include "server/wait_store.h"
#include "store/queries.h"

enum { EVENT_MAX = WAIT_DECISION_MAX + 4096 };

static enum wait_condition condition_after(enum condition_event on)
{
    enum wait_condition condition = WAIT_PENDING;

    wait_condition_apply(&condition, on);
    return condition;
}

bool wait_decision(enum condition_event on, struct str data, struct str reason, struct buf *out,
                   struct error *err)
{
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "condition", wait_condition_name(condition_after(on)));
    if (on == CONDITION_COMPLETE)
        json_raw(&json, "data", data.ptr ? data : STR("null"));
    if (reason.ptr)
        json_text(&json, on == CONDITION_FAIL ? "message" : "reason", reason);
    json_close(&json);
    return json_end(&json, err);
}

static const char *event_kind(enum wait_condition condition)
{
    switch (condition) {
    case WAIT_COMPLETED: return "run_wait.completed";
    case WAIT_EXPIRED: return "run_wait.timed_out";
    case WAIT_CANCELLED: return "run_wait.cancelled";
    case WAIT_FAILED:
    case WAIT_PENDING:
    case WAIT_CONDITION_COUNT: break;
    }
    return "run_wait.failed";
}

static void write_outcome(struct json_writer *json, const struct wait_row *wait,
                          struct arena *arena)
{
    struct str value = {0};

    if (wait->condition == WAIT_COMPLETED && json_find_raw(wait->decision, "data", arena, &value))
        json_raw(json, "payload", value);
    if (json_find_text(wait->decision, "reason", arena, &value) ||
        json_find_text(wait->decision, "message", arena, &value))
        json_text(json, "reason", value);
}

static bool settled_event(struct tx *tx, const struct wait_row *wait, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf text = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&text);
    bool is_by_time = wait->condition == WAIT_EXPIRED ||
                      (wait->kind == WAIT_TIMER && wait->condition == WAIT_COMPLETED);

    json_open(&json, NULL);
    json_string(&json, "wait_id", wait->id);
    json_string(&json, "kind", wait_kind_name(wait->kind));
    write_outcome(&json, wait, &arena);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = event_kind(wait->condition),
                                .source = is_by_time ? "sweeper" : "control",
                                .is_sensitive = wait->condition == WAIT_COMPLETED,
                                .attempt = wait->attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(tx, wait->run_id, &event, err);
}

bool wait_decide_only(struct tx *tx, struct wait_row *wait, enum condition_event on,
                      struct str decision, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    enum wait_condition after = wait->condition;
    int64_t now = time_now_ms();
    struct rows rows;

    if (!wait_condition_apply(&after, on))
        return error_set(err, ERR_CONFLICT, "a wait that is %s cannot %s",
                         wait_condition_name(wait->condition), condition_event_name(on));
    if (!STORE(tx, &wait_decide, &arena, &rows, err, V_TEXT(wait->id),
               V_TEXT(wait_condition_name(after)), V_STR(decision), V_INT(now)))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the wait settled meanwhile");
    wait->condition = after;
    wait->decision = decision;
    wait->settled_ms = now;
    return settled_event(tx, wait, err);
}

/* The worker hands the answer to the program, which goes on from there. */
static bool tell_worker(struct tx *tx, const struct wait_row *wait, struct wakes *wakes,
                        struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf body = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&body);
    struct rows lease;

    json_open(&json, NULL);
    json_string(&json, "wait_id", wait->id);
    json_raw(&json, "decision", wait->decision);
    json_close(&json);
    if (!json_end(&json, err) ||
        !STORE(tx, &lease_live_find, &arena, &lease, err, V_TEXT("run"), V_TEXT(wait->run_id)))
        return false;
    /* Without a lease its loss is being dealt with, and that looks at the condition. */
    return lease.n_rows == 0 || outbox_send(tx, row_text(&lease, 0, LEASE_LIVE_FIND_WORKER_ID),
                                            row_text(&lease, 0, LEASE_LIVE_FIND_ID), "wait_settled",
                                            buf_str(&body), wakes, err);
}

bool wait_deliver_hot(struct tx *tx, const struct wait_row *wait, struct wakes *wakes,
                      struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct run_row run;

    if (!run_row_load(tx, wait->run_id, &arena, &run, err))
        return false;
    /* One that is being cancelled stays so; its program hears of both. */
    if (run.state == RUN_WAITING && !run_move(tx, &run, RUN_SETTLE_HOT, wakes, err))
        return false;
    return tell_worker(tx, wait, wakes, err);
}

bool wait_settle(struct tx *tx, struct wait_row *wait, enum condition_event on, struct str decision,
                 struct wakes *wakes, struct error *err)
{
    if (!wait_decide_only(tx, wait, on, decision, err))
        return false;
    wakes_add(wakes, "run:", wait->run_id);
    switch (wait->suspension) {
    case SUSPENSION_HOT: return wait_deliver_hot(tx, wait, wakes, err);
    case SUSPENSION_PARKED: return resume_queue(tx, wait, wakes, err);
    case SUSPENSION_CHECKPOINTING:
    case SUSPENSION_RESUME_PENDING:
    case SUSPENSION_RESUMING:
    case SUSPENSION_RELEASED:
    case SUSPENSION_FAILED:
    case SUSPENSION_CANCELLED:
    case SUSPENSION_COUNT: break;
    }
    return true;
}

static bool cancel_condition(struct tx *tx, struct wait_row *wait, struct str reason,
                             struct arena *arena, struct error *err)
{
    AUTO(buf_finish) struct buf decision = {.max = WAIT_DECISION_MAX};

    if (!wait_decision(CONDITION_CANCEL, (struct str){0}, reason, &decision, err) ||
        !wait_decide_only(tx, wait, CONDITION_CANCEL, arena_str(arena, buf_str(&decision)), err))
        return false;
    return !wait->owns_token || token_drop(tx, wait->token_id, reason, err);
}

bool wait_drop(struct tx *tx, const char *run_id, enum wait_event on, struct str reason,
               struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct wait_row wait;
    bool found;

    if (!wait_load_open(tx, run_id, &arena, &wait, &found, err))
        return false;
    if (!found)
        return true;
    wakes_add(wakes, "run:", run_id);
    return (wait.condition != WAIT_PENDING || cancel_condition(tx, &wait, reason, &arena, err)) &&
           wait_suspend(tx, &wait, on, time_now_ms(), err);
}
