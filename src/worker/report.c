#include "worker/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/worker.h"

enum { CALL_TIMEOUT_MS = 15 * 1000, EXIT_THROWN = 1, SIGNAL_BASE = 128, LAST_WORDS_MS = 5000 };

void report_fingerprint(const struct json_field *fields, const void *message, char hex[65])
{
    AUTO(buf_finish) struct buf text = {.max = (size_t)2 * WIRE_JSON_MAX};
    struct json_writer writer = json_begin(&text);
    uint8_t digest[BLAKE2B_LEN];
    struct blake2b hash;
    struct error err;

    wire_write(&writer, NULL, fields, message);
    if (!json_end(&writer, &err))
        abort(); /* its parts were bounded when they came */
    blake2b_init(&hash, (struct str){0});
    blake2b_update(&hash, buf_str(&text));
    blake2b_final(&hash, digest);
    hex_encode((struct str){(const char *)digest, sizeof digest}, hex);
}

static struct str details_of(const struct guest_result *result, struct arena *arena)
{
    struct buf text = {.max = KIB(256)};
    struct json_writer writer = json_begin(&text);
    struct str stack = result->has_load_failure ? result->load_stack : result->error_stack;
    struct str issues;
    struct error err;

    json_open(&writer, NULL);
    if (result->error_name.len > 0)
        json_text(&writer, "name", result->error_name);
    if (stack.len > 0)
        json_text(&writer, "stack", stack);
    if (json_find_raw(result->error_details, "issues", arena, &issues))
        json_raw(&writer, "issues", issues);
    if (result->load_file.len > 0)
        json_text(&writer, "file", result->load_file);
    if (result->load_line > 0)
        json_int(&writer, "line", result->load_line);
    /* After an outcome the agent itself ends what is left. */
    if (result->signal > 0 && !result->has_outcome)
        json_int(&writer, "signal", result->signal);
    json_close(&writer);
    struct str kept = json_end(&writer, &err) ? arena_str(arena, buf_str(&text)) : STR("{}");
    buf_finish(&text);
    return kept;
}

static void set_failure(struct wire_complete *message, const char *layer, struct str kind,
                        struct str text, struct str details)
{
    message->outcome = STR("failed");
    message->has_failure = true;
    message->failure = (struct wire_failure){str_of(layer), kind, text, details};
}

/* Why a program that ended without an outcome of its own did so. */
static void judge_exit(struct wire_complete *message, const struct guest_result *result,
                       struct arena *arena)
{
    const char *text;

    if (result->oom) {
        set_failure(message, "guest_runtime", STR("out_of_memory"),
                    STR("the sandbox ran out of memory; raise resources({ memory })"),
                    details_of(result, arena));
        return;
    }
    if (result->had_no_process)
        text = "the sandbox ended: the program had started as many processes as one may have";
    else if (result->signal > 0)
        text = arena_printf(arena, "the task process was killed by signal %d", result->signal);
    else if (result->exit_code == 0)
        text = "the task process exited before its run function settled";
    else
        text = arena_printf(arena, "the task process exited with code %d", result->exit_code);
    message->exit_code = result->signal > 0       ? SIGNAL_BASE + result->signal
                         : result->exit_code == 0 ? EXIT_THROWN
                                                  : result->exit_code;
    set_failure(message, "task_process", STR("task_failed"), str_of(text),
                details_of(result, arena));
}

static void judge_load(struct wire_complete *message, const struct guest_result *result,
                       struct arena *arena)
{
    bool of_image = str_equal(result->load_kind, STR("dependency_missing"));

    message->exit_code = EXIT_THROWN;
    set_failure(message, of_image ? "image_preparation" : "task_process", result->load_kind,
                result->load_message, details_of(result, arena));
}

static void judge_outcome(struct wire_complete *message, const struct guest_result *result,
                          struct arena *arena)
{
    struct str kind = STR("task_failed");

    switch (result->outcome) {
    case OUTCOME_SUCCEEDED:
        message->outcome = STR("succeeded");
        message->output = result->output;
        return;
    case OUTCOME_FAILED: break;
    case OUTCOME_PAYLOAD_INVALID: kind = STR("payload_invalid"); break;
    case OUTCOME_OUTPUT_INVALID: kind = STR("output_invalid"); break;
    }
    bool is_wait = str_equal(result->error_name, STR("WaitTimeoutError"));
    if (is_wait)
        kind = STR("wait_timeout");
    message->exit_code = result->exit_code ? result->exit_code : EXIT_THROWN;
    set_failure(message, is_wait ? "parked_wait" : "task_process", kind,
                result->error_message.len ? result->error_message : STR("the task failed"),
                details_of(result, arena));
}

bool report_succeeds(const struct report *report, const struct guest_result *result)
{
    return !report->was_cancelled && !report->was_timed_out && !result->has_load_failure &&
           result->has_outcome && result->outcome == OUTCOME_SUCCEEDED;
}

/* What it did is lost, so it has not been done. */
static void judge_unsaved(struct wire_complete *message, const struct error *err)
{
    bool is_full = err->sys == ENOSPC || err->sys == EDQUOT || err->code == ERR_TOO_LARGE;

    message->exit_code = EXIT_THROWN;
    message->output = (struct str){0};
    set_failure(message, "guest_runtime", is_full ? STR("disk_full") : STR("mount_failed"),
                str_of(err->text), STR("{}"));
}

