#include "cli/payload.h"

#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "model/duration.h"
#include "model/name.h"

static struct str trim(struct str text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[0]))
        text = (struct str){text.ptr + 1, text.len - 1};
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[text.len - 1]))
        text.len--;
    return text;
}

/* NAME=VALUE cut at the first '='; neither may be empty. */
static bool split_pair(const char *flag, const char *text, char **name, struct str *value,
                       struct error *err)
{
    struct str rest = str_of(text), key = {0};

    if (!strchr(text, '=') || !str_split(&rest, '=', &key) || trim(key).len == 0 ||
        trim(rest).len == 0)
        return error_set(err, ERR_INVALID, "--%s %.64s: write it as NAME=VALUE", flag, text);
    key = trim(key);
    *name = strndup(key.ptr, key.len);
    if (!*name)
        abort();
    *value = trim(rest);
    return true;
}

static bool pairs_to_json(const struct invocation *invocation, struct buf *out, struct error *err)
{
    struct json_writer json = json_begin(out);
    const char *pair;

    json_open(&json, NULL);
    for (size_t i = 0; (pair = invocation_nth(invocation, "payload", i)) != NULL; i++) {
        AUTO_FREE char *name = NULL;
        struct str value = {0};

        if (!split_pair("payload", pair, &name, &value, err))
            return false;
        json_text(&json, name, value);
    }
    json_close(&json);
    return json_end(&json, err);
}

/* Reads FLAG-json or FLAG-file ('-': stdin) into *text, which stays NULL when neither is given. */
static bool read_json_flag(const struct invocation *invocation, const char *flag, char **text,
                           struct error *err)
{
    char as_json[64], as_file[64];

    snprintf(as_json, sizeof as_json, "%s-json", flag);
    snprintf(as_file, sizeof as_file, "%s-file", flag);

    const char *inline_text = invocation_value(invocation, as_json);
    const char *path = invocation_value(invocation, as_file);

    if (inline_text && path)
        return error_set(err, ERR_INVALID, "--%s and --%s exclude each other", as_json, as_file);
    if (inline_text) {
        *text = strdup(inline_text);
        return *text != NULL || (abort(), false);
    }
    return !path || file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path, PAYLOAD_MAX, text, err);
}

/* Checked here, so that the message names the flag and not a path in the request. */
static bool append_json(const struct invocation *invocation, const char *flag, const char *text,
                        struct buf *out, struct error *err)
{
    char as_file[64];

    snprintf(as_file, sizeof as_file, "%s-file", flag);
    return json_canonical(str_of(text), PAYLOAD_MAX, out, err) ||
           error_wrap(err, "--%s-%s", flag, invocation_has(invocation, as_file) ? "file" : "json");
}

bool payload_read(const struct invocation *invocation, struct buf *out, struct error *err)
{
    AUTO_FREE char *text = NULL;

    if (invocation_has(invocation, "payload") &&
        (invocation_has(invocation, "payload-json") || invocation_has(invocation, "payload-file")))
        return error_set(err, ERR_INVALID, "--payload excludes --payload-json and --payload-file");
    if (!read_json_flag(invocation, "payload", &text, err))
        return false;
    return text ? append_json(invocation, "payload", text, out, err)
                : pairs_to_json(invocation, out, err);
}

static bool write_json_flag(const struct invocation *invocation, const char *flag,
                            struct json_writer *json, struct error *err)
{
    AUTO_FREE char *text = NULL;
    AUTO(buf_finish) struct buf value = {.max = PAYLOAD_MAX};

    if (!read_json_flag(invocation, flag, &text, err))
        return false;
    if (!text)
        return true;
    if (!append_json(invocation, flag, text, &value, err))
        return false;
    json_raw(json, flag, buf_str(&value));
    return true;
}

static bool write_number(const struct invocation *invocation, const char *flag, const char *name,
                         struct json_writer *json, struct error *err)
{
    const char *text = invocation_value(invocation, flag);
    char *end;

    if (!text)
        return true;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return error_set(err, ERR_INVALID, "--%s must be a whole number", flag);
    json_int(json, name, value);
    return true;
}

static bool write_duration(const struct invocation *invocation, const char *flag, const char *name,
                           struct json_writer *json, struct error *err)
{
    const char *text = invocation_value(invocation, flag);
    int64_t ms;

