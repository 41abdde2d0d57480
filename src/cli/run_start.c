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

static void print_end(struct api *api, struct str run)
{
    struct str error = run_error_text(run, &api->arena);

    if (error.len > 0) {
        fputs("error: ", stderr);
        output_clean(stderr, error);
        putc('\n', stderr);
    }
    output_label(stdout, "run_status", output_value(run, "status", &api->arena));
}

/* A run that nobody can take would be waited for without a word. */
static void note_waiting(struct api *api, struct str run)
{
    struct str reason = output_value(run, "queued_reason", &api->arena);

    if (str_equal(reason, STR("no_worker")))
        fputs("note: the run waits: no worker is active; see `helmr up` or `helmr worker`\n",
              stderr);
    else if (str_equal(reason, STR("no_compatible_worker")))
        fputs("note: the run waits: no active worker can run it\n", stderr);
}

static bool stay(struct api *api, const struct invocation *invocation, const char *id,
                 int64_t deadline_ms, struct error *err)
{
    bool as_json = invocation_has(invocation, "json");
    struct str run;

    if (invocation_has(invocation, "follow")
            ? !run_follow_logs(api, id, deadline_ms, false, &run, err)
            : !run_wait_end(api, id, deadline_ms, &run, err))
        return false;
    if (as_json)
        output_line(run);
    else
        print_end(api, run);
    return true;
}

bool run_start_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    bool as_json = invocation_has(invocation, "json"),
         follows = invocation_has(invocation, "follow");
    bool stays = follows || invocation_has(invocation, "wait");
    int64_t deadline_ms;
    struct str run, id;

    *exit_code = 0;
    if (as_json && follows)
        return error_set(err, ERR_INVALID, "--json and --follow exclude each other");
    if (invocation_has(invocation, "timeout") && !stays)
        return error_set(err, ERR_INVALID, "--timeout needs --wait or --follow");
    if (!run_deadline(invocation, &deadline_ms, err) ||
        !api_open(invocation, API_ANY, NULL, &api, err) || !start(&api, invocation, &run, err))
        return false;
    if (!json_find_text(run, "id", &api.arena, &id))
        return error_set(err, ERR_INTERNAL, "the server described a run without an id");
    output_console(&api, "runs", id);
    if (!as_json)
        output_line(id);
    else if (!stays)
        output_line(run);
    fflush(stdout);
    note_waiting(&api, run);
    return !stays || stay(&api, invocation, arena_text(&api.arena, id), deadline_ms, err);
}
