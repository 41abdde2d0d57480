/* `helmr workspace shell` and `helmr workspace pty create|connect|close|list`. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/attach.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/terminal.h"

enum { BODY_MAX = 16 * 1024, REPLAYED = 64 * 1024, SIZE_MAX_CELLS = 10000 };

static const char *ptys(struct api *api, const struct invocation *invocation, const char *rest)
{
    return api_path(api, "/workspaces/%s/pty%s", api_part(api, invocation->args[0]), rest);
}

static const char *pty_path(struct api *api, const struct invocation *invocation, const char *pty,
                            const char *rest)
{
    return ptys(api, invocation, arena_printf(&api->arena, "/%s%s", api_part(api, pty), rest));
}

static bool cells(const struct invocation *invocation, const char *option, int *value,
                  struct error *err)
{
    const char *text = invocation_value(invocation, option);
    char *end = NULL;

    if (!text)
        return true;
    long number = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number < 1 || number > SIZE_MAX_CELLS)
        return error_set(err, ERR_INVALID, "--%s must be a number of cells", option);
    *value = (int)number;
    return true;
}

/* *pty: the object of the API, in the arena. */
static bool create(struct api *api, const struct invocation *invocation, struct str *pty,
                   struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);
    struct str answer = {0};
    int cols, rows;

    terminal_size(&cols, &rows);
    if (!cells(invocation, "cols", &cols, err) || !cells(invocation, "rows", &rows, err))
        return false;
    json_open(&json, NULL);
    if (invocation_has(invocation, "cwd"))
        json_string(&json, "cwd", invocation_value(invocation, "cwd"));
    if (invocation_has(invocation, "idempotency-key"))
        json_string(&json, "idempotency_key", invocation_value(invocation, "idempotency-key"));
    json_int(&json, "cols", cols);
    json_int(&json, "rows", rows);
    json_close(&json);
    if (!json_end(&json, err) ||
        !api_send(api, "POST", ptys(api, invocation, ""), buf_str(&body), &answer, err))
        return false;
    return json_find_raw(answer, "pty", &api->arena, pty) ||
           error_set(err, ERR_INTERNAL, "the server made a terminal and did not say which");
}

static int64_t number_of(struct str object, const char *path, struct arena *arena)
{
    struct str value = {0};

    return json_find_raw(object, path, arena, &value) ? strtoll(arena_text(arena, value), NULL, 10)
                                                      : 0;
}

static bool attach_to(struct api *api, const struct invocation *invocation, struct str pty,
                      bool is_new, int *exit_code, struct error *err)
{
    int64_t end = number_of(pty, "output_cursor", &api->arena);
    struct str id = {0};

    if (!json_find_text(pty, "id", &api->arena, &id))
        return error_set(err, ERR_INTERNAL, "the server described a terminal without its id");

    struct attach attach = {
        .api = api,
        .workspace = invocation->args[0],
        .pty = arena_text(&api->arena, id),
        .cursor = is_new || end < REPLAYED ? 0 : end - REPLAYED,
        .old_end = is_new ? 0 : end,
        .input_cursor = number_of(pty, "input_cursor", &api->arena),
        .is_repainted = !is_new,
    };
    return attach_run(&attach, exit_code, err);
}

static bool connect_to(struct api *api, const struct invocation *invocation, const char *pty,
                       int *exit_code, struct error *err)
{
    struct str object = {0};

    return api_send(api, "GET", pty_path(api, invocation, pty, ""), (struct str){0}, &object,
                    err) &&
           attach_to(api, invocation, object, false, exit_code, err);
}

/* Before anything is made for it: whoever has no terminal wants something else. */
static bool has_terminal(struct error *err)
{
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        return true;
    return error_set(err, ERR_INVALID,
                     "this needs a terminal on stdin and stdout; for scripts there is `helmr "
                     "workspace exec`");
}

bool workspace_shell_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *pty = invocation_value(invocation, "pty");
    struct str object = {0};

    if (!has_terminal(err) || !api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    if (pty)
        return connect_to(&api, invocation, pty, exit_code, err);
    return create(&api, invocation, &object, err) &&
           attach_to(&api, invocation, object, true, exit_code, err);
}

bool workspace_pty_connect_command(const struct invocation *invocation, int *exit_code,
                                   struct error *err)
{
    AUTO(api_finish) struct api api = {0};

    return has_terminal(err) && api_open(invocation, API_ANY, NULL, &api, err) &&
           connect_to(&api, invocation, invocation->args[1], exit_code, err);
}

bool workspace_pty_create_command(const struct invocation *invocation, int *exit_code,
                                  struct error *err)
{
    static const struct field labels[] = {
        {"workspace_id", "workspace_id", NULL},
        {"pty_id",       "id",           NULL},
    };
    AUTO(api_finish) struct api api = {0};
    struct str object = {0};

    *exit_code = 0;
    return api_open(invocation, API_ANY, NULL, &api, err) &&
           create(&api, invocation, &object, err) &&
           output_object(&api, invocation, object, labels, COUNT_OF(labels), err);
}

bool workspace_pty_close_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    static const struct field fields[] = {
        {"id",    "id",    NULL},
        {"state", "state", NULL},
    };
    AUTO(api_finish) struct api api = {0};
    struct str object = {0};

    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "POST", pty_path(&api, invocation, invocation->args[1], "/close"),
                  STR("{}"), &object, err))
        return false;
    output_row(&api, invocation, object, fields, COUNT_OF(fields));
    *exit_code = 0;
    return true;
}

bool workspace_pty_list_command(const struct invocation *invocation, int *exit_code,
                                struct error *err)
{
    static const struct field columns[] = {
        {"ID",      "id",         NULL},
        {"STATE",   "state",      NULL},
        {"COLS",    "cols",       NULL},
        {"ROWS",    "rows",       NULL},
        {"CREATED", "created_at", NULL},
    };
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    return api_open(invocation, API_ANY, NULL, &api, err) &&
           output_list(&api, invocation,
                       &(struct listing){
                           .path = ptys(&api, invocation, ""),
                           .field = "ptys",
                           .columns = columns,
                           .n_columns = COUNT_OF(columns),
                       },
                       err);
}