/* The first cause that applies decides. */
static void judge(const struct report *report, const struct guest_result *result,
                  struct wire_complete *message, struct arena *arena)
{
    if (report->was_cancelled) {
        message->outcome = STR("cancelled");
        message->exit_code = result->exit_code ? result->exit_code : EXIT_THROWN;
    } else if (report->was_timed_out) {
        message->exit_code = EXIT_THROWN;
        set_failure(message, "timeout", STR("max_duration_exceeded"),
                    str_of(arena_printf(arena, "the run exceeded its maximum duration of %lld s",
                                        (long long)report->max_duration_ms / 1000)),
                    STR("{}"));
    } else if (result->has_load_failure) {
        judge_load(message, result, arena);
    } else if (result->has_outcome) {
        judge_outcome(message, result, arena);
    } else {
        judge_exit(message, result, arena);
    }
    if (report->unsaved && report_succeeds(report, result))
        judge_unsaved(message, report->unsaved);
}

static bool finalize(const struct report *report, struct wire_complete *complete,
                     struct arena *arena, struct error *err)
{
    struct wire_finalize message = {complete->fence, complete->operation_id, complete->outcome,
                                    complete->fingerprint};
    struct wire_finalize_answer answer;
    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/finalize", report->lease->id),
        .request_fields = wire_finalize_fields,
        .request = &message,
        ANSWER(wire_finalize_answer_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    return line_insist(report->line, &exchange, lease_look(report->lease).fence_ms, arena, err);
}

static struct wire_complete message_of(const struct report *report)
{
    return (struct wire_complete){
        .active_ms = report->active_ms,
        .stdout_end = report->stdout_end,
        .stderr_end = report->stderr_end,
        .operation_id = str_of(report->operation),
    };
}

static bool complete(const struct report *report, struct wire_complete *message,
                     struct arena *arena, struct error *err)
{
    struct lease *lease = report->lease;
    char fingerprint[65];
    struct wire_completed answer;

    message->fingerprint = message->fence.lease_id = STR("");
    report_fingerprint(wire_complete_fields, message, fingerprint);
    message->fingerprint = str_of(fingerprint);
    message->fence =
        (struct wire_fence){lease->worker->link.epoch, lease->sequence, str_of(lease->id)};
    message->has_version = report->capture.has_version;
    message->version = report->capture.version;

    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/complete", lease->id),
        .request_fields = wire_complete_fields,
        .request = message,
        ANSWER(wire_completed_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    return finalize(report, message, arena, err) &&
           line_insist(report->line, &exchange, lease_look(lease).fence_ms, arena, err);
}

bool report_complete(const struct report *report, const struct guest_result *result,
                     struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct wire_complete message = message_of(report);

    judge(report, result, &message, &arena);
    return complete(report, &message, &arena, err);
}

bool report_failed(const struct report *report, const struct failure *failure, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct wire_complete message = message_of(report);

    message.exit_code = EXIT_THROWN;
    set_failure(&message, failure->layer, str_of(failure->kind), str_of(failure->text), STR("{}"));
    return complete(report, &message, &arena, err);
}

static void reject(struct lease *lease, struct line *line, const struct failure *failure,
                   struct arena *arena)
{
    struct wire_reject message = {
        .fence = {lease->worker->link.epoch, lease->sequence, str_of(lease->id)},
        .layer = str_of(failure->layer ? failure->layer : "guest_runtime"),
        .failure_kind = str_of(failure->kind ? failure->kind : "boot_failed"),
        .code = failure->code ? str_of(failure->code) : (struct str){0},
        .stage = str_of(failure->stage ? failure->stage : "start"),
        .text = str_of(failure->text),
        .retryable = failure->retryable,
    };
    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/reject", lease->id),
        .request_fields = wire_reject_fields,
        .request = &message,
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    struct error err;

    if (!line_insist(line, &exchange, time_boot_ms() + LAST_WORDS_MS, arena, &err))
        log_warn("lease not rejected", LOG_STR("lease", lease->id), LOG_ERR(&err));
}

static void release(struct lease *lease, struct line *line, const char *reason, struct arena *arena)
{
    struct wire_release message = {
        .fence = {lease->worker->link.epoch, lease->sequence, str_of(lease->id)},
        .reason = str_of(reason),
    };
    const struct exchange exchange = {
        .route = arena_printf(arena, "leases/%s/release", lease->id),
        .request_fields = wire_release_fields,
        .request = &message,
        .timeout_ms = CALL_TIMEOUT_MS,
    };
    struct error err;

    if (!line_insist(line, &exchange, time_boot_ms() + LAST_WORDS_MS, arena, &err))
        log_warn("lease not released", LOG_STR("lease", lease->id), LOG_ERR(&err));
}

void report_failure(struct lease *lease, struct line *line, const struct failure *failure,
                    bool is_started, const struct error *why)
{
    AUTO(arena_finish) struct arena arena = {0};

    if (lease_look(lease).is_stale || why->code == ERR_LEASE_STALE || lease->worker->fenced)
        return;
    if (is_started)
        release(lease, line, why->text, &arena);
    else
        reject(lease, line, failure, &arena);
}
