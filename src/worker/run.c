/* A run, from lease to acknowledged result: one thread, one straight line.
 *
 * User code is released only after the server has recorded the start, and a result is
 * reported only after the agent has proved that nothing of the program is left. */
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/place.h"
#include "worker/prepare.h"
#include "worker/report.h"
#include "worker/run.h"
#include "worker/standby.h"
#include "worker/template.h"
#include "worker/worker.h"

enum {
    CAPTURE_MS = 10 * 60 * 1000,
    CAPTURE_FAILED_MS = 60 * 1000,
    PLACE_MS = 10 * 60 * 1000,
};

void run_end_phase(struct run *run, const char *step)
{
    int64_t now = time_boot_ms();

    if (run->n_phases < RUN_PHASES_MAX)
        run->phases[run->n_phases++] = (struct wire_phase){str_of(step), now - run->phase_ms};
    run->phase_ms = now;
}

struct wire_fence run_fence(const struct run *run)
{
    return (struct wire_fence){run->worker->link.epoch, run->lease->sequence,
                               str_of(run->lease->id)};
}

static bool take_output(void *arg, enum guest_stream stream, struct str bytes)
{
    struct run *run = arg;

    return output_add(run->output, stream == GUEST_STDOUT ? OUTPUT_STDOUT : OUTPUT_STDERR, bytes);
}

static void take_log(void *arg, const struct message_log *log)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    AUTO(buf_finish) struct buf text = {.max = KIB(256)};
    struct run *run = arg;
    struct json_writer writer = json_begin(&text);
    struct error err;

    json_open(&writer, NULL);
    json_string(&writer, "level", levels[log->level & 3]);
    json_text(&writer, "message", log->message);
    if (log->attributes.len > 0)
        json_raw(&writer, "attributes", log->attributes);
    json_close(&writer);
    if (json_end(&writer, &err))
        output_event(run->output, "run.log", buf_str(&text));
}

static bool begin(struct run *run, struct error *err)
{
    struct wire_begin message = {run_fence(run)};
    struct wire_begun answer = {0};
    const struct exchange exchange = {
        .route = arena_printf(&run->arena, "leases/%s/begin", run->lease->id),
        .request_fields = wire_begin_fields,
        .request = &message,
        ANSWER(wire_begun_fields, answer),
        .timeout_ms = RUN_CALL_MS,
        .is_secret = true,
    };

    if (!line_insist(&run->line, &exchange, lease_look(run->lease).fence_ms, &run->arena, err))
        return false;
    run_secrets_keep(&run->secrets, run->lease, &answer.secrets);
    return true;
}

bool run_pass_gate(struct run *run, struct error *err)
{
    struct wire_start message = {
        .fence = run_fence(run),
        .engine = str_of(run->worker->engine->name),
        .grade = str_of(engine_grade_name(run->worker->engine->grade)),
        .accelerated = run->worker->accelerated,
        .start = str_of(run->start),
        .level = run->level ? str_of(run->level) : (struct str){0},
        .start_ms = time_boot_ms() - run->begun_ms,
        .phases = {run->phases, run->n_phases},
    };
    struct wire_lease_times times = {0};
    const struct exchange exchange = {
        .route = arena_printf(&run->arena, "leases/%s/start", run->lease->id),
        .request_fields = wire_start_fields,
        .request = &message,
        ANSWER(wire_lease_times_fields, times),
        .timeout_ms = RUN_CALL_MS,
    };

    if (!line_insist(&run->line, &exchange, lease_look(run->lease).fence_ms, &run->arena, err))
        return false;
    run->is_started = true;
    run->started_ms = time_boot_ms();
    lease_set_expiry(run->lease, times.expires_ms);
    lease_set_stage(run->lease, LEASE_RUNNING);
    return true;
}

/* b: just the module that this run needs has been imported. */
static const char *level_of(const struct run *run)
{
    const char *module = guest_preloaded(run->guest);

    return module && str_equal(str_of(module), run->grant->task.module) ? "b" : "a";
}

