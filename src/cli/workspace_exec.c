/* `helmr workspace exec` and what is asked about commands afterwards. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/exec_session.h"
#include "cli/follow.h"
#include "cli/output.h"

enum { BODY_MAX = 1024 * 1024, PAGE_MAX_BYTES = 16 * 1024 * 1024 };

static const char *exec_path(struct api *api, const char *workspace, const char *exec)
{
    return arena_printf(&api->arena, "/workspaces/%s/execs/%s", api_part(api, workspace),
                        api_part(api, exec));
}

static bool write_env(const struct invocation *invocation, struct json_writer *json,
                      struct arena *arena, struct error *err)
{
    if (!invocation_has(invocation, "set-env"))
        return true;
    json_open(json, "env");
    for (size_t i = 0; invocation_nth(invocation, "set-env", i); i++) {
        const char *pair = invocation_nth(invocation, "set-env", i), *sign = strchr(pair, '=');

        if (!sign || sign == pair)
            return error_set(err, ERR_INVALID, "--set-env must be NAME=VALUE");
        json_string(json, arena_text(arena, (struct str){pair, (size_t)(sign - pair)}), sign + 1);
    }
    json_close(json);
    return true;
}

static bool write_request(struct api *api, const struct invocation *invocation, struct buf *body,
                          struct error *err)
{
    static const struct api_flag parts[] = {
        {"cwd",             "cwd"            },
        {"timeout",         "timeout"        },
        {"idempotency-key", "idempotency_key"},
    };
    struct json_writer json = json_begin(body);

    json_open(&json, NULL);
    json_open_list(&json, "command");
    for (size_t i = 1; i < invocation->n_args; i++)
        json_string(&json, NULL, invocation->args[i]);
    json_close_list(&json);
    if (!write_env(invocation, &json, &api->arena, err))
        return false;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (invocation_has(invocation, parts[i].option))
            json_string(&json, parts[i].parameter, invocation_value(invocation, parts[i].option));
    json_bool(&json, "detached", invocation_has(invocation, "detach"));
    json_close(&json);
    return json_end(&json, err);
}

static bool print_detached(struct api *api, const struct invocation *invocation, struct str answer,
                           struct error *err)
{
    static const struct field labels[] = {
        {"workspace_id", "exec.workspace_id", NULL},
        {"exec_id",      "exec.id",           NULL},
    };
    struct str workspace = output_value(answer, "exec.workspace_id", &api->arena);

    if (!output_object(api, invocation, answer, labels, COUNT_OF(labels), err))
        return false;
    if (!invocation_has(invocation, "json"))
        output_label(stdout, "console_url",
                     str_of(arena_printf(&api->arena, "%s/workspaces/%.*s", api->url,
                                         (int)workspace.len, workspace.ptr)));
    return true;
}

bool workspace_exec_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    AUTO(api_finish) struct api api = {0};
    struct exec_end end;
    struct str answer;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !write_request(&api, invocation, &body, err) ||
        !api_send(&api, "POST",
                  api_path(&api, "/workspaces/%s/execs", api_part(&api, invocation->args[0])),
                  buf_str(&body), &answer, err))
        return false;
    if (invocation_has(invocation, "detach"))
        return print_detached(&api, invocation, answer, err);
    struct str id = output_value(answer, "exec.id", &api.arena);
    const struct exec_session session = {
        .invocation = invocation,
        .path = exec_path(&api, invocation->args[0], arena_text(&api.arena, id)),
        .has_input = true,
    };
    return exec_session_run(&session, &end, err) && exec_end_code(&end, exit_code, err);
}

/* The words of a command as one would type them. */
static struct str show_command(struct str exec, struct arena *arena)
{
    size_t n = json_count(exec, "command");
    const char *text = "";

    for (size_t i = 0; i < n; i++) {
        struct str word = {0};

        json_find_text(exec, arena_printf(arena, "command.%zu", i), arena, &word);
        text = arena_printf(arena, "%s%s%.*s", text, i ? " " : "", (int)word.len, word.ptr);
    }
    return str_of(text);
}

