#include "cli/run_object.h"

#include "base/json.h"
#include "base/time.h"
#include "cli/follow.h"
#include "model/duration.h"
#include "model/run_state.h"

bool run_is_over(struct str status)
{
    enum run_status parsed;

    return run_status_parse(status, &parsed) && parsed >= RUN_STATUS_SUCCEEDED;
}

bool run_deadline(const struct invocation *invocation, int64_t *deadline_ms, struct error *err)
{
    const char *text = invocation_value(invocation, "timeout");
    int64_t ms;

    *deadline_ms = 0;
    if (!text)
        return true;
    if (!duration_parse(str_of(text), &ms, err))
        return error_wrap(err, "--timeout");
    if (ms <= 0)
        return error_set(err, ERR_INVALID, "--timeout must be longer than nothing");
    *deadline_ms = time_boot_ms() + ms;
    return true;
}

struct str run_error_text(struct str run, struct arena *arena)
{
    struct str layer = output_value(run, "error.layer", arena);
    struct str message = output_value(run, "error.message", arena);
    struct str kind = output_value(run, "error.failure_kind", arena);

    if (layer.len == 0 && message.len == 0)
        return STR("");
    layer = output_layer(layer, arena);
    return str_of(arena_printf(arena, "%.*s: %.*s (%.*s)", (int)layer.len, layer.ptr,
                               (int)message.len, message.ptr, (int)kind.len, kind.ptr));
}

static bool get_run(struct api *api, const char *id, struct str *run, struct error *err)
{
    return api_send(api, "GET", api_path(api, "/runs/%s", api_part(api, id)), (struct str){0}, run,
                    err);
}

bool run_follow(struct follow *follow, const char *id, struct str *run, struct error *err)
{
    bool ended = false, was_over = false;
    int64_t pause = 0;
    size_t n;

    for (;;) {
        if (!follow_once(follow, &ended, &n, err))
            return false;
        if (ended || (was_over && n == 0))
            return true;
        if (!get_run(follow->api, id, run, err))
            return false;
        was_over = run_is_over(output_value(*run, "status", &follow->api->arena));
        if (n > 0)
            pause = 0;
        else if (!was_over)
            follow_pause(follow, &pause);
    }
}

static enum follow_verdict watch_event(void *arg UNUSED, const struct sse_event *event,
                                       struct error *err UNUSED)
{
    static const char *const last[] = {
        "run.completed", "run.failed", "run.cancelled", "run.expired", "run.dead_lettered",
    };
    AUTO(arena_finish) struct arena arena = {0};
    struct str kind;

    if (!json_find_text(event->data, "kind", &arena, &kind))
        return FOLLOW_ON;
    for (size_t i = 0; i < COUNT_OF(last); i++) {
        if (str_equal(kind, str_of(last[i])))
            return FOLLOW_END;
    }
    return FOLLOW_ON;
}

static bool still_runs(const char *id, struct error *err)
{
    return err->code != ERR_TIMEOUT
               ? false
               : error_set(err, ERR_TIMEOUT,
                           "run %.40s has not ended in time; it goes on: helmr run wait %.40s", id,
                           id);
}

bool run_wait_end(struct api *api, const char *id, int64_t deadline_ms, struct str *run,
                  struct error *err)
{
    AUTO(follow_finish) struct follow follow;

    follow_init(&follow, api, api_path(api, "/runs/%s/events", api_part(api, id)), watch_event,
                NULL);
    follow.deadline_ms = deadline_ms;
    if (!follow_until_end(&follow, err))
        return still_runs(id, err);
    return get_run(api, id, run, err);
}
