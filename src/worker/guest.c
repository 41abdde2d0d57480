#include "worker/guest.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "image/image.h"
#include "worker/worker.h"

enum {
    PING_MS = 5000,
    SILENCE_MS = 15 * 1000, /* without a PONG: the agent is not healthy */
    HELLO_MS = 30 * 1000,
    LAUNCH_MS = 60 * 1000,
    LIMIT_GRACE_MS = 5 * 1000,
    KILL_MS = 20 * 1000,
    SHUTDOWN_MS = 2 * 1000,
    OUTPUT_MAX = 16 * 1024 * 1024,
};

enum ending { ENDING_NONE, ENDING_BY_LIMIT, ENDING_BY_CANCEL };

struct guest {
    struct lease *lease;
    struct failure *failure;
    struct instance *instance;
    struct loop *loop;
    struct loop_source *socket, *process, *wake, *room;
    struct loop_timer *tick;
    int room_fd;
    struct channel channel;
    struct arena arena;
    struct error broken; /* the channel's or engine's end, when is_broken */
    bool is_broken, has_hello, is_set_up, is_started, is_quiesced, is_done;
    bool is_layer; /* the agent has mount points of its own to take away at the end */
    int64_t pinged_ms, ponged_ms;
    uint64_t number;

    uint32_t program;
    struct guest_listener listener;
    size_t owed[GUEST_STREAMS]; /* credit withheld */
    struct str payload;
    uint16_t payload_stream, outcome_stream;
    struct buf outcome_bytes;
    struct guest_result result;

    enum ending ending;
    bool kill_sent;
    int64_t kill_ms, limit_ms;
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

static uint16_t stream_of(uint32_t program, enum guest_stream which)
{
    return (uint16_t)(program * 8 + 1 + (unsigned)which * 2);
}

static uint16_t payload_stream_of(uint32_t program)
{
    return (uint16_t)(program * 8 + 5);
}

static void break_off(struct guest *guest, const struct error *err)
{
    if (guest->is_broken)
        return;
    guest->is_broken = true;
    guest->broken = *err;
}

static void pump_payload(struct guest *guest, struct error *err, bool *fine)
{
    while (*fine && guest->payload.len > 0) {
        size_t room = channel_send_room(&guest->channel, guest->payload_stream);
        size_t n = guest->payload.len < room ? guest->payload.len : room;

        if (n == 0)
            return;
        *fine =
            channel_send_data(&guest->channel, guest->payload_stream,
                              (struct str){guest->payload.ptr, n}, n == guest->payload.len, err);
        guest->payload = (struct str){guest->payload.ptr + n, guest->payload.len - n};
    }
}

static void flush(struct guest *guest)
{
    struct error err;
    bool wants_write = false, fine = true;

    if (guest->is_broken)
        return;
    pump_payload(guest, &err, &fine);
    fine = fine && channel_flush(&guest->channel, &wants_write, &err) &&
           loop_change(guest->socket, LOOP_READ | (wants_write ? LOOP_WRITE : 0), &err);
    if (!fine)
        break_off(guest, &err);
}

static bool send(struct guest *guest, enum message_type type, const void *message,
                 struct error *err)
{
    if (guest->is_broken) {
        *err = guest->broken;
        return false;
    }
    if (!channel_send(&guest->channel, type, message, err))
        return false;
    flush(guest);
    return true;
}

static struct str keep(struct guest *guest, struct str text)
{
    return text.len ? arena_str(&guest->arena, text) : (struct str){0};
}

static bool take_outcome(struct guest *guest, const struct message_outcome *outcome,
                         struct error *err)
{
    struct guest_result *result = &guest->result;

