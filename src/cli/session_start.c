/* `helmr session start TASK`: a session with its first run, waited for when asked. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/payload.h"
#include "cli/run_object.h"

static const struct field started_labels[] = {
    {"session_id",   "session.id",           NULL},
    {"run_id",       "run.id",               NULL},
    {"workspace_id", "session.workspace_id", NULL},
};

static bool start(struct api *api, const struct invocation *invocation, struct str *started,
                  struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = RUN_BODY_MAX};

    return payload_session_body(invocation, invocation->args[0], &body, err) &&
           api_send(api, "POST", api_path(api, "/sessions"), buf_str(&body), started, err);
}

static bool print_started(struct api *api, const struct invocation *invocation, struct str started,
                          struct str session, struct error *err)
{
    if (!output_object(api, invocation, started, started_labels, COUNT_OF(started_labels), err))
        return false;
    output_label(stdout, "console_url",
                 str_of(arena_printf(&api->arena, "%s/sessions/%.*s", api->url, (int)session.len,
                                     session.ptr)));
    fflush(stdout);
    return true;
}

/* As the start was answered, with session and run as they are now. */
static bool print_ended(struct api *api, struct str started, struct str session, struct str run,
                        struct error *err)
{
    struct str now, cached = output_value(started, "is_cached", &api->arena);
    const char *path =
        api_path(api, "/sessions/%.*s", (int)session.len, session.ptr); /* an id of the server */

    if (!api_send(api, "GET", path, (struct str){0}, &now, err))
        return false;
    printf("{\"session\":");
    fwrite(now.ptr, 1, now.len, stdout);
    printf(",\"run\":");
    fwrite(run.ptr, 1, run.len, stdout);
    printf(",\"is_cached\":%s}\n", str_equal(cached, STR("true")) ? "true" : "false");
    return true;
}

bool session_start_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct stay stay;
    struct str started, session, id, run;

    *exit_code = 0;
    if (!run_stays(invocation, &stay, err) || !api_open(invocation, API_ANY, NULL, &api, err) ||
        !start(&api, invocation, &started, err))
        return false;
    if (!json_find_text(started, "session.id", &api.arena, &session) ||
        !json_find_text(started, "run.id", &api.arena, &id) ||
        !json_find_raw(started, "run", &api.arena, &run))
        return error_set(err, ERR_INTERNAL, "the server started a session and did not describe it");
    if (stay.as_json && !stay.stays)
        output_line(started);
    else if (!stay.as_json && !print_started(&api, invocation, started, session, err))
        return false;
    run_note_waiting(&api, run);
    if (!stay.stays)
        return true;
    if (!run_stay(&api, &stay, arena_text(&api.arena, id), &run, err))
        return false;
    if (stay.as_json)
        return print_ended(&api, started, session, run, err);
    run_print_end(&api, run);
    return true;
}
