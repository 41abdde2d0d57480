/* Commands in a workspace: made, listed, given input, signalled. */
#include <string.h>

#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/input.h"
#include "server/mount_store.h"
#include "server/page.h"
#include "server/process_object.h"
#include "server/process_request.h"

enum { COMMAND_MAX = 64 * 1024, VARIABLES_MAX = 256 * 1024, ARGUMENT_MAX = 64 * 1024 };

#define TIMEOUT_MAX_MS (30 * DAY_MS)

struct exec_body {
    struct json_list command; /* struct str */
    struct str cwd, timeout;
    struct json_map env;
    bool detached;
    struct str idempotency_key, idempotency_key_ttl;
    struct key_origin idempotency_key_options;
};

static const struct json_field exec_fields[] = {
    {"command", JSON_LIST, offsetof(struct exec_body, command), REQUIRED, .max = WIRE_ARGS_MAX},
    {"cwd", JSON_TEXT, offsetof(struct exec_body, cwd), OPTIONAL, .max = WIRE_PATH_MAX},
    {"env", JSON_MAP, offsetof(struct exec_body, env), OPTIONAL, .max = WIRE_ENV_MAX},
    {"timeout", JSON_RAW, offsetof(struct exec_body, timeout), OPTIONAL, .max = 256},
    {"detached", JSON_BOOL, offsetof(struct exec_body, detached), OPTIONAL},
    {"idempotency_key", JSON_TEXT, offsetof(struct exec_body, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct exec_body, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct exec_body, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

static bool check_command(const struct exec_body *body, struct error *err)
{
    const struct str *words = body->command.items;
    size_t n_bytes = 0;

    if (body->command.n == 0 || words[0].len == 0)
        return error_set(err, ERR_INVALID, "/command must name a program");
    for (size_t i = 0; i < body->command.n; i++)
        n_bytes += words[i].len + 1;
    return n_bytes <= COMMAND_MAX ||
           error_set(err, ERR_INVALID, "/command must be of at most 64 KiB");
}

static bool check_env(const struct exec_body *body, struct error *err)
{
    size_t n_bytes = 0;

    for (size_t i = 0; i < body->env.n; i++) {
        if (!name_check(NAME_VARIABLE, "a name in /env", body->env.pairs[i].name, err))
            return false;
        n_bytes += body->env.pairs[i].name.len + body->env.pairs[i].value.len + 2;
    }
    return n_bytes <= VARIABLES_MAX ||
           error_set(err, ERR_INVALID, "/env must be of at most 256 KiB");
}

static bool command_text(const struct exec_body *body, struct buf *text, struct error *err)
{
    const struct str *words = body->command.items;
    struct json_writer json = json_begin(text);

    json_open_list(&json, NULL);
    for (size_t i = 0; i < body->command.n; i++)
        json_text(&json, NULL, words[i]);
    json_close_list(&json);
    return json_end(&json, err);
}

static bool env_texts(const struct exec_body *body, struct buf *names, struct buf *whole,
                      struct error *err)
{
    struct json_writer list = json_begin(names), json = json_begin(whole);

    json_open_list(&list, NULL);
    json_open(&json, NULL);
    json_open(&json, "env");
    for (size_t i = 0; i < body->env.n; i++) {
        json_text(&list, NULL, body->env.pairs[i].name);
        json_text(&json, body->env.pairs[i].name.ptr, body->env.pairs[i].value);
    }
    json_close(&json);
    json_close(&json);
    json_close_list(&list);
    return json_end(&list, err) && json_end(&json, err);
}

/* What of the body is kept, and in which form. */
struct exec_request {
    struct buf command, names, env, sealed;
    int64_t timeout_ms; /* 0: none */
};

static void request_finish(struct exec_request *request)
{
    buf_finish(&request->command);
    buf_finish(&request->names);
    buf_finish(&request->env);
    buf_finish(&request->sealed);
}

static bool read_request(const struct exec_body *body, struct exec_request *request,
                         struct error *err)
{
    return check_command(body, err) && check_env(body, err) && process_check_cwd(body->cwd, err) &&
           (!body->timeout.ptr ||
            input_duration(body->timeout, "timeout", TIMEOUT_MAX_MS, &request->timeout_ms, err)) &&
           command_text(body, &request->command, err) &&
           env_texts(body, &request->names, &request->env, err);
}

static bool claim(struct call *call, struct tx *tx, const struct exec_body *body,
                  const struct exec_request *request, const char *id, char first[ID_TEXT],
                  struct error *err)
{
    const struct process_key key = {
        .key = body->idempotency_key,
        .ttl = body->idempotency_key_ttl,
        .fingerprint =
            str_of(arena_printf(call->arena, "%.*s\n%.*s\n%.*s\n%lld %d", (int)request->command.len,
                                request->command.bytes, (int)request->env.len, request->env.bytes,
                                (int)body->cwd.len, body->cwd.ptr ? body->cwd.ptr : "",
                                (long long)request->timeout_ms, body->detached)),
    };

    return process_claim_key(call, tx, "POST /api/workspaces/:workspace/execs", &key, id, first,
                             err);
}

static bool seal_env(struct call *call, const struct exec_body *body, struct exec_request *request,
                     const char *id, struct error *err)
{
    return body->env.n == 0 || keys_seal(&server_of(call)->keys, KEY_SECRET, str_of(id),
                                         buf_str(&request->env), &request->sealed, err);
}

static bool insert(struct call *call, struct tx *tx, const struct exec_body *body,
                   struct exec_request *request, const char *id, struct wakes *wakes,
                   struct error *err)
{
    struct process_made made = {.kind = PROCESS_EXEC, .id = id};

    return seal_env(call, body, request, id, err) && process_begin(call, tx, &made, wakes, err) &&
           STORE(tx, &process_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(call_environment(call)),
                 V_TEXT(made.mount.workspace_id), V_TEXT(made.mount.id), V_TEXT("exec"),
                 V_TEXT("queued"), V_STR(buf_str(&request->command)), V_STR_OR_NULL(body->cwd),
                 V_STR(buf_str(&request->names)),
                 request->sealed.len ? V_BYTES(buf_str(&request->sealed)) : V_NULL,
                 V_INT(body->detached), request->timeout_ms ? V_INT(request->timeout_ms) : V_NULL,
                 V_INT(0), V_INT(0), V_INT(time_now_ms())) &&
           process_launch(tx, &made, wakes, err) &&
           audit_call(tx, call, "workspace.exec", str_of(id), err);
}

bool exec_create_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(request_finish)
    struct exec_request request = {
        .command = {.max = 8 * (size_t)COMMAND_MAX},
        .names = {.max = COMMAND_MAX},
        .env = {.max = 8 * (size_t)VARIABLES_MAX},
        .sealed = {.max = 8 * (size_t)VARIABLES_MAX},
    };
    struct wakes wakes = {0};
    char id[ID_TEXT], first[ID_TEXT];
    struct exec_body body;
    AUTO_TX tx = NULL;

    id_make(id);
    if (!call_body(call, exec_fields, &body, sizeof body, err) ||
        !read_request(&body, &request, err) || !store_begin(server_of(call)->store, &tx, err) ||
        !claim(call, tx, &body, &request, id, first, err))
        return false;
    bool is_cached = first[0];
    return (is_cached || insert(call, tx, &body, &request, id, &wakes, err)) &&
           process_answer_made(call, tx, PROCESS_EXEC, is_cached ? first : id, is_cached, res,
                               err) &&
           hub_commit(&server_of(call)->hub, &tx, &wakes, err);
}

bool exec_list_get(struct call *call, struct response *res, struct error *err)
{
    return process_answer_list(call, PROCESS_EXEC, res, err);
}

bool exec_one_get(struct call *call, struct response *res, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) &&
           process_answer_one(call, tx, PROCESS_EXEC, 200, res, err);
}

bool exec_stdin_post(struct call *call, struct response *res, struct error *err)
{
    return process_input_post(call, PROCESS_EXEC, res, err);
}

/* Closing what is closed, or over, changes nothing. */
bool exec_stdin_close_post(struct call *call, struct response *res, struct error *err)
{
    static const struct wire_message nothing = {0};
    struct process_row process;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    if (!store_begin(server_of(call)->store, &tx, err) ||
        !process_hold_path(call, tx, PROCESS_EXEC, &process, err))
        return false;
    if (process.is_live && !process.is_input_closed &&
        (!STORE(tx, &process_close_input, NULL, NULL, err, V_TEXT(process.id),
                V_INT(time_now_ms())) ||
         !process_send(tx, &process, "process_input_close", &nothing, &wakes, err) ||
         !hub_commit(&server_of(call)->hub, &tx, &wakes, err)))
        return false;
    response_empty(res, 204);
    return true;
}

struct terminate_body {
    struct str signal;
};

static const struct json_field terminate_fields[] = {
    {"signal", JSON_TEXT, offsetof(struct terminate_body, signal), OPTIONAL, .max = 8},
    {0},
};

static const char *signal_of(struct str name)
{
    static const char *const names[] = {"TERM", "KILL", "INT", "HUP"};

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!name.ptr || str_equal(name, str_of(names[i])))
            return names[i];
    return NULL;
}

bool exec_terminate_post(struct call *call, struct response *res, struct error *err)
{
    struct process_row process;
    struct terminate_body body;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    if (!call_body(call, terminate_fields, &body, sizeof body, err))
        return false;
    const char *signal = signal_of(body.signal);
    if (!signal)
        return error_set(err, ERR_INVALID, "/signal must be TERM, KILL, INT or HUP");
    if (!store_begin(server_of(call)->store, &tx, err) ||
        !process_hold_path(call, tx, PROCESS_EXEC, &process, err))
        return false;
    if (!process.is_live)
        return error_set(err, ERR_EXEC_TERMINAL, "the command is %.*s", (int)process.state.len,
                         process.state.ptr);
    return process_send_signal(tx, &process, signal, &wakes, err) &&
           process_answer_one(call, tx, PROCESS_EXEC, 200, res, err) &&
           hub_commit(&server_of(call)->hub, &tx, &wakes, err);
}

bool exec_stdout_get(struct call *call, struct response *res, struct error *err)
{
    return process_output_get(call, PROCESS_EXEC, "stdout", res, err);
}

bool exec_stderr_get(struct call *call, struct response *res, struct error *err)
{
    return process_output_get(call, PROCESS_EXEC, "stderr", res, err);
}