    result->has_outcome = true;
    result->outcome = (enum outcome_kind)outcome->kind;
    result->error_name = keep(guest, outcome->error_name);
    result->error_message = keep(guest, outcome->error_message);
    result->error_stack = keep(guest, outcome->error_stack);
    result->error_details = keep(guest, outcome->error_details);
    if (outcome->len == 0)
        return true;
    if (outcome->len > OUTPUT_MAX)
        return error_set(err, ERR_TOO_LARGE, "an output of %llu bytes",
                         (unsigned long long)outcome->len);
    guest->outcome_stream = (uint16_t)outcome->stream;
    return channel_open_stream(&guest->channel, guest->outcome_stream, CHANNEL_RECEIVES, err);
}

static void take_loaded(struct guest *guest, const struct message_loaded *loaded)
{
    struct guest_result *result = &guest->result;

    if (loaded->failure.len == 0)
        return;
    result->has_load_failure = true;
    result->load_kind = keep(guest, loaded->failure);
    result->load_message = keep(guest, loaded->message);
    result->load_file = keep(guest, loaded->file);
    result->load_stack = keep(guest, loaded->stack);
    result->load_line = loaded->line;
}

static void take_launch_failure(struct guest *guest, const struct message_launch_failed *failed)
{
    static const char *const kinds[] = {"node_missing", "node_too_old", "unsafe_path",
                                        "image_root_invalid", "secret_unreadable"};
    struct error err;

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_equal(failed->failure, str_of(kinds[i])))
            failure_set(guest->failure, "image_preparation", kinds[i], "launch", false, "%.*s",
                        (int)failed->text.len, failed->text.ptr);
    if (!guest->failure->kind)
        failure_set(guest->failure, "guest_runtime", "agent_unhealthy", "launch", true, "%.*s",
                    (int)failed->text.len, failed->text.ptr);
    error_set(&err, ERR_UNPROCESSABLE, "%.*s", (int)failed->text.len, failed->text.ptr);
    break_off(guest, &err);
}

static void take_error(struct guest *guest, const struct message_error *error)
{
    static const char *const of_image[] = {"unsafe_path", "image_root_invalid"};
    struct error err;
    const char *layer = "guest_runtime", *kind = "agent_unhealthy";
    bool retryable = true;

    for (size_t i = 0; i < COUNT_OF(of_image); i++) {
        if (!str_equal(error->code, str_of(of_image[i])))
            continue;
        layer = "image_preparation";
        kind = of_image[i];
        retryable = false;
    }
    if (str_equal(error->code, STR("mount_failed")))
        kind = "mount_failed";
    failure_set(guest->failure, layer, kind, "setup", retryable, "%.*s", (int)error->text.len,
                error->text.ptr);
    error_set(&err, ERR_UNPROCESSABLE, "%.*s: %.*s", (int)error->stage.len, error->stage.ptr,
              (int)error->text.len, error->text.ptr);
    break_off(guest, &err);
}

static bool answer_hello(struct guest *guest, const struct message_hello *hello, struct error *err)
{
    struct lease *lease = guest->lease;
    struct message_welcome welcome = {
        .protocol = MESSAGE_PROTOCOL,
        .instance = str_of(instance_id(guest->instance)),
        .epoch = (uint64_t)lease->worker->link.epoch,
        .lease = str_of(lease->id),
        .sequence = (uint64_t)lease->sequence,
        .generation = hello->generation + 1,
    };

    if (hello->abi != MESSAGE_ABI)
        return error_set(err, ERR_UNSUPPORTED, "the agent speaks ABI %u, not %d", hello->abi,
                         MESSAGE_ABI);
    guest->has_hello = true;
    return channel_send(&guest->channel, MESSAGE_WELCOME, &welcome, err);
}

static bool on_message(void *arg, const struct message *message, struct error *err)
{
    struct guest *guest = arg;

    switch ((int)message->type) {
    case MESSAGE_HELLO: return answer_hello(guest, &message->hello, err);
    case MESSAGE_PONG: guest->ponged_ms = time_boot_ms(); break;
    case MESSAGE_SETUP_DONE: guest->is_set_up = true; break;
    case MESSAGE_STARTED: guest->is_started = true; break;
    case MESSAGE_LOADED: take_loaded(guest, &message->loaded); break;
    case MESSAGE_OUTCOME: return take_outcome(guest, &message->outcome, err);
    case MESSAGE_EXITED:
        guest->result.exit_code = (int)message->exited.exit_code;
        guest->result.signal = (int)message->exited.signal;
        guest->result.oom = message->exited.oom;
        guest->result.cpu_ms = (int64_t)message->exited.cpu_ms;
        break;
    case MESSAGE_QUIESCED: guest->is_quiesced = true; break;
    case MESSAGE_LOG:
        if (guest->listener.log)
            guest->listener.log(guest->listener.arg, &message->log);
        break;
    case MESSAGE_AGENT_LOG:
        log_debug("agent", LOG_STR("lease", guest->lease->id),
                  LOG_SLICE("text", message->agent_log.text));
        break;
    case MESSAGE_LAUNCH_FAILED: take_launch_failure(guest, &message->launch_failed); break;
    case MESSAGE_ERROR: take_error(guest, &message->error); break;
    case MESSAGE_DONE: guest->is_done = true; break;
    default: break; /* later kinds answer requests this worker does not make */
    }
    return true;
}

