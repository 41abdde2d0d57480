#include "worker/guest.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "image/image.h"
#include "worker/guest_state.h"
#include "worker/relay.h"
#include "worker/template.h"
#include "worker/worker.h"

enum {
    PING_MOST_MS = 5000,
    PINGS = 6,              /* in the life of a lease: a guest must hear that it goes on */
    SILENCE_MS = 15 * 1000, /* without a PONG: the agent is not healthy */
    SET_UP_MS = 30 * 1000,
    LAUNCH_MS = 60 * 1000,
    LIMIT_GRACE_MS = 5 * 1000,
    KILL_MS = 20 * 1000, /* from the kill to the proof that nothing is left */
    STANDBY_MS = 60 * 1000,
    SHUTDOWN_MS = 2 * 1000,
    SLOWNESS = 6,              /* of a machine whose instructions are translated, on a busy host */
    SECRETS_PIECE = 32 * 1024, /* of values that are sent together */
    ABORT_MS = 250,            /* between two looks at a program's abort */
};

bool failure_set(struct failure *failure, const char *layer, const char *kind, const char *stage,
                 bool retryable, const char *fmt, ...)
{
    va_list args;

    failure->layer = layer;
    failure->kind = kind;
    failure->stage = stage;
    failure->retryable = retryable;
    va_start(args, fmt);
    vsnprintf(failure->text, sizeof failure->text, fmt, args);
    va_end(args);
    return false;
}

bool guest_send(struct guest *guest, enum message_type type, const void *message, struct error *err)
{
    if (guest->is_broken) {
        *err = guest->broken;
        return false;
    }
    if (!channel_send(&guest->channel, type, message, err))
        return false;
    guest_flush(guest);
    return true;
}

static void clear_eventfd(int fd)
{
    eventfd_t ignored;

    if (eventfd_read(fd, &ignored) != 0)
        return; /* already read: nothing to clear */
}

static void on_wake(void *arg, unsigned events UNUSED)
{
    struct guest *guest = arg;

    clear_eventfd(guest->lease->wake);
    guest->is_stirred = true;
}

static void on_room(void *arg, unsigned events UNUSED)
{
    struct guest *guest = arg;
    struct error err;

    clear_eventfd(guest->room_fd);
    if (guest->server && !guest->server->room(guest->server->arg, &err))
        guest_break_off(guest, &err);
    for (unsigned which = 0; which < GUEST_STREAMS && !guest->is_broken; which++) {
        size_t n = guest->owed[which];

        guest->owed[which] = 0;
        if (n > 0 &&
            !channel_consumed(&guest->channel, guest_stream_number(guest->program, which), n, &err))
            guest_break_off(guest, &err);
    }
    guest_flush(guest);
}

static int64_t ping_period(const struct guest *guest)
{
    int64_t part = guest->worker->rules.lease_ttl_ms / PINGS;

    return part > 0 && part < PING_MOST_MS ? part : PING_MOST_MS;
}

static void ping(struct guest *guest, const struct lease_view *view, int64_t now)
{
    struct message_ping message = {
        .number = ++guest->number,
        .left_ms = (uint64_t)(view->fence_ms > now ? view->fence_ms - now : 0),
        .realtime_ns = (uint64_t)time_now_ms() * 1000000,
    };
    struct error err;

    guest->pinged_ms = now;
    if (!guest_send(guest, MESSAGE_PING, &message, &err))
        guest_break_off(guest, &err);
}

static void kill_program(struct guest *guest, int64_t grace_ms)
{
    struct message_kill message = {++guest->number, guest->program, (uint64_t)grace_ms};
    struct error err;

    guest->kill_sent = true;
    if (!guest_send(guest, MESSAGE_KILL, &message, &err))
        guest_break_off(guest, &err);
}

/* One that is frozen could not hear that it is to end. */
static void let_go(struct guest *guest)
{
    struct message_thaw message = {++guest->number, guest->program};
    struct error err;

    guest->is_held = false;
    if (!guest_send(guest, MESSAGE_THAW, &message, &err))
        guest_break_off(guest, &err);
}

/* Tells the program, and remembers when to stop asking. */
static void end_program(struct guest *guest, enum ending ending, const char *reason,
                        int64_t grace_ms)
{
    struct message_cancel message = {++guest->number, guest->program, str_of(reason),
                                     (uint64_t)grace_ms};
    struct error err;

    guest->ending = ending;
    guest->kill_ms = time_boot_ms() + grace_ms;
    if (guest->is_held)
        let_go(guest);
    if (grace_ms > 0 && !guest_send(guest, MESSAGE_CANCEL, &message, &err))
        guest_break_off(guest, &err);
}

