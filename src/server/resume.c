#include "server/resume.h"

#include "base/time.h"
#include "server/event.h"
#include "server/outbox.h"
#include "store/queries.h"

static bool append(struct tx *tx, const struct wait_row *wait, const char *kind, const char *source,
                   struct buf *text, struct json_writer *json, struct error *err)
{
    json_close(json);
    if (!json_end(json, err))
        return false;
    const struct event event = {.kind = kind,
                                .source = source,
                                .attempt = wait->attempt,
                                .attributes = buf_str(text)};
    return run_event_append(tx, wait->run_id, &event, err);
}

static bool queued_event(struct tx *tx, const struct wait_row *wait, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "wait_id", wait->id);
    json_string(&json, "checkpoint_id", wait->checkpoint_id);
    return append(tx, wait, "run.wait_resume_queued", NULL, &text, &json, err);
}

bool resume_queue(struct tx *tx, struct wait_row *wait, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    int64_t now = time_now_ms();
    enum wait_event on = wait->suspension == SUSPENSION_PARKED ? WAIT_SETTLE : WAIT_PARK_SETTLED;
    struct run_row run;

    return run_row_load(tx, wait->run_id, &arena, &run, err) &&
           wait_suspend(tx, wait, on, now, err) &&
           run_requeue_from(tx, &run, RUN_SETTLE_PARKED, now, wait->checkpoint_id, wakes, err) &&
           queued_event(tx, wait, err);
}

static bool ready_event(struct tx *tx, const struct wait_row *wait,
                        const struct checkpoint_row *checkpoint, const char *source,
                        struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "checkpoint_id", checkpoint->id);
    json_string(&json, "wait_id", wait->id);
    json_int(&json, "logical_bytes", checkpoint->logical_bytes);
    json_int(&json, "stored_bytes", checkpoint->stored_bytes);
    json_int(&json, "ms", time_now_ms() - checkpoint->created_ms);
    return append(tx, wait, "checkpoint.ready", source, &text, &json, err);
}

bool resume_park(struct tx *tx, struct wait_row *wait, struct checkpoint_row *checkpoint,
                 enum checkpoint_event on, const char *source, struct wakes *wakes,
                 struct error *err)
{
    int64_t now = time_now_ms();

    if (!checkpoint_move_by(tx, checkpoint, on, now, err) ||
        !ready_event(tx, wait, checkpoint, source, err) ||
        !STORE(tx, &run_count_anew, NULL, NULL, err, V_TEXT(wait->run_id)))
        return false;
    wakes_add(wakes, "run:", wait->run_id);
    if (wait->condition == WAIT_PENDING)
        return wait_suspend(tx, wait, WAIT_PARK, now, err);
    return resume_queue(tx, wait, wakes, err);
}

bool resume_take(struct tx *tx, const char *run_id, const char *lease_id, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct wait_row wait;
    struct rows rows;
    bool found;

    if (!wait_load_open(tx, run_id, &arena, &wait, &found, err))
        return false;
    if (!found)
        return error_set(err, ERR_INTERNAL, "run %s is queued to resume and waits for nothing",
                         run_id);
    return wait_suspend(tx, &wait, WAIT_TAKE, time_now_ms(), err) &&
           STORE(tx, &wait_take, &arena, &rows, err, V_TEXT(wait.id), V_TEXT(lease_id));
}

bool resume_ask_to_park(struct tx *tx, const struct wait_row *wait, struct arena *arena,
                        struct wakes *wakes, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = 256};
    struct json_writer json = json_begin(&body);
    struct rows lease, nudged;

    json_open(&json, NULL);
    json_string(&json, "wait_id", wait->id);
    json_close(&json);
    if (!json_end(&json, err) ||
        !STORE(tx, &lease_live_find, arena, &lease, err, V_TEXT("run"), V_TEXT(wait->run_id)) ||
        !STORE(tx, &wait_nudge, arena, &nudged, err, V_TEXT(wait->id), V_INT(time_now_ms())))
        return false;
    if (lease.n_rows == 0 || nudged.n_changed == 0)
        return true;
    return outbox_send(tx, row_text(&lease, 0, LEASE_LIVE_FIND_WORKER_ID),
                       row_text(&lease, 0, LEASE_LIVE_FIND_ID), "park_now", buf_str(&body), wakes,
                       err);
}
