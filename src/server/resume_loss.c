/* What becomes of a run whose lease ended without a result, by where its wait was. */
#include "base/time.h"
#include "server/event.h"
#include "server/resume.h"
#include "store/queries.h"

/* A lost lease, on its way to what comes next. */
struct loss {
    struct tx *tx;
    const struct lease_row *lease;
    const struct run_row *run;
    const struct lease_fault *fault;
    struct arena *arena;
    struct wakes *wakes;
    struct resume_verdict verdict;
};

static bool requeued_event(struct loss *loss, const struct wait_row *wait, int64_t number,
                           struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "wait_id", wait->id);
    json_string(&json, "checkpoint_id", wait->checkpoint_id);
    json_int(&json, "resume_number", number);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "run.wait_resume_timeout_requeued",
                                .severity = "warn",
                                .source = loss->fault->source,
                                .attempt = wait->attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(loss->tx, wait->run_id, &event, err);
}

static void go_on_from(struct loss *loss, const char *checkpoint_id)
{
    loss->verdict.next = NEXT_RESUME;
    loss->verdict.checkpoint_id = arena_text(loss->arena, str_of(checkpoint_id));
}

/* The newest ready checkpoint of the attempt; its answer is delivered again. */
static bool go_back(struct loss *loss, enum resume_next otherwise, struct error *err)
{
    struct checkpoint_row checkpoint;
    struct wait_row wait;
    bool found;

    loss->verdict.next = otherwise;
    if (!checkpoint_find_newest(loss->tx, loss->run->id, loss->lease->attempt, loss->arena,
                                &checkpoint, &found, err))
        return false;
    if (!found)
        return true;
    if (!wait_load(loss->tx, checkpoint.wait_id, loss->arena, &wait, err))
        return false;
    if (wait.suspension != SUSPENSION_RELEASED)
        return true;
    go_on_from(loss, checkpoint.id);
    return wait_suspend(loss->tx, &wait, WAIT_REDELIVER, time_now_ms(), err);
}

/* The worker could not read it: nobody is given this one again. */
static bool condemn(struct loss *loss, struct wait_row *wait, struct error *err)
{
    struct checkpoint_row checkpoint;

    return checkpoint_load(loss->tx, wait->checkpoint_id, loss->arena, &checkpoint, err) &&
           checkpoint_move_by(loss->tx, &checkpoint, CHECKPOINT_DAMAGE, time_now_ms(), err) &&
           wait_suspend(loss->tx, wait, WAIT_RESUME_FAIL, time_now_ms(), err) &&
           go_back(loss, NEXT_FAILED, err);
}

static bool lose_resumption(struct loss *loss, struct wait_row *wait, struct error *err)
{
    int64_t now = time_now_ms();
    struct rows rows;

    if (loss->fault->is_damaged)
        return condemn(loss, wait, err);
    if (wait->resume_number >= RESUMES_MAX) {
        loss->verdict.next = NEXT_FAILED;
        return wait_suspend(loss->tx, wait, WAIT_RESUME_FAIL, now, err);
    }
    go_on_from(loss, wait->checkpoint_id);
    loss->verdict.was_resuming = true;
    return wait_suspend(loss->tx, wait, WAIT_RESUME_LOST, now, err) &&
           STORE(loss->tx, &wait_count_resume, loss->arena, &rows, err, V_TEXT(wait->id)) &&
           requeued_event(loss, wait, row_int(&rows, 0, WAIT_COUNT_RESUME_RESUME_NUMBER), err);
}

/* A staged checkpoint is whole; one in the making is nothing, and the sandbox is gone. */
static bool lose_checkpointing(struct loss *loss, struct wait_row *wait, bool *is_parked,
                               struct error *err)
{
    struct checkpoint_row checkpoint;

    *is_parked = false;
    if (!checkpoint_load(loss->tx, wait->checkpoint_id, loss->arena, &checkpoint, err))
        return false;
    if (checkpoint.state != CHECKPOINT_STAGED)
        return checkpoint.state != CHECKPOINT_CREATING ||
               checkpoint_move_by(loss->tx, &checkpoint, CHECKPOINT_LEASE_OVER, time_now_ms(), err);
    *is_parked = true;
    loss->verdict.next = NEXT_PARKED;
    return resume_park(loss->tx, wait, &checkpoint, CHECKPOINT_LEASE_OVER, loss->fault->source,
                       loss->wakes, err);
}

static bool judge(struct loss *loss, struct error *err)
{
    struct wait_row wait;
    bool found, is_parked = false;

    if (!wait_load_open(loss->tx, loss->run->id, loss->arena, &wait, &found, err))
        return false;
    if (found && wait.suspension == SUSPENSION_RESUMING)
        return lose_resumption(loss, &wait, err);
    if (found && wait.suspension == SUSPENSION_CHECKPOINTING &&
        !lose_checkpointing(loss, &wait, &is_parked, err))
        return false;
    if (is_parked)
        return true;
    if (found && !wait_drop(loss->tx, loss->run->id, WAIT_LEASE_LOST,
                            STR("the sandbox that waited is gone"), loss->wakes, err))
        return false;
    return go_back(loss, NEXT_RESTART, err);
}

bool resume_after_loss(struct tx *tx, const struct lease_row *lease, const struct run_row *run,
                       const struct lease_fault *fault, struct arena *arena, struct wakes *wakes,
                       struct resume_verdict *verdict, struct error *err)
{
    struct loss loss = {
        .tx = tx,
        .lease = lease,
        .run = run,
        .fault = fault,
        .arena = arena,
        .wakes = wakes,
    };

    if (!judge(&loss, err))
        return false;
    *verdict = loss.verdict;
    return true;
}