static bool on_data(void *arg, uint16_t stream, struct str bytes, bool is_end UNUSED,
                    struct error *err)
{
    struct guest *guest = arg;

    if (stream == guest->outcome_stream && stream != 0)
        return buf_append(&guest->outcome_bytes, bytes, err) &&
               channel_consumed(&guest->channel, stream, bytes.len, err);
    for (unsigned which = 0; which < GUEST_STREAMS; which++) {
        if (stream != stream_of(guest->program, which) || bytes.len == 0)
            continue;
        if (guest->listener.output(guest->listener.arg, which, bytes) && guest->owed[which] == 0)
            return channel_consumed(&guest->channel, stream, bytes.len, err);
        guest->owed[which] += bytes.len;
    }
    return true;
}

static void on_socket(void *arg, unsigned events)
{
    struct guest *guest = arg;
    struct error err;

    if (guest->is_broken)
        return;
    if ((events & (LOOP_READ | LOOP_CLOSED)) &&
        !channel_read(&guest->channel, on_message, on_data, guest, &err)) {
        loop_remove(TAKE(guest->socket));
        break_off(guest, &err);
        return;
    }
    flush(guest);
}

static void on_process_end(void *arg, unsigned events UNUSED)
{
    struct guest *guest = arg;
    struct error err;

    /* What it wrote before it ended is still in the socket: read that first. */
    loop_remove(TAKE(guest->process));
    while (!guest->is_broken && channel_read(&guest->channel, on_message, on_data, guest, &err))
        ;
    error_set(&err, ERR_GONE, "the sandbox ended by itself");
    break_off(guest, &err);
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
}

static void on_room(void *arg, unsigned events UNUSED)
{
    struct guest *guest = arg;
    struct error err;

    clear_eventfd(guest->room_fd);
    for (unsigned which = 0; which < GUEST_STREAMS && !guest->is_broken; which++) {
        size_t n = guest->owed[which];

        guest->owed[which] = 0;
        if (n > 0 && !channel_consumed(&guest->channel, stream_of(guest->program, which), n, &err))
            break_off(guest, &err);
    }
    flush(guest);
}

static void ping(struct guest *guest, const struct lease_view *view, int64_t now)
{
    struct message_ping message = {
        .number = ++guest->number,
        .left_ms = (uint64_t)(view->fence_ms > now ? view->fence_ms - now : 0),
    };
    struct error err;

    guest->pinged_ms = now;
    if (!send(guest, MESSAGE_PING, &message, &err))
        break_off(guest, &err);
}

static void kill_program(struct guest *guest, int64_t grace_ms)
{
    struct message_kill message = {++guest->number, guest->program, (uint64_t)grace_ms};
    struct error err;

    guest->kill_sent = true;
    if (!send(guest, MESSAGE_KILL, &message, &err))
        break_off(guest, &err);
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
    if (grace_ms > 0 && !send(guest, MESSAGE_CANCEL, &message, &err))
        break_off(guest, &err);
}