    if (!text)
        return true;
    if (!duration_parse(str_of(text), &ms, err))
        return error_wrap(err, "--%s", flag);
    json_string(json, name, text);
    return true;
}

static void write_text(const struct invocation *invocation, const char *flag, const char *name,
                       struct json_writer *json)
{
    const char *text = invocation_value(invocation, flag);

    if (text)
        json_string(json, name, text);
}

static void write_tags(const struct invocation *invocation, struct json_writer *json)
{
    const char *tag;

    if (!invocation_has(invocation, "tag"))
        return;
    json_open_list(json, "tags");
    for (size_t i = 0; (tag = invocation_nth(invocation, "tag", i)) != NULL; i++)
        json_string(json, NULL, tag);
    json_close_list(json);
}

static bool write_secrets(const struct invocation *invocation, struct json_writer *json,
                          struct error *err)
{
    const char *binding;

    if (!invocation_has(invocation, "secret"))
        return true;
    json_open(json, "secrets");
    for (size_t i = 0; (binding = invocation_nth(invocation, "secret", i)) != NULL; i++) {
        AUTO_FREE char *name = NULL;
        struct str value = {0};

        if (!split_pair("secret", binding, &name, &value, err))
            return false;
        if (value.len <= 6 || memcmp(value.ptr, "vault:", 6) != 0)
            return error_set(err, ERR_SECRET_SOURCE,
                             "--secret %s: the only source is vault, as in %s=vault:%s", name, name,
                             name);
        json_text(json, name, value);
    }
    json_close(json);
    return true;
}

/* What the start of a run and that of a session have in common. */
static bool write_start(const struct invocation *invocation, struct json_writer *json,
                        struct error *err)
{
    const char *queue = invocation_value(invocation, "queue");

    if (queue) {
        json_open(json, "queue");
        json_string(json, "name", queue);
        json_close(json);
    }
    write_text(invocation, "concurrency-key", "concurrency_key", json);
    write_tags(invocation, json);
    return write_number(invocation, "priority", "priority", json, err) &&
           write_duration(invocation, "ttl", "ttl", json, err) &&
           write_number(invocation, "max-duration-seconds", "max_duration_seconds", json, err) &&
           write_json_flag(invocation, "metadata", json, err) &&
           write_json_flag(invocation, "retry", json, err);
}

static bool write_run_options(const struct invocation *invocation, struct json_writer *json,
                              struct error *err)
{
    json_open(json, "options");
    write_text(invocation, "deployment", "deployment_id", json);
    write_text(invocation, "idempotency-key", "idempotency_key", json);
    if (!write_duration(invocation, "idempotency-key-ttl", "idempotency_key_ttl", json, err) ||
        !write_start(invocation, json, err))
        return false;
    json_close(json);
    return true;
}

static bool write_session_options(const struct invocation *invocation, struct json_writer *json,
                                  struct error *err)
{
    write_text(invocation, "external-id", "external_id", json);
    write_text(invocation, "workspace", "workspace_id", json);
    write_text(invocation, "expires-at", "expires_at", json);
    return write_start(invocation, json, err);
}

typedef bool write_part(const struct invocation *invocation, struct json_writer *json,
                        struct error *err);

static bool write_body(const struct invocation *invocation, const char *task,
                       write_part *write_options, struct buf *out, struct error *err)
{
    AUTO(buf_finish) struct buf payload = {.max = PAYLOAD_MAX};

    if (!name_check(NAME_ID, "the task", str_of(task), err) ||
        !payload_read(invocation, &payload, err))
        return false;

    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "task_id", task);
    json_raw(&json, "payload", buf_str(&payload));
    if (!write_secrets(invocation, &json, err) || !write_options(invocation, &json, err))
        return false;
    json_close(&json);
    return json_end(&json, err);
}

bool payload_run_body(const struct invocation *invocation, const char *task, struct buf *out,
                      struct error *err)
{
    return write_body(invocation, task, write_run_options, out, err);
}

bool payload_session_body(const struct invocation *invocation, const char *task, struct buf *out,
                          struct error *err)
{
    return write_body(invocation, task, write_session_options, out, err);
}
