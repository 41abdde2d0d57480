/* `helmr secret …`: stored values, which are written and never read back. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/own.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "model/name.h"

#define VALUE_MAX KIB(64)

static const struct field secret_columns[] = {
    {"NAME",    "name",       NULL},
    {"UPDATED", "updated_at", NULL},
    {"CREATED", "created_at", NULL},
};

static const struct field secret_labels[] = {
    {"Name",        "name",           NULL},
    {"Project",     "project_id",     NULL},
    {"Environment", "environment_id", NULL},
    {"Created",     "created_at",     NULL},
    {"Updated",     "updated_at",     NULL},
};

static void wipe(struct buf *buf)
{
    if (buf->bytes)
        bytes_wipe(buf->bytes, buf->cap);
    buf_finish(buf);
}

/* A buf that grows leaves its former bytes behind; these are the room they need from the start. */
static struct buf hidden_buf(size_t max)
{
    return (struct buf){.bytes = alloc(max), .cap = max, .max = max};
}

static bool too_large(struct error *err)
{
    return error_set(err, ERR_TOO_LARGE, "a secret has at most 64 KiB");
}

static bool read_pipe(struct buf *value, struct error *err)
{
    for (;;) {
        ssize_t got = read(STDIN_FILENO, value->bytes + value->len, value->max - value->len);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "reading the value from stdin");
        if (got == 0)
            return true;
        value->len += (size_t)got;
        if (value->len > VALUE_MAX)
            return too_large(err);
    }
}

static bool read_value(const struct invocation *invocation, struct buf *value, struct error *err)
{
    bool ok;

    if (invocation->n_args > 1)
        ok = strlen(invocation->args[1]) <= VALUE_MAX
                 ? buf_append(value, str_of(invocation->args[1]), err)
                 : too_large(err);
    else if (isatty(STDIN_FILENO))
        ok = prompt_hidden("Value (not shown): ", value, err);
    else
        ok = read_pipe(value, err);
    if (!ok)
        return false;
    if (value->len == 0)
        return error_set(err, ERR_INVALID, "a secret has at least one byte; this one is empty");
    return utf8_is_valid(buf_str(value)) ||
           error_set(err, ERR_INVALID, "a secret is UTF-8 text; encode other bytes as base64");
}

bool secret_set_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(wipe) struct buf value = hidden_buf(VALUE_MAX + 1);
    /* A byte becomes six at most: \u0000. */
    AUTO(wipe) struct buf body = hidden_buf(6 * VALUE_MAX + 64);
    const char *name = invocation->args[0];
    struct json_writer json = json_begin(&body);
    struct str secret;

    *exit_code = 0;
    if (!name_check(NAME_SECRET, "the name", str_of(name), err) ||
        !read_value(invocation, &value, err))
        return false;
    json_open(&json, NULL);
    json_text(&json, "value", buf_str(&value));
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "PUT", api_path(&api, "/secrets/%s", api_part(&api, name)), buf_str(&body),
                  &secret, err))
        return false;
    output_line(invocation_has(invocation, "json") ? secret : str_of(name));
    return true;
}

bool secret_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const struct listing listing = {
        .path = api_path(&api, "/secrets"),
        .field = "secrets",
        .columns = secret_columns,
        .n_columns = COUNT_OF(secret_columns),
    };

    return output_list(&api, invocation, &listing, err);
}

bool secret_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str secret;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *path = api_path(&api, "/secrets/%s", api_part(&api, invocation->args[0]));

    return api_send(&api, "GET", path, (struct str){0}, &secret, err) &&
           output_object(&api, invocation, secret, secret_labels, COUNT_OF(secret_labels), err);
}

bool secret_delete_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *name = invocation->args[0];
    char question[256];
    bool agreed;

    *exit_code = 0;
    if (!name_check(NAME_SECRET, "the name", str_of(name), err))
        return false;
    snprintf(question, sizeof question, "Delete the secret %s? What needs it will fail.", name);
    if (!invocation_confirm(invocation, question, &agreed, err))
        return false;
    if (!agreed) {
        *exit_code = 1;
        return true;
    }
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "DELETE", api_path(&api, "/secrets/%s", api_part(&api, name)),
                  (struct str){0}, NULL, err))
        return false;
    if (invocation_has(invocation, "json"))
        printf("{\"name\":\"%s\",\"status\":\"deleted\"}\n", name);
    else
        printf("%s deleted\n", name);
    return true;
}