bool workspace_exec_list_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    static const struct field columns[] = {
        {"ID",        "id",         NULL        },
        {"STATE",     "state",      NULL        },
        {"EXIT CODE", "exit_code",  NULL        },
        {"COMMAND",   NULL,         show_command},
        {"CREATED",   "created_at", NULL        },
    };
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const struct listing listing = {
        .path = api_path(&api, "/workspaces/%s/execs", api_part(&api, invocation->args[0])),
        .field = "execs",
        .columns = columns,
        .n_columns = COUNT_OF(columns),
    };
    return output_list(&api, invocation, &listing, err);
}

static bool read_exec(struct api *api, const struct invocation *invocation, struct str *exec,
                      struct error *err)
{
    return api_open(invocation, API_ANY, NULL, api, err) &&
           api_send(api, "GET",
                    api_path(api, "%s", exec_path(api, invocation->args[0], invocation->args[1])),
                    (struct str){0}, exec, err);
}

bool workspace_exec_get_command(const struct invocation *invocation, int *exit_code,
                                struct error *err)
{
    static const struct field labels[] = {
        {"Exec",      "id",                 NULL        },
        {"Workspace", "workspace_id",       NULL        },
        {"Mount",     "workspace_mount_id", NULL        },
        {"Command",   NULL,                 show_command},
        {"Directory", "cwd",                NULL        },
        {"Variables", "env_shape",          NULL        },
        {"State",     "state",              NULL        },
        {"Process",   "process_id",         NULL        },
        {"Exit code", "exit_code",          NULL        },
        {"Signal",    "signal",             NULL        },
        {"Error",     "error",              NULL        },
        {"Stdout",    "stdout_cursor",      NULL        },
        {"Stderr",    "stderr_cursor",      NULL        },
        {"Created",   "created_at",         NULL        },
        {"Started",   "started_at",         NULL        },
        {"Exited",    "exited_at",          NULL        },
    };
    AUTO(api_finish) struct api api = {0};
    struct str exec;

    *exit_code = 0;
    return read_exec(&api, invocation, &exec, err) &&
           output_object(&api, invocation, exec, labels, COUNT_OF(labels), err);
}

static bool print_chunks(struct str page, int fd, struct arena *arena, struct error *err)
{
    size_t n = json_count(page, "chunks");

    for (size_t i = 0; i < n; i++) {
        struct str data = {0};

        json_find_text(page, arena_printf(arena, "chunks.%zu.data", i), arena, &data);
        size_t len = base64_decoded_max(data.len);
        char *bytes = arena_alloc(arena, len + 1);
        if (!base64_decode(data, bytes, &len))
            return error_set(err, ERR_INTERNAL, "the server sent bytes that are not base64");
        if (!fd_write_all(fd, (struct str){bytes, len}, err))
            return false;
    }
    return true;
}

/* One page; where the beginning is not kept any more, the first one that is. */
static bool read_page(struct api *api, const char *path, int64_t *cursor, struct http_answer *page,
                      struct error *err)
{
    for (int tries = 0; tries < 2; tries++) {
        static const char *const headers[] = {API_VERSION_HEADER, NULL};
        const struct http_request request = {
            .method = "GET",
            .path = api_path(api, "%s?limit=16&cursor=%" PRId64, path, *cursor),
            .headers = headers,
        };
        int64_t earliest;

        page->body.len = 0;
        if (!http_client_send(api->client, &request, page, err))
            return api_explain(api, err);
        if (page->status == 200)
            return true;
        if (page->status != 410 ||
            !json_find_int(buf_str(&page->body), "details.earliest_cursor", &earliest))
            break;
        fprintf(stderr, "helmr: the first %" PRId64 " bytes are not kept any more\n", earliest);
        *cursor = earliest;
    }
    return api_refused(api, page->status, buf_str(&page->body), err);
}

static void page_finish(struct http_answer *page)
{
    buf_finish(&page->body);
}

static bool print_stream(struct api *api, const char *path, int64_t cursor, int fd,
                         struct error *err)
{
    AUTO(page_finish) struct http_answer page = {.body = {.max = PAGE_MAX_BYTES}};
    bool more = true;