static void watch_endings(struct guest *guest, const struct lease_view *view, int64_t now)
{
    struct worker *worker = guest->worker;

    if (!guest->is_started || guest->is_quiesced)
        return;
    if (view->cancel_wanted && guest->ending != ENDING_BY_CANCEL)
        end_program(guest, ENDING_BY_CANCEL, view->cancel_reason,
                    view->cancel_forced ? 0 : worker->rules.cancel_grace_ms);
    else if (view->cancel_forced && guest->kill_ms > now)
        guest->kill_ms = now;
    else if (guest->ending == ENDING_NONE && guest->limit_ms && now >= guest->limit_ms)
        end_program(guest, ENDING_BY_LIMIT, "max duration", LIMIT_GRACE_MS);
    if (guest->ending != ENDING_NONE && !guest->kill_sent && now >= guest->kill_ms)
        kill_program(guest, 0);
}

/* One that stands by belongs to nobody: only the end of the worker ends it. */
static struct lease_view look(const struct guest *guest)
{
    if (guest->lease)
        return lease_look(guest->lease);
    return (struct lease_view){.fence_ms = time_boot_ms() + STANDBY_MS,
                               .stop_wanted = guest->worker->stopping};
}

/* The next moment at which something must happen without an event. */
static int64_t next_moment(const struct guest *guest, int64_t until_ms)
{
    int64_t at = guest->pinged_ms + ping_period(guest);

    if (guest->abort && at > time_boot_ms() + ABORT_MS)
        at = time_boot_ms() + ABORT_MS;
    if (until_ms < at)
        at = until_ms;
    if (guest->limit_ms && guest->ending == ENDING_NONE && guest->limit_ms < at)
        at = guest->limit_ms;
    if (guest->ending != ENDING_NONE && !guest->kill_sent && guest->kill_ms < at)
        at = guest->kill_ms;
    return at;
}

static bool give_up(struct guest *guest, const struct lease_view *view, int64_t now,
                    struct error *err)
{
    if (view->is_stale)
        return error_set(err, ERR_LEASE_STALE, "the lease is no longer ours");
    if (now >= view->fence_ms)
        return error_set(err, ERR_CANCELLED, "the lease could not be renewed in time");
    if (view->stop_wanted && !guest->outlives_stop)
        return error_set(err, ERR_CANCELLED, "the worker stops");
    if (guest->abort && *guest->abort)
        return error_set(err, ERR_CANCELLED, "given up");
    if (view->cancel_wanted && !guest->is_started)
        return error_set(err, ERR_CANCELLED, "cancelled before it started");
    if (guest->kill_sent && now - guest->kill_ms > guest_patience(guest, KILL_MS))
        return error_set(err, ERR_GONE, "the program could not be killed");
    if (guest->has_hello && now - guest->ponged_ms > guest_patience(guest, SILENCE_MS))
        return error_set(err, ERR_GONE, "the agent does not answer");
    return true;
}

int64_t guest_patience(const struct guest *guest, int64_t ms)
{
    return worker_translates(guest->worker) ? SLOWNESS * ms : ms;
}

int64_t guest_until(const struct guest *guest, int64_t ms)
{
    return time_boot_ms() + guest_patience(guest, ms);
}

bool guest_wait_for(struct guest *guest, const bool *flag, int64_t until_ms, struct error *err)
{
    /* Nothing was read since the last wait: an old silence says nothing about the agent. */
    guest->ponged_ms = time_boot_ms();
    while (!*flag) {
        int64_t now = time_boot_ms();
        struct lease_view view = look(guest);

        if (guest->is_broken) {
            *err = guest->broken;
            return false;
        }
        if (!give_up(guest, &view, now, err))
            return false;
        if (now >= until_ms)
            return error_set(err, ERR_TIMEOUT, "no answer in time");
        watch_endings(guest, &view, now);
        if (guest->has_hello && now - guest->pinged_ms >= ping_period(guest))
            ping(guest, &view, now);

        int64_t left = next_moment(guest, until_ms) - time_boot_ms();
        if (!loop_turn(guest->loop, (int)(left < 0 ? 0 : left), err))
            return false;
    }
    return true;
}

bool guest_fail(struct guest *guest, const char *stage, const char *kind, const struct error *err)
{
    if (guest->failure->kind)
        return false;
    if (guest->result.oom)
        kind = "out_of_memory";
    return failure_set(guest->failure, "guest_runtime", kind, stage, true, "%s", err->text);
}

