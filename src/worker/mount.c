/* A mount, from lease to its end: one thread, one straight line, as a run.
 *
 * The sandbox is started as a run's is, without a task in it. Then the thread does what the
 * server's messages say until it is told to end, nobody has wanted anything for a while, or the
 * worker has to go; what changed becomes a version before the end is told. */
#include "worker/mount.h"

#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "protocol/worker_api_mount.h"
#include "worker/capture.h"
#include "worker/guest_state.h"
#include "worker/place.h"
#include "worker/prepare.h"
#include "worker/relay.h"
#include "worker/report.h"
#include "worker/standby.h"
#include "worker/template.h"
#include "worker/worker.h"

enum {
    CALL_MS = 15 * 1000,
    CAPTURE_MS = 10 * 60 * 1000,
    PLACE_MS = 10 * 60 * 1000,
    STOP_GRACE_MS = 5 * 1000, /* when the worker itself has to go */
    EMPTY_MS = 20 * 1000,     /* beyond the grace */
};

struct wire_fence mount_fence(const struct mount *mount)
{
    return (struct wire_fence){mount->worker->link.epoch, mount->lease->sequence,
                               str_of(mount->lease->id)};
}

static void end_phase(struct mount *mount, const char *step)
{
    int64_t now = time_boot_ms();

    if (mount->n_phases < MOUNT_PHASES_MAX)
        mount->phases[mount->n_phases++] = (struct wire_phase){str_of(step), now - mount->phase_ms};
    mount->phase_ms = now;
}

static bool call(struct mount *mount, const char *verb, const struct json_field *fields,
                 const void *message, struct error *err)
{
    const struct exchange exchange = {
        .route = arena_printf(&mount->arena, "leases/%s/%s", mount->lease->id, verb),
        .request_fields = fields,
        .request = message,
        .timeout_ms = CALL_MS,
    };

    return line_insist(&mount->line, &exchange, lease_look(mount->lease).fence_ms, &mount->arena,
                       err);
}

static bool begin(struct mount *mount, struct error *err)
{
    const struct wire_begin message = {mount_fence(mount)};
    struct wire_begun answer = {0};
    const struct exchange exchange = {
        .route = arena_printf(&mount->arena, "leases/%s/begin", mount->lease->id),
        .request_fields = wire_begin_fields,
        .request = &message,
        ANSWER(wire_begun_fields, answer),
        .timeout_ms = CALL_MS,
    };

    return line_insist(&mount->line, &exchange, lease_look(mount->lease).fence_ms, &mount->arena,
                       err) ||
           failure_set(&mount->failure, "guest_runtime", "agent_unhealthy", "begin", true, "%s",
                       err->text);
}

/* Told before the files are placed: from here on the server knows what the mount runs on. */
static bool tell_start(struct mount *mount, struct error *err)
{
    const struct wire_start message = {
        .fence = mount_fence(mount),
        .engine = str_of(mount->worker->engine->name),
        .grade = str_of(engine_grade_name(mount->worker->engine->grade)),
        .accelerated = mount->worker->accelerated,
        .start = str_of(mount->start),
        .start_ms = time_boot_ms() - mount->begun_ms,
        .phases = {mount->phases, mount->n_phases},
    };
    struct wire_lease_times times = {0};
    const struct exchange exchange = {
        .route = arena_printf(&mount->arena, "leases/%s/start", mount->lease->id),
        .request_fields = wire_start_fields,
        .request = &message,
        ANSWER(wire_lease_times_fields, times),
        .timeout_ms = CALL_MS,
    };

    if (!line_insist(&mount->line, &exchange, lease_look(mount->lease).fence_ms, &mount->arena,
                     err))
        return failure_set(&mount->failure, "guest_runtime", "agent_unhealthy", "start", true, "%s",
                           err->text);
    mount->is_started = true;
    lease_set_expiry(mount->lease, times.expires_ms);
    lease_set_stage(mount->lease, LEASE_RUNNING);
    return true;
}

static bool drop_output(void *arg UNUSED, enum guest_stream stream UNUSED, struct str bytes UNUSED)
{
    return true;
}