/* Taken ready-made where one of this kind stands by, else copied where there is a template. */
static bool take_guest(struct run *run, const struct standby_kind *kind, struct error *err)
{
    const struct guest_listener listener = {take_output, take_log, run};

    run->start = "standby";
    run->guest = standby_take(run->worker->standby, kind);
    if (!run->guest) {
        run->start = "template";
        run->guest = standby_copy(run->worker->standby, kind, &run->failure);
    }
    if (!run->guest)
        return false;
    if (guest_adopt(run->guest, run->lease, &listener, &run->failure, err) &&
        output_create(run->lease, guest_room(run->guest), &run->output, err) &&
        template_wake(run->guest, run->spec.network != NETWORK_OFF, err)) {
        run->level = level_of(run);
        run_end_phase(run, "boot");
        return true;
    }
    /* It died while it stood by: as if there had been none. */
    output_destroy(TAKE(run->output));
    guest_stop(TAKE(run->guest));
    return false;
}

static bool start_guest(struct run *run, struct error *err)
{
    static const char *const argv[] = {"node", "/opt/helmr/adapter/main.js", NULL};
    struct guest_setup setup = {
        .spec = &run->spec,
        .config = &run->image.config,
        .mount = arena_text(&run->arena, run->grant->sandbox.mount_path),
        .shows_platform = true,
    };
    const struct guest_program program = {
        .kind = PROGRAM_TASK,
        .argv = argv,
        .listener = {take_output, take_log, run},
    };

    run->start = "boot";
    run->spec.deadline_ms = time_boot_ms() + engine_start_ms(run->worker->engine);
    if (!guest_start(run->worker, run->lease, &run->spec, &run->failure, &run->guest, err))
        return false;
    run_end_phase(run, "boot");
    if (!output_create(run->lease, guest_room(run->guest), &run->output, err))
        return failure_set(&run->failure, "guest_runtime", "agent_unhealthy", "setup", true, "%s",
                           err->text);
    if (!guest_set_up(run->guest, &setup, err))
        return false;
    run_end_phase(run, "workspace");
    if (!guest_launch(run->guest, &program, err))
        return false;
    run_end_phase(run, "adapter");
    return true;
}

bool run_restore(struct run *run, const struct saved_image *image, struct error *err)
{
    const struct guest_listener listener = {take_output, take_log, run};

    memcpy(run->spec.id, run->lease->instance_id, ID_TEXT);
    run->spec.deadline_ms = time_boot_ms() + engine_start_ms(run->worker->engine);
    if (!guest_restore(run->worker, run->lease, &run->spec, image, &listener, &run->failure,
                       &run->guest, err))
        return false;
    if (run->output)
        output_set_room(run->output, guest_room(run->guest));
    else if (!output_create(run->lease, guest_room(run->guest), &run->output, err))
        return failure_set(&run->failure, "guest_runtime", "agent_unhealthy", "setup", true, "%s",
                           err->text);
    return true;
}

void run_end_guest(struct run *run)
{
    /* It must not signal to a descriptor that is closed, or is another's by now. */
    if (run->output)
        output_set_room(run->output, -1);
    guest_stop(TAKE(run->guest));
    lease_renew_instance(run->lease);
}

static bool release(struct run *run, struct error *err)
{
    const struct wire_run_grant *grant = run->grant;
    struct message_a_start start = {
        .mode = STR("run"),
        .run_id = grant->run_id,
        .attempt = (uint32_t)grant->attempt,
        .attempt_id = grant->attempt_id,
        .lease_id = str_of(run->lease->id),
        .session_id = grant->session_id,
        .task_id = grant->task.id,
        .module = grant->task.module,
        .export = grant->task.export_name,
        .deployment_id = grant->deployment.id,
        .deployment_version = grant->deployment.version,
        .workspace_id = grant->workspace_id,
        .workspace_path = grant->sandbox.mount_path,
        .options = guest_options(&run->image.config, &run->arena),
    };

    return guest_release(run->guest, &start, grant->payload, err);
}