static bool watch_lease(struct guest *guest, struct error *err)
{
    return loop_add(guest->loop, guest->lease->wake, LOOP_READ, on_wake, guest, &guest->wake, err);
}

bool guest_watch_channel(struct guest *guest, struct error *err)
{
    int channel = instance_channel(guest->instance);

    return loop_create(&guest->loop, err) &&
           loop_add(guest->loop, channel, LOOP_READ, guest_on_socket, guest, &guest->socket, err) &&
           loop_add(guest->loop, instance_pidfd(guest->instance), LOOP_READ, guest_on_process_end,
                    guest, &guest->process, err) &&
           (!guest->lease || watch_lease(guest, err)) &&
           loop_add(guest->loop, guest->room_fd, LOOP_READ, on_room, guest, &guest->room, err);
}

struct guest *guest_make(struct worker *worker, struct lease *lease, struct failure *failure)
{
    struct guest *made = alloc(sizeof *made);

    *made = (struct guest){
        .worker = worker,
        .lease = lease,
        .failure = failure,
        .outcome_bytes = {.max = GUEST_OUTPUT_MAX},
        .room_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .held_layers = -1,
        .held_bundle = -1,
        .pinged_ms = time_boot_ms(),
        .ponged_ms = time_boot_ms(),
    };
    if (made->room_fd < 0)
        abort();
    *failure = (struct failure){0};
    return made;
}

/* Builds may have another engine than runs. */
static const struct engine *engine_of(const struct worker *worker, const struct sandbox_spec *spec)
{
    return strcmp(spec->kind, "build") == 0 ? worker->build_engine : worker->engine;
}

bool guest_start(struct worker *worker, struct lease *lease, const struct sandbox_spec *spec,
                 struct failure *failure, struct guest **guest, struct error *err)
{
    struct guest *made = *guest = guest_make(worker, lease, failure);
    const struct engine *engine = engine_of(worker, spec);
    struct sandbox_spec own = *spec;

    if (!guest_hold_files(made, engine, &own, err))
        return guest_fail(made, "start", "mount_failed", err);
    if (!engine->start(worker->host, &own, &made->instance, err))
        return guest_fail(made, "start", "boot_failed", err);
    channel_init(&made->channel, instance_channel(made->instance), instance_channel(made->instance),
                 SIDE_HOST);
    if (!guest_watch_channel(made, err))
        return guest_fail(made, "start", "boot_failed", err);
    if (!guest_wait_for(made, &made->has_hello, time_boot_ms() + engine_start_ms(worker->engine),
                        err))
        return guest_fail(made, "start", "boot_failed", err);
    made->ponged_ms = time_boot_ms();
    return true;
}

void guest_make_identity(char boot_id[ID_TEXT], char machine_id[33])
{
    size_t n = 0;

    id_make(boot_id);
    for (size_t i = 0; i < ID_LEN; i++)
        if (boot_id[i] != '-')
            machine_id[n++] = boot_id[i];
    machine_id[n] = '\0';
}

static struct str_list list_of_n(const char *const *texts, size_t n, struct arena *arena)
{
    struct str *items = arena_array(arena, n + 1, sizeof *items);

    for (size_t i = 0; i < n; i++)
        items[i] = str_of(texts[i]);
    return (struct str_list){items, n};
}

bool guest_set_up(struct guest *guest, const struct guest_setup *setup, struct error *err)
{
    const struct sandbox_spec *spec = setup->spec;
    static const struct str dns = STR("198.18.0.1");
    char entropy[64], machine_id[33], boot_id[ID_TEXT];

    random_bytes(entropy, sizeof entropy);
    guest_make_identity(boot_id, machine_id);

    struct message_setup message = {
        .id = ++guest->number,
        .realtime_ns = (uint64_t)time_now_ms() * 1000000,
        .entropy = {entropy, sizeof entropy},
        .machine_id = str_of(machine_id),
        .boot_id = str_of(boot_id),
        .generation = 1,
        .layout = spec->layout == LAYOUT_AGENT ? SETUP_LAYOUT_AGENT : SETUP_LAYOUT_DIRECT,
        .mount = setup->mount ? str_of(setup->mount) : (struct str){0},
        .env = {setup->config->env, setup->config->n_env},
        .workdir = setup->config->workdir,
        .user = setup->config->user,
        .shm_bytes = (uint64_t)spec->memory_mib * 1024 * 512,
        .dns = {&dns, spec->network == NETWORK_OFF ? 0 : 1},
        .platform = setup->shows_platform,
        .is_layer = setup->is_layer,
        .ports = list_of_n(spec->ports, spec->n_ports, &guest->arena),
    };
    guest->is_layer = setup->is_layer;
    if (!guest_send(guest, MESSAGE_SETUP, &message, err) ||
        !guest_wait_for(guest, &guest->is_set_up, guest_until(guest, SET_UP_MS), err))
        return guest_fail(guest, "setup", "agent_unhealthy", err);
    return true;
}