/* One that stands by for runs will do when its Node has gone. */
static bool take_guest(struct mount *mount, struct error *err)
{
    const struct guest_listener listener = {drop_output, NULL, mount};
    const struct standby_kind kind = {
        .spec = &mount->spec,
        .config = &mount->image.config,
        .mount = arena_text(&mount->arena, mount->grant->sandbox.mount_path),
    };

    mount->start = "standby";
    mount->guest = standby_take(mount->worker->standby, &kind);
    if (!mount->guest) {
        mount->start = "template";
        mount->guest = standby_copy(mount->worker->standby, &kind, &mount->failure);
    }
    if (!mount->guest)
        return false;
    if (guest_adopt(mount->guest, mount->lease, &listener, &mount->failure, err) &&
        template_wake(mount->guest, mount->spec.network != NETWORK_OFF, err) &&
        guest_dismiss(mount->guest, err))
        return true;
    guest_stop(TAKE(mount->guest));
    mount->failure = (struct failure){0};
    return false;
}

/* No task runs in it: an image without Node will do. */
static bool start_guest(struct mount *mount, struct error *err)
{
    const struct guest_setup setup = {
        .spec = &mount->spec,
        .config = &mount->image.config,
        .mount = arena_text(&mount->arena, mount->grant->sandbox.mount_path),
        .shows_platform = true,
    };

    mount->start = "boot";
    mount->spec.deadline_ms = time_boot_ms() + engine_start_ms(mount->worker->engine);
    return guest_start(mount->worker, mount->lease, &mount->spec, &mount->failure, &mount->guest,
                       err) &&
           guest_set_up(mount->guest, &setup, err);
}

static bool has_base(const struct mount *mount)
{
    return mount->grant->base_manifest.len > 0;
}

static bool place_files(struct mount *mount, struct error *err)
{
    const char *manifest = arena_text(&mount->arena, mount->grant->base_manifest);

    if (!has_base(mount) || place_version(mount->guest, mount->lease, &mount->line, manifest,
                                          time_boot_ms() + PLACE_MS, err))
        return true;
    bool may_pass = err->code != ERR_DAMAGED && err->code != ERR_UNPROCESSABLE;
    return failure_set(&mount->failure, "guest_runtime", "mount_failed", "workspace", may_pass,
                       "the workspace's files: %s", err->text);
}

static bool mount_start(struct mount *mount, struct error *err)
{
    const struct sandbox_wish wish = {
        .kind = "mount",
        .project = mount->grant->project,
        .sandbox = &mount->grant->sandbox,
        .deployment = &mount->grant->deployment,
    };

    prepare_spec(mount->lease, &wish, &mount->arena, &mount->spec);
    if (!begin(mount, err) || !prepare_files(mount->lease, &mount->line, &wish, &mount->arena,
                                             &mount->spec, &mount->image, &mount->failure, err))
        return false;
    end_phase(mount, "image");
    if (!take_guest(mount, err) && !start_guest(mount, err))
        return false;
    end_phase(mount, "boot");
    if (!place_files(mount, err) || !tell_start(mount, err))
        return false;
    if (mount_output_create(mount->lease, guest_room(mount->guest), &mount->output, err))
        return true;
    return failure_set(&mount->failure, "guest_runtime", "agent_unhealthy", "setup", true, "%s",
                       err->text);
}

static void end_wanted(struct mount *mount, const char *reason, bool wants_version)
{
    if (!mount->is_ending)
        log_info("mount ends", LOG_STR("lease", mount->lease->id), LOG_STR("reason", reason));
    else
        return;
    mount->is_ending = true;
    mount->reason = reason;
    mount->wants_version = wants_version;
}

static void take_stop(struct mount *mount, const struct wire_message *message)
{
    end_wanted(mount, "stopped", message->capture);
}

static void take_relay(struct mount *mount, const struct wire_message *message)
{
    relay_open(mount->guest, message->name);
}

static void take_snapshot_wish(struct mount *mount, const struct wire_message *message)
{
    snapshot_wish(&mount->snapshots, message);
}