    while (more) {
        AUTO(arena_finish) struct arena arena = {0};
        struct str next = {0};

        if (!read_page(api, path, &cursor, &page, err) ||
            !print_chunks(buf_str(&page.body), fd, &arena, err))
            return false;
        more = json_find_text(buf_str(&page.body), "next_cursor", &arena, &next);
        if (more)
            cursor = strtoll(arena_text(&arena, next), NULL, 10);
    }
    return true;
}

static bool read_cursor(const struct invocation *invocation, int64_t *cursor, struct error *err)
{
    const char *text = invocation_value(invocation, "cursor");
    char *end = NULL;

    *cursor = text ? strtoll(text, &end, 10) : 0;
    return !text || (*text && !*end && *cursor >= 0) ||
           error_set(err, ERR_INVALID, "--cursor must be an offset in bytes");
}

bool workspace_exec_logs_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct exec_session session = {.invocation = invocation};
    struct exec_end end;

    *exit_code = 0;
    if (!read_cursor(invocation, &session.cursor, err) ||
        !api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    session.path = exec_path(&api, invocation->args[0], invocation->args[1]);
    fflush(stdout);
    if (invocation_has(invocation, "follow"))
        return exec_session_run(&session, &end, err);
    return print_stream(&api, arena_printf(&api.arena, "%s/stdout", session.path), session.cursor,
                        STDOUT_FILENO, err) &&
           print_stream(&api, arena_printf(&api.arena, "%s/stderr", session.path), 0, STDERR_FILENO,
                        err);
}

static enum follow_verdict pass_over(void *arg UNUSED, const struct sse_event *event,
                                     struct error *err UNUSED)
{
    return str_equal(event->name, STR("workspace_stream_chunk")) ? FOLLOW_ON : FOLLOW_END;
}

static bool is_over(struct str exec, struct arena *arena)
{
    struct str state = output_value(exec, "state", arena);

    return !str_equal(state, STR("queued")) && !str_equal(state, STR("running"));
}

/* Looks at its output from now on, which ends with it. */
static bool wait_for(struct api *api, const char *path, struct str exec, struct error *err)
{
    AUTO(follow_finish) struct follow follow;

    follow_init(&follow, api, api_path(api, "%s/stdout", path), pass_over, NULL);
    struct str cursor = output_value(exec, "stdout_cursor", &api->arena);
    return buf_append(&follow.cursor, cursor, err) && follow_until_end(&follow, err);
}

bool workspace_exec_wait_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    static const struct field fields[] = {
        {"id",        "id",        NULL},
        {"state",     "state",     NULL},
        {"exit_code", "exit_code", NULL},
    };
    AUTO(api_finish) struct api api = {0};
    struct exec_end end;
    struct str exec;

    *exit_code = 0;
    if (!read_exec(&api, invocation, &exec, err))
        return false;
    const char *path = exec_path(&api, invocation->args[0], invocation->args[1]);
    while (!is_over(exec, &api.arena))
        if (!wait_for(&api, path, exec, err) ||
            !api_send(&api, "GET", api_path(&api, "%s", path), (struct str){0}, &exec, err))
            return false;
    output_row(&api, invocation, exec, fields, COUNT_OF(fields));
    exec_end_of(&api, exec, &end);
    return exec_end_code(&end, exit_code, err);
}

bool workspace_exec_kill_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    static const struct field fields[] = {
        {"id",    "id",    NULL},
        {"state", "state", NULL},
    };
    const char *signal = invocation_value(invocation, "signal");
    AUTO(api_finish) struct api api = {0};
    struct str exec;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const char *path = exec_path(&api, invocation->args[0], invocation->args[1]);
    const char *body = arena_printf(&api.arena, "{\"signal\":\"%s\"}", signal ? signal : "TERM");
    if (!api_send(&api, "POST", api_path(&api, "%s/terminate", path), str_of(body), &exec, err))
        return false;
    output_row(&api, invocation, exec, fields, COUNT_OF(fields));
    return true;
}