static struct str_list list_of(const char *const *texts, struct arena *arena)
{
    size_t n = 0;

    while (texts && texts[n])
        n++;
    return list_of_n(texts, n, arena);
}

/* Many small ones in one piece: each that came alone would wake the sandbox for itself. The channel
 * wipes its buffers when they are out. */
static bool send_secrets(struct guest *guest, const struct guest_secret *secrets, size_t n,
                         struct error *err)
{
    int64_t until = guest_until(guest, LAUNCH_MS);
    size_t unsent = 0;

    guest->has_secrets = n == 0;
    for (size_t i = 0; i < n; i++) {
        struct message_secret message = {
            .id = ++guest->number,
            .program = guest->program,
            .name = secrets[i].name ? str_of(secrets[i].name) : (struct str){0},
            .placement = secrets[i].placement,
            .target = str_of(secrets[i].target),
            .mode = secrets[i].mode,
            .owner = secrets[i].owner ? str_of(secrets[i].owner) : (struct str){0},
            .value = secret_reveal(secrets[i].value),
        };
        if (!channel_send(&guest->channel, MESSAGE_SECRET, &message, err))
            return false;
        unsent += message.value.len;
        if (unsent < SECRETS_PIECE)
            continue;
        unsent = 0;
        guest_flush(guest);
        if (!guest_wait_for(guest, &guest->is_drained, until, err))
            return false;
    }
    struct message_secrets_end end = {++guest->number, guest->program, (uint32_t)n};
    return n == 0 || guest_send(guest, MESSAGE_SECRETS_END, &end, err);
}

static bool await_secrets(struct guest *guest, struct error *err)
{
    return guest_wait_for(guest, &guest->has_secrets, guest_until(guest, LAUNCH_MS), err);
}

bool guest_send_secrets(struct guest *guest, const struct guest_secret *secrets, size_t n,
                        struct error *err)
{
    guest->awaits_secrets = true;
    return send_secrets(guest, secrets, n, err) ||
           guest_fail(guest, "secrets", "agent_unhealthy", err);
}

bool guest_await_secrets(struct guest *guest, struct error *err)
{
    bool has_come = await_secrets(guest, err);

    guest->awaits_secrets = false;
    return has_come || guest_fail(guest, "secrets", "agent_unhealthy", err);
}

bool guest_launch(struct guest *guest, const struct guest_program *program, struct error *err)
{
    uint32_t number = ++guest->program;
    struct message_launch message = {
        .id = ++guest->number,
        .program = number,
        .kind = program->kind,
        .argv = list_of(program->argv, &guest->arena),
        .env = list_of(program->env, &guest->arena),
        .cwd = program->cwd ? str_of(program->cwd) : (struct str){0},
        .user = program->user ? str_of(program->user) : (struct str){0},
        .stdout_stream = guest_stream_number(number, GUEST_STDOUT),
        .stderr_stream = guest_stream_number(number, GUEST_STDERR),
        .generation = 1,
    };

    guest->listener = program->listener;
    guest->abort = program->abort;
    guest->is_started = guest->is_quiesced = guest->kill_sent = false;
    guest->ending = ENDING_NONE;
    guest->limit_ms = 0;
    guest->result = (struct guest_result){0};
    guest->outcome_len = 0;
    guest->has_digest = false;
    guest->outcome_bytes.len = 0;
    for (unsigned which = 0; which < GUEST_STREAMS; which++) {
        guest->owed[which] = 0;
        if (!channel_open_stream(&guest->channel, guest_stream_number(number, which),
                                 CHANNEL_RECEIVES, err))
            return guest_fail(guest, "launch", "agent_unhealthy", err);
    }
    if (!send_secrets(guest, program->secrets, program->n_secrets, err) ||
        !await_secrets(guest, err) || !guest_send(guest, MESSAGE_LAUNCH, &message, err) ||
        !guest_wait_for(guest, &guest->is_started, guest_until(guest, LAUNCH_MS), err))
        return guest_fail(guest, "launch", "agent_unhealthy", err);
    return true;
}