static void watch_endings(struct guest *guest, const struct lease_view *view, int64_t now)
{
    struct worker *worker = guest->lease->worker;

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

/* The next moment at which something must happen without an event. */
static int64_t next_moment(const struct guest *guest, int64_t until_ms)
{
    int64_t at = guest->pinged_ms + PING_MS;

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
    if (view->stop_wanted)
        return error_set(err, ERR_CANCELLED, "the worker stops");
    if (view->cancel_wanted && !guest->is_started)
        return error_set(err, ERR_CANCELLED, "cancelled before it started");
    if (guest->has_hello && now - guest->ponged_ms > SILENCE_MS)
        return error_set(err, ERR_GONE, "the agent does not answer");
    return true;
}

/* Turns the loop until *flag, the deadline (boot time), or the end of it all. */
static bool wait_for(struct guest *guest, const bool *flag, int64_t until_ms, struct error *err)
{
    /* Nothing was read since the last wait: an old silence says nothing about the agent. */
    guest->ponged_ms = time_boot_ms();
    while (!*flag) {
        int64_t now = time_boot_ms();
        struct lease_view view = lease_look(guest->lease);

        if (guest->is_broken) {
            *err = guest->broken;
            return false;
        }
        if (!give_up(guest, &view, now, err))
            return false;
        if (now >= until_ms)
            return error_set(err, ERR_TIMEOUT, "no answer in time");
        watch_endings(guest, &view, now);
        if (guest->has_hello && now - guest->pinged_ms >= PING_MS)
            ping(guest, &view, now);

        int64_t left = next_moment(guest, until_ms) - time_boot_ms();
        if (!loop_turn(guest->loop, (int)(left < 0 ? 0 : left), err))
            return false;
    }
    return true;
}

/* The failure a call reports when the guest itself has not said one. */
static bool fail(struct guest *guest, const char *stage, const char *kind, const struct error *err)
{
    if (guest->failure->kind)
        return false;
    if (guest->result.oom)
        kind = "out_of_memory";
    return failure_set(guest->failure, "guest_runtime", kind, stage, true, "%s", err->text);
}

static bool watch(struct guest *guest, struct error *err)
{
    int channel = instance_channel(guest->instance);

    return loop_create(&guest->loop, err) &&
           loop_add(guest->loop, channel, LOOP_READ, on_socket, guest, &guest->socket, err) &&
           loop_add(guest->loop, instance_pidfd(guest->instance), LOOP_READ, on_process_end, guest,
                    &guest->process, err) &&
           loop_add(guest->loop, guest->lease->wake, LOOP_READ, on_wake, guest, &guest->wake,
                    err) &&
           loop_add(guest->loop, guest->room_fd, LOOP_READ, on_room, guest, &guest->room, err);
}

bool guest_start(struct lease *lease, const struct sandbox_spec *spec, struct failure *failure,
                 struct guest **guest, struct error *err)
{
    struct worker *worker = lease->worker;
    struct guest *made = alloc(sizeof *made);

    *made = (struct guest){
        .lease = lease,
        .failure = failure,
        .outcome_bytes = {.max = OUTPUT_MAX},
        .room_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .pinged_ms = time_boot_ms(),
        .ponged_ms = time_boot_ms(),
    };
    *failure = (struct failure){0};
    *guest = made;
    if (made->room_fd < 0)
        return error_errno(err, "eventfd");
    if (!worker->engine->start(worker->host, spec, &made->instance, err))
        return fail(made, "start", "boot_failed", err);
    channel_init(&made->channel, instance_channel(made->instance), instance_channel(made->instance),
                 SIDE_HOST);
    if (!watch(made, err))
        return fail(made, "start", "boot_failed", err);
    if (!wait_for(made, &made->has_hello, time_boot_ms() + HELLO_MS, err))
        return fail(made, "start", "boot_failed", err);
    made->ponged_ms = time_boot_ms();
    return true;
}

bool guest_set_up(struct guest *guest, const struct guest_setup *setup, struct error *err)
{
    const struct sandbox_spec *spec = setup->spec;
    static const struct str dns = STR("198.18.0.1");
    char entropy[64], machine_id[33], boot_id[ID_TEXT];

    random_bytes(entropy, sizeof entropy);
    id_make(boot_id);
    for (size_t i = 0, n = 0; i < ID_LEN; i++)
        if (boot_id[i] != '-')
            machine_id[n++] = boot_id[i];
    machine_id[32] = '\0';

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
    };
    guest->is_layer = setup->is_layer;
    if (!send(guest, MESSAGE_SETUP, &message, err) ||
        !wait_for(guest, &guest->is_set_up, time_boot_ms() + HELLO_MS, err))
        return fail(guest, "setup", "agent_unhealthy", err);
    return true;
}

