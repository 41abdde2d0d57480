/* `helmr logs`: the bytes a run wrote, on the descriptors it wrote them to. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/run_object.h"
#include "cli/scan.h"

struct log_record {
    struct str stream, content;
};

struct log_printer {
    bool as_json;
    struct str last; /* the id to stop at, or empty */
};

static bool print_bytes(struct str base64, int fd, struct error *err)
{
    size_t len = base64_decoded_max(base64.len);
    AUTO_FREE char *bytes = alloc(len + 1);

    if (!base64_decode(base64, bytes, &len))
        return error_set(err, ERR_INTERNAL, "the server sent log bytes that are not base64");
    return fd_write_all(fd, (struct str){bytes, len}, err);
}

static struct str unquote(struct str value)
{
    return value.len >= 2 && value.ptr[0] == '"' ? (struct str){value.ptr + 1, value.len - 2}
                                                 : (struct str){0};
}

/* Scanned, not parsed: a run may write as fast as the wire carries it. */
static bool print_record(struct str data, struct error *err)
{
    struct log_record record = {0};
    struct str key, value;

    while (scan_member(&data, &key, &value)) {
        if (str_equal(key, STR("\"stream\"")))
            record.stream = unquote(value);
        else if (str_equal(key, STR("\"content_base64\"")))
            record.content = unquote(value);
    }
    if (!record.stream.ptr || !record.content.ptr)
        return error_set(err, ERR_INTERNAL, "the server sent a log record without its bytes");
    return print_bytes(record.content,
                       str_equal(record.stream, STR("stderr")) ? STDERR_FILENO : STDOUT_FILENO,
                       err);
}

static bool print_line(struct str data, struct error *err)
{
    return fd_write_all(STDOUT_FILENO, data, err) && fd_write_all(STDOUT_FILENO, STR("\n"), err);
}

static enum follow_verdict take_record(void *arg, const struct sse_event *event, struct error *err)
{
    const struct log_printer *printer = arg;

    if (!(printer->as_json ? print_line(event->data, err) : print_record(event->data, err)))
        return FOLLOW_FAILED;
    return printer->last.len > 0 && str_equal(printer->last, event->id) ? FOLLOW_END : FOLLOW_ON;
}

static bool print_logs(struct api *api, const char *id, int64_t deadline_ms,
                       struct log_printer *printer, struct str *run, struct error *err)
{
    AUTO(follow_finish) struct follow follow;

    fflush(stdout);
    follow_init(&follow, api, api_path(api, "/runs/%s/logs", api_part(api, id)), take_record,
                printer);
    follow.deadline_ms = deadline_ms;
    return run_follow(&follow, id, run, err);
}

bool run_follow_logs(struct api *api, const char *id, int64_t deadline_ms, bool as_json,
                     struct str *run, struct error *err)
{
    struct log_printer printer = {.as_json = as_json};

    if (print_logs(api, id, deadline_ms, &printer, run, err))
        return true;
    if (err->code != ERR_TIMEOUT)
        return false;
    return error_set(err, ERR_TIMEOUT,
                     "run %.40s has not ended in time; it goes on: helmr logs --follow %.40s", id,
                     id);
}

/* Everything up to now: the snapshot says how far that is, the stream has all of it in order. */
static bool print_until_now(struct api *api, const char *id, struct str snapshot, struct error *err)
{
    struct log_printer printer = {.last = output_value(snapshot, "cursor", &api->arena)};
    struct str run;
    int64_t out = 0, errors = 0;

    json_find_int(snapshot, "stdout_bytes", &out);
    json_find_int(snapshot, "stderr_bytes", &errors);
    if (out + errors == 0)
        return true;
    if (output_value(snapshot, "stdout_base64", &api->arena).len == 0 &&
        output_value(snapshot, "stderr_base64", &api->arena).len == 0) {
        fprintf(stderr, "the log of this run is older than the server keeps it\n");
        return true;
    }
    return print_logs(api, id, 0, &printer, &run, err);
}

bool run_logs_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *id = invocation->args[0];
    bool as_json = invocation_has(invocation, "json");
    struct str run, snapshot;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    if (invocation_has(invocation, "follow"))
        return run_follow_logs(&api, id, 0, as_json, &run, err);
    if (!api_send(&api, "GET", api_path(&api, "/runs/%s/logs", api_part(&api, id)), (struct str){0},
                  &snapshot, err))
        return false;
    if (as_json) {
        output_line(snapshot);
        return true;
    }
    return print_until_now(&api, id, snapshot, err);
}