bool guest_adopt(struct guest *guest, struct lease *lease, const struct guest_listener *listener,
                 struct failure *failure, struct error *err)
{
    guest->lease = lease;
    guest->listener = *listener;
    guest->failure = failure;
    *failure = (struct failure){0};
    if (guest->is_broken) {
        *err = guest->broken;
        return false;
    }
    return watch_lease(guest, err);
}

bool guest_is_asleep(const struct guest *guest)
{
    return guest->is_asleep;
}

bool guest_stand_by(struct guest *guest, struct error *err)
{
    int64_t now = time_boot_ms();
    struct lease_view view = look(guest);

    if (!guest->is_asleep && now - guest->pinged_ms >= ping_period(guest))
        ping(guest, &view, now);
    if (!loop_turn(guest->loop, 0, err))
        return false;
    if (guest->is_broken) {
        *err = guest->broken;
        return false;
    }
    return guest->is_asleep || now - guest->ponged_ms <= guest_patience(guest, SILENCE_MS) ||
           error_set(err, ERR_GONE, "the agent does not answer");
}

bool guest_release(struct guest *guest, struct message_a_start *start, struct str payload,
                   struct error *err)
{
    AUTO(buf_finish) struct buf head = {.max = MESSAGE_BODY_MAX};
    struct blake2b hash;
    uint8_t digest[BLAKE2B_LEN];

    blake2b_init(&hash, (struct str){0});
    blake2b_update(&hash, payload);
    blake2b_final(&hash, digest);
    start->payload_len = payload.len;
    start->payload_digest = (struct str){(const char *)digest, sizeof digest};
    if (!message_encode(MESSAGE_A_START, start, &head, err))
        return guest_fail(guest, "release", "agent_unhealthy", err);

    struct message_release message = {
        .id = ++guest->number,
        .program = guest->program,
        .start = buf_str(&head),
        .payload_stream = payload.len ? guest_payload_number(guest->program) : 0,
        .payload_len = payload.len,
        .payload_digest = {(const char *)digest, sizeof digest},
    };
    guest->payload = payload;
    guest->payload_stream = guest_payload_number(guest->program);
    if ((payload.len > 0 &&
         !channel_open_stream(&guest->channel, guest->payload_stream, CHANNEL_SENDS, err)) ||
        !guest_send(guest, MESSAGE_RELEASE, &message, err))
        return guest_fail(guest, "release", "agent_unhealthy", err);
    return true;
}

bool guest_end_instance(struct guest *guest)
{
    const char *engine = guest->instance ? instance_engine(guest->instance)->name : "";
    struct error err;

    loop_remove(TAKE(guest->socket));
    loop_remove(TAKE(guest->process));
    loop_remove(TAKE(guest->wake));
    loop_remove(TAKE(guest->room));
    relay_drop_all(guest);
    channel_finish(&guest->channel);
    if (instance_destroy(TAKE(guest->instance), &err))
        return true;
    log_error("instance quarantined", LOG_STR("engine", engine), LOG_ERR(&err));
    return false;
}

bool guest_was_timed_out(const struct guest *guest)
{
    return guest->ending == ENDING_BY_LIMIT;
}

bool guest_was_cancelled(const struct guest *guest)
{
    return guest->ending == ENDING_BY_CANCEL;
}

struct template *guest_origin(const struct guest *guest)
{
    return guest->origin;
}

int guest_room(const struct guest *guest)
{
    return guest->room_fd;
}

static void ask_to_end(struct guest *guest)
{
    struct message_shutdown message = {++guest->number, SHUTDOWN_MS};
    int64_t until = time_boot_ms() + SHUTDOWN_MS;
    struct error err;

    if (!guest->is_layer || !guest->has_hello ||
        !guest_send(guest, MESSAGE_SHUTDOWN, &message, &err))
        return;
    while (!guest->is_done && !guest->is_broken && time_boot_ms() < until)
        if (!loop_turn(guest->loop, (int)(until - time_boot_ms()), &err))
            return;
}

void guest_stop(struct guest *guest)
{
    if (!guest)
        return;
    if (guest->instance) {
        ask_to_end(guest);
        guest_end_instance(guest);
    }
    for (struct guest_op *op; (op = guest_take_op(guest));)
        guest_op_free(op);
    loop_destroy(guest->loop);
    close(guest->room_fd);
    guest_release_files(guest);
    template_drop(guest->origin);
    buf_finish(&guest->outcome_bytes);
    arena_finish(&guest->arena);
    free(guest);
}