static const struct {
    const char *type;
    void (*take)(struct mount *mount, const struct wire_message *message);
} messages[] = {
    {"process_start",       mount_process_start      },
    {"process_input",       mount_process_input      },
    {"process_input_close", mount_process_input_close},
    {"process_resize",      mount_process_resize     },
    {"process_signal",      mount_process_signal     },
    {"process_close",       mount_process_close      },
    {"mount_stop",          take_stop                },
    {"relay_open",          take_relay               },
    {"file_request",        mount_file_request       },
    {SNAPSHOT_MESSAGE,      take_snapshot_wish       },
};

static void take_mail(struct mount *mount)
{
    struct mail *mail;

    while ((mail = mail_take(mount->lease))) {
        size_t i = 0;
        while (i < COUNT_OF(messages) && strcmp(messages[i].type, mail->type) != 0)
            i++;
        if (i < COUNT_OF(messages))
            messages[i].take(mount, &mail->message);
        else
            log_warn("unknown message", LOG_STR("type", mail->type));
        mount->touched_ms = time_boot_ms();
        mail_free(mail);
    }
}

static struct snapshot_source source_of(struct mount *mount)
{
    return (struct snapshot_source){mount->guest, mount->lease, &mount->line, has_base(mount)};
}

/* For all who have asked by now. Programs that came meanwhile begin after it. */
static bool take_snapshot(struct mount *mount, struct error *err)
{
    const struct snapshot_source source = source_of(mount);

    if (mount->snapshots.n == 0)
        return true;
    if (!snapshot_take(&mount->snapshots, &source, err))
        return false;
    mount_start_waiting(mount);
    return true;
}

static bool is_idle(const struct mount *mount)
{
    return mount->n_processes == 0 && relay_count(mount->guest) == 0;
}

/* A drain waits for what runs; a stop of the worker does not. */
static void look_for_end(struct mount *mount)
{
    struct lease_view view = lease_look(mount->lease);
    bool is_due = time_boot_ms() - mount->touched_ms >= mount->grant->idle_ms;

    if (view.has_lost_mail)
        end_wanted(mount, "more was asked of it at once than it could take", true);
    else if (view.stop_wanted || (is_idle(mount) && view.park_wanted))
        end_wanted(mount, "drained", true);
    else if (is_idle(mount) && is_due)
        end_wanted(mount, "idle", true);
}

static bool attend(struct mount *mount, struct error *err)
{
    const struct wire_mount_ready ready = {mount_fence(mount), mount->grant->generation};

    if (!call(mount, "mount/ready", wire_mount_ready_fields, &ready, err))
        return false;
    mount->touched_ms = time_boot_ms();
    /* Mail may have come before it was ready: nobody wakes for that again. */
    for (;;) {
        take_mail(mount);
        look_for_end(mount);
        if (mount->is_ending)
            return true;
        if (!take_snapshot(mount, err))
            return false;
        int64_t until = is_idle(mount) ? mount->touched_ms + mount->grant->idle_ms : INT64_MAX;
        if (!guest_attend(mount->guest, until, err))
            return false;
    }
}

/* Every program is told to end, and the agent proves that nothing is left. */
static bool empty(struct mount *mount, struct error *err)
{
    bool is_hurried = lease_look(mount->lease).stop_wanted;
    int64_t grace = is_hurried ? STOP_GRACE_MS : MOUNT_GRACE_MS;
    struct guest *guest = mount->guest;
    const struct message_kill message = {++guest->number, 0, (uint64_t)grace};

    mount_refuse_waiting(mount, "the workspace is being unmounted");
    mount->is_empty = false;
    if (!guest_send(guest, MESSAGE_KILL, &message, err) ||
        !guest_wait_for(guest, &mount->is_empty, guest_until(guest, grace + EMPTY_MS), err))
        return guest_fail(guest, "mount", "agent_unhealthy", err);
    return mount_output_flush(mount->output, err);
}

static bool tell_version(struct mount *mount, const struct capture *capture, const char *operation,
                         struct error *err)
{
    char fingerprint[65];
    struct wire_mount_version message = {
        .operation_id = str_of(operation),
        .has_version = capture->has_version,
        .version = capture->version,
    };