static struct str_list list_of(const char *const *texts, struct arena *arena)
{
    size_t n = 0;

    while (texts && texts[n])
        n++;
    struct str *items = arena_array(arena, n + 1, sizeof *items);
    for (size_t i = 0; i < n; i++)
        items[i] = str_of(texts[i]);
    return (struct str_list){items, n};
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
        .stdout_stream = stream_of(number, GUEST_STDOUT),
        .stderr_stream = stream_of(number, GUEST_STDERR),
        .generation = 1,
    };

    guest->listener = program->listener;
    guest->is_started = guest->is_quiesced = guest->kill_sent = false;
    guest->ending = ENDING_NONE;
    guest->limit_ms = 0;
    guest->result = (struct guest_result){0};
    for (unsigned which = 0; which < GUEST_STREAMS; which++) {
        guest->owed[which] = 0;
        if (!channel_open_stream(&guest->channel, stream_of(number, which), CHANNEL_RECEIVES, err))
            return fail(guest, "launch", "agent_unhealthy", err);
    }
    if (!send(guest, MESSAGE_LAUNCH, &message, err) ||
        !wait_for(guest, &guest->is_started, time_boot_ms() + LAUNCH_MS, err))
        return fail(guest, "launch", "agent_unhealthy", err);
    return true;
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
        return fail(guest, "release", "agent_unhealthy", err);

    struct message_release message = {
        .id = ++guest->number,
        .program = guest->program,
        .start = buf_str(&head),
        .payload_stream = payload.len ? payload_stream_of(guest->program) : 0,
        .payload_len = payload.len,
        .payload_digest = {(const char *)digest, sizeof digest},
    };
    guest->payload = payload;
    guest->payload_stream = payload_stream_of(guest->program);
    if ((payload.len > 0 &&
         !channel_open_stream(&guest->channel, guest->payload_stream, CHANNEL_SENDS, err)) ||
        !send(guest, MESSAGE_RELEASE, &message, err))
        return fail(guest, "release", "agent_unhealthy", err);
    return true;
}

/* The kernel ended the whole sandbox: everything in it is dead, and the reason is the program's. */
static bool died_of_memory(struct guest *guest, const struct error *err)
{
    struct instance_usage usage;
    struct error ignored;

    if (err->code != ERR_GONE || !instance_usage(guest->instance, &usage, &ignored) ||
        !usage.oom_killed)
        return false;
    guest->result = (struct guest_result){.oom = true, .signal = SIGKILL};
    return true;
}

bool guest_follow(struct guest *guest, int64_t limit_ms, struct guest_result *result,
                  struct error *err)
{
    guest->limit_ms = limit_ms;
    if (!wait_for(guest, &guest->is_quiesced, INT64_MAX, err) && !died_of_memory(guest, err))
        return fail(guest, "run", "agent_unhealthy", err);
    guest->result.output = keep(guest, buf_str(&guest->outcome_bytes));
    *result = guest->result;
    return true;
}

bool guest_was_timed_out(const struct guest *guest)
{
    return guest->ending == ENDING_BY_LIMIT;
}

bool guest_was_cancelled(const struct guest *guest)
{
    return guest->ending == ENDING_BY_CANCEL;
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

    if (!guest->is_layer || !guest->has_hello || !send(guest, MESSAGE_SHUTDOWN, &message, &err))
        return;
    while (!guest->is_done && !guest->is_broken && time_boot_ms() < until)
        if (!loop_turn(guest->loop, (int)(until - time_boot_ms()), &err))
            return;
}

void guest_stop(struct guest *guest)
{
    struct error err;

    if (!guest)
        return;
    if (guest->instance) {
        ask_to_end(guest);
        loop_remove(guest->socket);
        loop_remove(guest->process);
        loop_remove(guest->wake);
        loop_remove(guest->room);
        channel_finish(&guest->channel);
        if (!instance_destroy(guest->instance, &err))
            log_error("instance quarantined", LOG_STR("lease", guest->lease->id), LOG_ERR(&err));
    }
    loop_destroy(guest->loop);
    close(guest->room_fd);
    buf_finish(&guest->outcome_bytes);
    arena_finish(&guest->arena);
    free(guest);
}