/* Before a result is believed what it left behind is safe; of a failure only as far as may be. */
static bool capture(struct run *run, const struct guest_result *result, struct report *report,
                    struct error *why)
{
    bool succeeds = report_succeeds(report, result);
    int64_t until = time_boot_ms() + (succeeds ? CAPTURE_MS : CAPTURE_FAILED_MS);

    if (!guest_can_capture(run->guest) ||
        capture_workspace(run->guest, run->lease, &run->line, run_has_base(run), until, &run->arena,
                          &report->capture, why))
        return true;
    log_warn("workspace not captured", LOG_STR("lease", run->lease->id), LOG_ERR(why));
    report->unsaved = why;
    return !succeeds || (why->code != ERR_CANCELLED && why->code != ERR_LEASE_STALE);
}

/* The end of a stream is only known when nothing of it is held back any more. */
static bool prepare_report(struct run *run, struct report *report, struct error *err)
{
    lease_set_stage(run->lease, LEASE_ENDING);
    if (!output_flush(run->output, err))
        return false;
    *report = (struct report){
        .lease = run->lease,
        .line = &run->line,
        .active_ms = run_active_ms(run),
        .stdout_end = output_end(run->output, OUTPUT_STDOUT),
        .stderr_end = output_end(run->output, OUTPUT_STDERR),
        .was_cancelled = guest_was_cancelled(run->guest),
        .was_timed_out = guest_was_timed_out(run->guest),
        .max_duration_ms = run->grant->max_duration_ms,
    };
    id_make(report->operation);
    return true;
}

static bool report_result(struct run *run, struct guest_result *result, struct error *err)
{
    struct report report;
    struct error why;

    run_secrets_hide(run->redactor, result, &run->arena);
    run_refuse_snapshots(run, "the run is ending");
    if (!prepare_report(run, &report, err))
        return false;
    for (bool is_again = false;; is_again = true) {
        if (!capture(run, result, &report, &why)) {
            *err = why;
            return false;
        }
        if (report_complete(&report, result, err))
            return true;
        /* Collected before the result could name it: everything is stored anew, once. */
        if (is_again || err->code != ERR_OBJECT_GONE || !report.capture.has_version)
            return false;
        guest_set_base(run->guest, NULL, NULL);
    }
}

/* Between the start that is recorded and the release something was found that stays so: delivered
 * again it would only be found again. */
static bool report_unready(struct run *run, struct error *err)
{
    const struct failure *failure = &run->failure;
    struct report report;
    struct error other;

    if (!run->is_started || !failure->kind || failure->retryable ||
        !prepare_report(run, &report, &other))
        return false;
    return report_failed(&report, failure, err);
}

/* Into a sandbox that waits at the gate, whoever made it; no code of a user runs there yet. */
static bool send_secrets(struct run *run, struct error *err)
{
    struct redactor *former = run->redactor, *found = NULL;
    bool is_sent = run_secrets_send(&run->secrets, run->lease, &run->line, run->guest,
                                    &run->failure, &found, err);

    if (!found)
        return is_sent;
    run->redactor = found;
    output_redact(run->output, found);
    redactor_destroy(former);
    return is_sent;
}

static bool await_secrets(struct run *run, struct error *err)
{
    return !run->redactor || guest_await_secrets(run->guest, err);
}

bool run_give_secrets(struct run *run, struct error *err)
{
    if (!send_secrets(run, err) || !await_secrets(run, err))
        return false;
    if (run->redactor)
        run_end_phase(run, "secrets");
    return true;
}