    report_fingerprint(wire_mount_version_fields, &message, fingerprint);
    message.fence = mount_fence(mount);
    message.fingerprint = str_of(fingerprint);
    return call(mount, "mount/version", wire_mount_version_fields, &message, err);
}

static bool keep_version(struct mount *mount, struct error *err)
{
    struct capture capture = {0};
    char operation[ID_TEXT];

    for (bool is_again = false;; is_again = true) {
        id_make(operation);
        if (!capture_workspace(mount->guest, mount->lease, &mount->line, has_base(mount),
                               time_boot_ms() + CAPTURE_MS, &mount->arena, &capture, err))
            return false;
        if (tell_version(mount, &capture, operation, err))
            return true;
        /* Collected before the version could name it: everything is stored anew, once. */
        if (is_again || err->code != ERR_OBJECT_GONE || !capture.has_version)
            return false;
        guest_set_base(mount->guest, NULL, NULL);
    }
}

static bool finish(struct mount *mount, struct error *err)
{
    const struct wire_mount_closed closed = {mount_fence(mount), str_of(mount->reason)};
    const struct snapshot_source source = source_of(mount);

    snapshot_refuse(&mount->snapshots, &source, "the workspace is being unmounted");
    if (!empty(mount, err))
        return false;
    lease_set_stage(mount->lease, LEASE_ENDING);
    if (mount->wants_version && guest_can_capture(mount->guest) && !keep_version(mount, err))
        return false;
    /* Before the server may give the workspace to the next one. */
    mount_output_destroy(TAKE(mount->output));
    guest_stop(TAKE(mount->guest));
    return call(mount, "mount/closed", wire_mount_closed_fields, &closed, err);
}

/* The server should know what became of the programs, as far as anybody does. */
static void tell_loss(struct mount *mount, const struct error *err)
{
    struct instance_usage usage;
    struct error ignored;
    bool has_starved = err->code == ERR_GONE && mount->guest && mount->guest->instance &&
                       instance_usage(mount->guest->instance, &usage, &ignored) && usage.oom_killed;

    if (!mount->output)
        return;
    if (has_starved)
        failure_set(&mount->failure, "guest_runtime", "out_of_memory", "mount", false,
                    "the sandbox has no more memory");
    mount_processes_lost(mount, has_starved ? "killed: the sandbox has no more memory"
                                            : "the sandbox is gone");
    (void)!mount_output_flush(mount->output, &ignored);
}

static bool serve(struct mount *mount, struct error *err)
{
    mount->server =
        (struct guest_server){mount_hears, mount_gets_data, mount_pumps, mount_has_room, mount};
    guest_serve(mount->guest, &mount->server);
    guest_outlive_stop(mount->guest, true);
    return attend(mount, err) && finish(mount, err);
}

void *mount_main(void *arg)
{
    struct lease *lease = arg;
    struct mount mount = {
        .lease = lease,
        .worker = lease->worker,
        .grant = &lease->grant.mount,
        .start = "boot",
        .begun_ms = time_boot_ms(),
        .phase_ms = time_boot_ms(),
    };
    struct error err;

    if (!line_open(&lease->worker->link, &mount.line, &err)) {
        log_error("no line to the server", LOG_ERR(&err));
        lease_done(lease);
        return NULL;
    }
    bool is_closed = mount_start(&mount, &err) && serve(&mount, &err);
    if (!is_closed && err.code != ERR_LEASE_STALE)
        tell_loss(&mount, &err);
    mount_output_destroy(mount.output);
    guest_stop(mount.guest);
    mount_processes_free(&mount);
    /* Only now: told earlier, another worker could begin while this sandbox still lives. */
    if (!is_closed) {
        log_info("mount not closed", LOG_STR("lease", lease->id),
                 LOG_STR("kind", mount.failure.kind ? mount.failure.kind : "?"), LOG_ERR(&err));
        report_failure(lease, &mount.line, &mount.failure, mount.is_started, &err);
    }
    line_close(&mount.line);
    arena_finish(&mount.arena);
    lease_done(lease);
    return NULL;
}
