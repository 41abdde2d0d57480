/* `helmr run TASK`: starts a run and, when asked, stays with it to its end. */
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/payload.h"
#include "cli/run_object.h"

static bool start(struct api *api, const struct invocation *invocation, struct str *run,
                  struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = RUN_BODY_MAX};

    return payload_run_body(invocation, invocation->args[0], &body, err) &&
           api_send(api, "POST", api_path(api, "/runs"), buf_str(&body), run, err);
}

void run_print_end(struct api *api, struct str run)
{
    struct str error = run_error_text(run, &api->arena);

    if (error.len > 0) {
        fputs("error: ", stderr);
        output_clean(stderr, error);
        putc('\n', stderr);
    }
    output_label(stdout, "run_status", output_value(run, "status", &api->arena));
}

void run_note_waiting(struct api *api, struct str run)
{
    struct str reason = output_value(run, "queued_reason", &api->arena);

    if (str_equal(reason, STR("no_worker")))
        fputs("note: the run waits: no worker is active; see `helmr up` or `helmr worker`\n",
              stderr);
    else if (str_equal(reason, STR("no_compatible_worker")))
        fputs("note: the run waits: no active worker can run it\n", stderr);
}

bool run_stays(const struct invocation *invocation, struct stay *stay, struct error *err)
{
    stay->follows = invocation_has(invocation, "follow");
    stay->stays = stay->follows || invocation_has(invocation, "wait");
    stay->as_json = invocation_has(invocation, "json");
    if (stay->as_json && stay->follows)
        return error_set(err, ERR_INVALID, "--json and --follow exclude each other");
    if (invocation_has(invocation, "timeout") && !stay->stays)
        return error_set(err, ERR_INVALID, "--timeout needs --wait or --follow");
    return run_deadline(invocation, &stay->deadline_ms, err);
}

bool run_stay(struct api *api, const struct stay *stay, const char *id, struct str *run,
              struct error *err)
{
    return stay->follows ? run_follow_logs(api, id, stay->deadline_ms, false, run, err)
                         : run_wait_end(api, id, stay->deadline_ms, run, err);
}

bool run_start_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct stay stay;
    struct str run, id;

    *exit_code = 0;
    if (!run_stays(invocation, &stay, err) || !api_open(invocation, API_ANY, NULL, &api, err) ||
        !start(&api, invocation, &run, err))
        return false;
    if (!json_find_text(run, "id", &api.arena, &id))
        return error_set(err, ERR_INTERNAL, "the server described a run without an id");
    output_console(&api, "runs", id);
    if (!stay.as_json)
        output_line(id);
    else if (!stay.stays)
        output_line(run);
    fflush(stdout);
    run_note_waiting(&api, run);
    if (!stay.stays)
        return true;
    if (!run_stay(&api, &stay, arena_text(&api.arena, id), &run, err))
        return false;
    if (stay.as_json)
        output_line(run);
    else
        run_print_end(&api, run);
    return true;
}