/* A workspace that was used before goes on from the version it has. What is damaged stays so. */
static bool place_files(struct run *run, struct error *err)
{
    const char *manifest = arena_text(&run->arena, run->grant->base_manifest);

    if (!run_has_base(run))
        return true;
    if (!place_version(run->guest, run->lease, &run->line, manifest, time_boot_ms() + PLACE_MS,
                       err)) {
        bool may_pass = err->code != ERR_DAMAGED && err->code != ERR_UNPROCESSABLE;
        return failure_set(&run->failure, "guest_runtime", "mount_failed", "workspace", may_pass,
                           "the workspace's files: %s", err->text);
    }
    run_end_phase(run, "workspace");
    return true;
}

/* From nothing to the moment user code runs. */
static bool start_fresh(struct run *run, struct error *err)
{
    const struct wire_task *task = &run->grant->task;
    /* A module may be in the workspace's own node_modules. */
    bool is_preloaded = task->preload && !run_has_base(run);
    const struct standby_kind kind = {
        .spec = &run->spec,
        .config = &run->image.config,
        .mount = arena_text(&run->arena, run->grant->sandbox.mount_path),
        .module = is_preloaded ? arena_text(&run->arena, task->module) : NULL,
    };

    if ((!take_guest(run, &kind, err) && !start_guest(run, err)) || !place_files(run, err) ||
        !send_secrets(run, err))
        return false;
    if (run->redactor)
        run_end_phase(run, "secrets");
    /* While the sandbox places them. */
    if (!run_pass_gate(run, err))
        return failure_set(&run->failure, "guest_runtime", "agent_unhealthy", "start", true, "%s",
                           err->text);
    if (!await_secrets(run, err) || !release(run, err))
        return false;
    standby_want(run->worker->standby, &kind);
    warm_note(&run->worker->warm, WARM_TEMPLATES, run->grant->deployment.bundle.digest);
    warm_note(&run->worker->warm, WARM_DRIVES, run->grant->sandbox.image);
    run_count(run, true);
    return true;
}

static bool execute(struct run *run, struct error *err)
{
    struct guest_result result;

    const struct sandbox_wish wish = {
        .kind = "run",
        .project = run->grant->project,
        .sandbox = &run->grant->sandbox,
        .deployment = &run->grant->deployment,
    };

    prepare_spec(run->lease, &wish, &run->arena, &run->spec);
    if (!begin(run, err))
        return failure_set(&run->failure, "guest_runtime", "agent_unhealthy", "begin", true, "%s",
                           err->text);
    if (!prepare_files(run->lease, &run->line, &wish, &run->arena, &run->spec, &run->image,
                       &run->failure, err))
        return false;
    run_end_phase(run, "image");
    bool goes_on = run->lease->grant.has_resume ? run_come_back(run, err) : start_fresh(run, err);
    if (!goes_on)
        return report_unready(run, err);
    return run_attend(run, &result, err) && (run->is_parked || report_result(run, &result, err));
}

void *run_main(void *arg)
{
    struct lease *lease = arg;
    struct run run = {
        .lease = lease,
        .worker = lease->worker,
        .grant = &lease->grant.run,
        .start = "boot",
        .begun_ms = time_boot_ms(),
        .phase_ms = time_boot_ms(),
    };
    struct error err;

    if (!line_open(&lease->worker->link, &run.line, &err)) {
        log_error("no line to the server", LOG_ERR(&err));
        lease_done(lease);
        return NULL;
    }
    bool is_reported = execute(&run, &err);
    output_destroy(run.output);
    guest_stop(run.guest);
    redactor_destroy(run.redactor);
    run_secrets_finish(&run.secrets);
    /* Only now: told earlier, another worker could begin while this sandbox still lives. */
    if (!is_reported) {
        log_info("run not completed here", LOG_STR("lease", lease->id),
                 LOG_STR("kind", run.failure.kind ? run.failure.kind : "?"), LOG_ERR(&err));
        report_failure(lease, &run.line, &run.failure, run.is_started, &err);
    }
    line_close(&run.line);
    arena_finish(&run.parent.arena);
    arena_finish(&run.arena);
    lease_done(lease);
    return NULL;
}
