#include "server/run_stop.h"

#include "base/json.h"
#include "server/event.h"
#include "server/outbox.h"
#include "server/wait_store.h"
#include "store/queries.h"

enum { EVENT_MAX = 128 * 1024 };

static bool requested_event(const struct run_stop *stop, struct error *err)
{
    AUTO(buf_finish) struct buf attributes = {.max = EVENT_MAX};
    struct json_writer json = json_begin(&attributes);
    json_open(&json, NULL);
    if (stop->reason.ptr)
        json_text(&json, "reason", stop->reason);
    json_bool(&json, "force", stop->force);
    json_string(&json, "requested_by", stop->by);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    struct event event = {.kind = "run.cancel_requested",
                          .source = stop->source,
                          .attempt = stop->run.started_ms ? stop->run.attempt : 0,
                          .attributes = buf_str(&attributes)};
    return run_event_append(stop->tx, stop->run.id, &event, err);
}

static bool record(struct run_stop *stop, struct error *err)
{
    int64_t grace = stop->force ? 0 : stop->server->config->cancel_grace_ms;
    if (!STORE(stop->tx, &run_cancel_record, NULL, NULL, err, V_TEXT(stop->run.id),
               V_INT(stop->now), V_INT(stop->now + grace), V_STR_OR_NULL(stop->reason),
               V_INT(stop->force), V_TEXT(stop->by)))
        return false;
    if (!stop->run.is_cancelled)
        stop->run.cancel_reason = stop->reason;
    stop->run.cancel_force |= stop->force;
    stop->run.is_cancelled = true;
    return true;
}

static bool insert_operation(const struct run_stop *stop, const char *status, struct error *err)
{
    bool is_applied = strcmp(status, "applied") == 0;
    return STORE(stop->tx, &operation_insert, NULL, NULL, err, V_TEXT(stop->operation_id),
                 V_TEXT(stop->run.environment_id), V_TEXT(stop->run.id), V_TEXT("cancel"),
                 V_TEXT(status), V_STR_OR_NULL(stop->reason), V_INT(stop->force), V_TEXT(stop->by),
                 V_INT(stop->now), is_applied ? V_INT(stop->now) : V_NULL);
}

static bool end_at_once(struct run_stop *stop, enum run_event on, struct wakes *wakes,
                        struct error *err)
{
    const struct run_end end = {0};
    return run_finish(stop->tx, &stop->run, on, &end, wakes, err) &&
           STORE(stop->tx, &attempt_close, NULL, NULL, err, V_TEXT(stop->run.id),
                 V_INT(stop->run.attempt), V_TEXT("cancelled"), V_INT(stop->now)) &&
           insert_operation(stop, "applied", err);
}

static bool is_parked(struct run_stop *stop, bool *parked, struct error *err)
{
    struct wait_row wait;
    bool found;
    if (!wait_load_open(stop->tx, stop->run.id, stop->arena, &wait, &found, err))
        return false;
    *parked = found && stop->run.state == RUN_WAITING && wait.suspension == SUSPENSION_PARKED;
    return true;
}

bool run_stop(struct run_stop *stop, struct wakes *wakes, struct error *err)
{
    enum run_state state = stop->run.state;
    bool parked;
    if (run_state_is_final(state))
        return insert_operation(stop, "ignored", err);
    if (!requested_event(stop, err) || !record(stop, err) || !is_parked(stop, &parked, err))
        return false;
    if (state == RUN_QUEUED || state == RUN_CREATED || parked)
        return end_at_once(stop, parked ? RUN_CANCEL_PARKED : RUN_CANCEL, wakes, err);
    /* A second request may only make the first one harder. */
    if (state != RUN_PENDING_CANCEL && !run_move(stop->tx, &stop->run, RUN_CANCEL, wakes, err))
        return false;
    wakes_add(wakes, "run:", stop->run.id);
    return outbox_cancel(stop->tx, "run", stop->run.id, stop->reason, stop->force, wakes, err) &&
           insert_operation(stop, "pending", err);
}
