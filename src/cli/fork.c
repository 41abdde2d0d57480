/* `helmr fork`: branches of a run at one of its waits, each with an answer of its own. */
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/output.h"

/* FORK_MS: a run that is not parked yet is parked first. */
enum { ANSWER_MAX = 256 * 1024, BODY_MAX = 2 * ANSWER_MAX, FORK_MS = 60 * 1000 };

static const struct field branch_columns[] = {
    {"run_id",       "run.id",               NULL},
    {"session_id",   "session.id",           NULL},
    {"workspace_id", "session.workspace_id", NULL},
    {"token_id",     "token.id",             NULL},
};

static bool write_body(const struct invocation *invocation, struct str data, struct buf *out,
                       struct error *err)
{
    const char *at = invocation_value(invocation, "at");
    const char *external_id = invocation_value(invocation, "external-id");
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    if (at)
        json_string(&json, "wait_id", at);
    if (external_id)
        json_string(&json, "external_id", external_id);
    if (data.ptr)
        json_raw(&json, "data", data);
    json_close(&json);
    return json_end(&json, err);
}

/* One branch; without an answer (flag NULL) it is left waiting. */
static bool make_branch(struct api *api, const struct invocation *invocation, const char *flag,
                        const char *answer, struct error *err)
{
    AUTO(buf_finish) struct buf data = {.max = ANSWER_MAX};
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct str branch;

    if (flag && !json_canonical(str_of(answer), ANSWER_MAX, &data, err))
        return error_wrap(err, "--%s", flag);
    if (!write_body(invocation, flag ? buf_str(&data) : (struct str){0}, &body, err))
        return false;
    const struct http_request request = {
        .method = "POST",
        .path = api_path(api, "/runs/%s/fork", api_part(api, invocation->args[0])),
        .body = buf_str(&body),
        .timeout_ms = FORK_MS,
    };
    if (!api_exchange(api, &request, &branch, err))
        return false;
    output_row(api, invocation, branch, branch_columns, COUNT_OF(branch_columns));
    return true;
}

static bool make_from_file(struct api *api, const struct invocation *invocation, const char *path,
                           struct error *err)
{
    AUTO_FREE char *text = NULL;

    return file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, ANSWER_MAX, &text, err) &&
           make_branch(api, invocation, "answer-file", text, err);
}

bool fork_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *text;
    size_t n = 0;

    *exit_code = 0;
    while (invocation_nth(invocation, "answer-json", n))
        n++;
    for (size_t i = 0; invocation_nth(invocation, "answer-file", i); i++)
        n++;
    if (n > 1 && invocation_has(invocation, "external-id"))
        return error_set(err, ERR_INVALID, "--external-id is for one branch only");
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    if (n == 0)
        return make_branch(&api, invocation, NULL, NULL, err);
    for (size_t i = 0; (text = invocation_nth(invocation, "answer-json", i)); i++)
        if (!make_branch(&api, invocation, "answer-json", text, err))
            return false;
    for (size_t i = 0; (text = invocation_nth(invocation, "answer-file", i)); i++)
        if (!make_from_file(&api, invocation, text, err))
            return false;
    return true;
}
