#include "guest/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/time.h"
#include "guest/adapter.h"
#include "guest/boot.h"
#include "guest/capture.h"
#include "guest/deliver.h"
#include "guest/files.h"
#include "guest/place.h"
#include "guest/program.h"
#include "guest/relay.h"
#include "guest/remember.h"
#include "guest/room.h"
#include "guest/spares.h"
#include "guest/stream.h"

enum { FREEZE_TO_EXIT_MS = 15000, SELF_MAX = 16 << 20 };

void agent_die(struct agent *agent, const struct error *err)
{
    if (agent->is_done)
        return;
    dprintf(STDERR_FILENO, "helmr-guest: %s\n", err->text);
    agent->exit_code = 1;
    agent->is_done = true;
}

void agent_send(struct agent *agent, enum message_type type, const void *message)
{
    struct error err;

    if (!channel_send(&agent->channel, type, message, &err))
        agent_die(agent, &err);
}

void agent_refuse(struct agent *agent, uint64_t id, const char *stage, const char *code,
                  const struct error *err)
{
    agent_send(agent, MESSAGE_ERROR,
               &(struct message_error){
                   .id = id,
                   .stage = str_of(stage),
                   .code = str_of(code),
                   .sys = (uint32_t)err->sys,
                   .text = str_of(err->text),
               });
}

static void turn_again(void *arg)
{
    struct agent *agent = arg;

    agent->again = NULL;
}

void agent_again(struct agent *agent, int64_t delay_ms)
{
    if (!agent->again)
        agent->again = loop_after(agent->loop, delay_ms, turn_again, agent);
}

static void refuse_text(struct agent *agent, uint64_t id, const char *stage, const char *text)
{
    struct error err = {.code = ERR_INVALID};

    snprintf(err.text, sizeof err.text, "%s", text);
    agent_refuse(agent, id, stage, "invalid_request", &err);
}

static void hash_self(struct agent *agent)
{
    struct blake2b state;
    char piece[8192];
    off_t at = 0;
    ssize_t got;

    blake2b_init(&state, (struct str){0});
    while ((got = pread(agent->self_fd, piece, sizeof piece, at)) > 0 && at < SELF_MAX) {
        blake2b_update(&state, (struct str){piece, (size_t)got});
        at += got;
    }
    blake2b_final(&state, agent->digest);
}

void agent_hello(struct agent *agent)
{
    struct error err;

    char nonce[16];
    struct utsname names;

    if (uname(&names) != 0 || getrandom(nonce, sizeof nonce, 0) != sizeof nonce) {
        error_errno(&err, "saying hello");
        agent_die(agent, &err);
        return;
    }
    const struct message_hello hello = {
        .protocol = MESSAGE_PROTOCOL,
        .abi = MESSAGE_ABI,
        .agent_digest = {(const char *)agent->digest, sizeof agent->digest},
        .boot_nonce = {nonce,                       sizeof nonce        },
        .arch = str_of(names.machine),
        .kernel = str_of(names.release),
        .generation = agent->sandbox.generation,
    };
    if (!channel_send_first(&agent->channel, MESSAGE_HELLO, &hello, &err))
        agent_die(agent, &err);
}

static void exit_fenced(void *arg)
{
    struct agent *agent = arg;
    struct error err = {.text = "the host has been silent for too long"};

    agent->dead_man = NULL;
    agent_die(agent, &err);
}

/* The host has lost its lease by now: nothing here may have effects any more. */
static void freeze(void *arg)
{
    struct agent *agent = arg;

    agent->is_frozen = true;
    for (struct program *p = agent->programs; p; p = p->next)
        program_order(p, INIT_STOP, 0);
    room_stop(agent);
    agent->dead_man = loop_after(agent->loop, FREEZE_TO_EXIT_MS, exit_fenced, agent);
}

static void take_ping(struct agent *agent, const struct message_ping *ping)
{
    struct message_pong pong = {.number = ping->number, .realtime_ms = (uint64_t)time_now_ms()};
    struct sysinfo memory;
    struct statvfs scratch;

    if (sysinfo(&memory) == 0)
        pong.memory_kib = (memory.totalram - memory.freeram) / 1024 * memory.mem_unit;
    if (statvfs(SANDBOX_ROOT, &scratch) == 0)
        pong.scratch_kib = (scratch.f_blocks - scratch.f_bfree) * scratch.f_frsize / 1024;
    agent_send(agent, MESSAGE_PONG, &pong);
    if (agent->boot && ping->realtime_ns)
        clock_follow(&agent->clock, ping->realtime_ns);
    if (agent->is_frozen)
        return;
    loop_cancel(agent->dead_man);
    uint64_t left = ping->left_ms < INT32_MAX ? ping->left_ms : INT32_MAX;
    agent->dead_man = loop_after(agent->loop, (int64_t)left, freeze, agent);
}

void agent_set_clock(struct agent *agent, uint64_t realtime_ns)
{
    agent->clock = (struct clock_watch){0};
    clock_set(realtime_ns);
}

static void take_setup(struct agent *agent, const struct message_setup *setup)
{
    const char *failure = "mount_failed";
    struct sandbox *sandbox = &agent->sandbox;
    struct error err = {0};

    if (sandbox->is_started) {
        refuse_text(agent, setup->id, "setup", "the sandbox has been set up before");
        return;
    }
    if (agent->boot)
        agent_set_clock(agent, setup->realtime_ns);
    bool is_bootable = !agent->boot || !agent->boot->fault.text[0];
    if (!is_bootable)
        err = agent->boot->fault;
    if (!is_bootable || !sandbox_setup(sandbox, setup, &failure, &err)) {
        agent_refuse(agent, setup->id, "setup", failure, &err);
        return;
    }
    agent_send(agent, MESSAGE_SETUP_DONE,
               &(struct message_setup_done){
                   .id = setup->id,
                   .phases = {sandbox->phases, sandbox->n_phases},
                   .uid = sandbox->user.uid,
                   .gid = sandbox->user.gid,
                   .home = str_of(sandbox->user.home),
                   .shell = str_of(sandbox->user.shell),
    });
}

static void take_launch(struct agent *agent, const struct message_launch *launch)
{
    if (!agent->sandbox.is_ready || agent->is_stopping)
        refuse_text(agent, launch->id, "launch", "the sandbox is not ready");
    else if (agent->hold.state != HOLD_NONE)
        refuse_text(agent, launch->id, "launch", "the sandbox stands still");
    else if (launch->generation != agent->sandbox.generation)
        refuse_text(agent, launch->id, "launch", "this is another generation");
    else
        program_launch(agent, launch);
}

static void take_shutdown(struct agent *agent, const struct message_shutdown *shutdown)
{
    agent->is_stopping = true;
    agent->shutdown_id = shutdown->id;
    for (struct program *p = agent->programs; p; p = p->next)
        program_kill(p, 0);
    if (agent->room)
        room_end(agent, 0);
}

static void take_release(struct program *program, const struct message_release *release)
{
    if (program->adapter)
        adapter_release(program->adapter, release);
    else
        refuse_text(program->agent, release->id, "release", "this program has no adapter");
}

static void take_signal(struct program *program, const struct message_signal *message)
{
    if (message->signal > 0 && message->signal < NSIG)
        program_order(program, INIT_SIGNAL, (unsigned char)message->signal);
    else
        refuse_text(program->agent, message->id, "signal", "there is no such signal");
}

/* Messages to a program that is already over are late, not wrong. */
static void take_for_program(struct agent *agent, const struct message *message, uint32_t number)
{
    struct program *program = program_find(agent, number);

    if (!program)
        return;
    if (message->type == MESSAGE_RELEASE)
        take_release(program, &message->release);
    else if (message->type == MESSAGE_SIGNAL)
        take_signal(program, &message->signal);
    else if (message->type == MESSAGE_KILL)
        program_kill(program, message->kill.grace_ms);
    else if (message->type == MESSAGE_RESIZE)
        room_resize(program, &message->resize);
    else if (message->type == MESSAGE_PRELOAD && program->adapter)
        adapter_preload(program->adapter, &message->preload);
    else if (message->type == MESSAGE_CANCEL && program->adapter)
        adapter_cancel(program->adapter, &message->cancel);
    else if (message->type == MESSAGE_OP_RESULT && program->adapter)
        adapter_result(program->adapter, &message->op_result);
    else if (message->type == MESSAGE_FREEZE)
        park_freeze(program, &message->freeze);
    else if (message->type == MESSAGE_THAW)
        park_thaw(program, &message->thaw);
    else if (message->type == MESSAGE_RESUME)
        park_resume(program, &message->resume);
}

/* No program: everything in the room. */
static void take_kill(struct agent *agent, const struct message *message)
{
    if (message->kill.program == 0)
        room_end(agent, message->kill.grace_ms);
    else
        take_for_program(agent, message, message->kill.program);
}

static bool take_welcome(struct agent *agent, const struct message_welcome *welcome,
                         struct error *err)
{
    if (welcome->protocol == 0 || welcome->protocol > MESSAGE_PROTOCOL)
        return error_set(err, ERR_UNSUPPORTED, "the host speaks protocol %u", welcome->protocol);
    agent->is_welcome = true;
    return true;
}

static bool take_message(void *arg, const struct message *message, struct error *err)
{
    struct agent *agent = arg;

    if (message->type == MESSAGE_WELCOME)
        return take_welcome(agent, &message->welcome, err);
    if (!agent->is_welcome)
        return error_set(err, ERR_INVALID, "the host did not say welcome first");

    switch ((unsigned)message->type) {
    case MESSAGE_PING: take_ping(agent, &message->ping); break;
    case MESSAGE_SETUP: take_setup(agent, &message->setup); break;
    case MESSAGE_SECRET: deliver_secret(agent, &message->secret); break;
    case MESSAGE_SECRETS_END: deliver_end(agent, &message->secrets_end); break;
    case MESSAGE_LAUNCH: take_launch(agent, &message->launch); break;
    case MESSAGE_RELEASE: take_for_program(agent, message, message->release.program); break;
    case MESSAGE_PRELOAD: take_for_program(agent, message, message->preload.program); break;
    case MESSAGE_SIGNAL: take_for_program(agent, message, message->signal.program); break;
    case MESSAGE_KILL: take_kill(agent, message); break;
    case MESSAGE_RESIZE: take_for_program(agent, message, message->resize.program); break;
    case MESSAGE_CANCEL: take_for_program(agent, message, message->cancel.program); break;
    case MESSAGE_OP_RESULT: take_for_program(agent, message, message->op_result.program); break;
    case MESSAGE_FREEZE: take_for_program(agent, message, message->freeze.program); break;
    case MESSAGE_THAW: take_for_program(agent, message, message->thaw.program); break;
    case MESSAGE_RESUME: take_for_program(agent, message, message->resume.program); break;
    case MESSAGE_PAUSE: resync_pause(agent, &message->pause); break;
    case MESSAGE_REESTABLISH: reestablish_begin(agent, &message->reestablish); break;
    case MESSAGE_HOLD: hold_begin(agent, &message->hold); break;
    case MESSAGE_LET_GO: hold_let_go(agent, &message->let_go); break;
    case MESSAGE_CAPTURE: capture_begin(agent, &message->capture); break;
    case MESSAGE_PLACE: place_begin(agent, &message->place); break;
    case MESSAGE_FILES: files_answer(agent, &message->files); break;
    case MESSAGE_RELAY: relay_begin(agent, &message->relay); break;
    case MESSAGE_RESET: relay_reset(agent, (uint16_t)message->reset.stream); break;
    case MESSAGE_SHUTDOWN: take_shutdown(agent, &message->shutdown); break;
    default: break; /* ERROR needs no answer */
    }
    return true;
}

/* Data for a program that is over has nowhere to go, and the stream was reset. */
static bool take_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    if (place_reads(arg, stream))
        return place_data(arg, bytes, is_end, err);
    if (relay_reads(arg, stream))
        return relay_data(arg, stream, bytes, is_end, err);
    struct program *program = program_of_stream(arg, stream);
    return !program || program_data(program, stream, bytes, is_end, err);
}

void agent_read(struct agent *agent)
{
    struct error err;

    if (!channel_read(&agent->channel, take_message, take_data, agent, &err))
        agent_die(agent, &err);
}

static void channel_ready(void *arg, unsigned events UNUSED)
{
    agent_read(arg);
}

bool agent_listen(struct agent *agent, struct error *err)
{
    return loop_add(agent->loop, agent->channel.fd_in, LOOP_READ, channel_ready, agent,
                    &agent->source_in, err);
}

/* Nothing to do: agent_settle flushes after every turn. */
static void channel_writable(void *arg UNUSED, unsigned events UNUSED)
{
}

/* One reaper for everything: inits are children, and so is whatever else the kernel hands to
 * PID 1. */
static void child_ended(void *arg, int number UNUSED)
{
    struct agent *agent = arg;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct program *program = program_of_pid(agent, pid);
        if (program)
            program_reaped(program, status);
        else
            (void)room_reaped(agent, pid);
    }
}

static bool flush(struct agent *agent, struct error *err)
{
    bool wants_write;

    if (!channel_flush(&agent->channel, &wants_write, err))
        return false;
    if (wants_write && !agent->source_out)
        return loop_add(agent->loop, agent->channel.fd_out, LOOP_WRITE, channel_writable, agent,
                        &agent->source_out, err);
    if (!wants_write) {
        loop_remove(agent->source_out);
        agent->source_out = NULL;
    }
    return true;
}

/* Programs may have more to say once the channel has taken something, so twice. */
static void agent_settle(struct agent *agent)
{
    struct error err;

    for (int round = 0; round < 2 && !agent->is_done; round++) {
        struct program *next;
        for (struct program *p = agent->programs; p; p = next) {
            next = p->next;
            program_settle(p);
        }
        room_settle(agent);
        capture_settle(agent);
        place_settle(agent);
        relay_settle(agent);
        if (agent->is_stopping && !agent->programs && !agent->room && !agent->is_done) {
            deliver_drop(agent);
            sandbox_clear(&agent->sandbox);
            agent_send(agent, MESSAGE_DONE, &(struct message_done){.id = agent->shutdown_id});
            agent->is_done = true;
        }
        if (!flush(agent, &err))
            agent_die(agent, &err);
        resync_settle(agent);
    }
    spares_settle(agent);
}

/* DONE is small, but the channel may be full of other things. */
static void flush_to_the_end(struct agent *agent)
{
    struct error err;
    bool wants_write = true;

    if (fcntl(agent->channel.fd_out, F_SETFL, 0) == 0 && agent->exit_code == 0)
        (void)!channel_flush(&agent->channel, &wants_write, &err);
}

static bool start(struct agent *agent, struct error *err)
{
    static const int signals[] = {SIGCHLD};

    signal(SIGPIPE, SIG_IGN);
    return loop_create(&agent->loop, err) &&
           loop_signals(agent->loop, signals, 1, child_ended, agent, err) &&
           agent_listen(agent, err);
}

int agent_run(struct agent *agent)
{
    struct error err;

    agent->next_stream = 2;
    seen_init(&agent->seen);
    hash_self(agent);
    if (start(agent, &err))
        agent_hello(agent);
    else
        agent_die(agent, &err);
    agent_settle(agent);
    while (!agent->is_done) {
        if (!loop_turn(agent->loop, -1, &err))
            agent_die(agent, &err);
        agent_settle(agent);
    }
    flush_to_the_end(agent);
    while (agent->programs)
        program_destroy(agent->programs);
    room_destroy(agent);
    spares_drop(agent);
    leftovers_drop(agent);
    capture_cancel(agent);
    place_cancel(agent);
    remember_drop(agent);
    relay_drop(agent);
    deliver_drop(agent);
    channel_finish(&agent->channel);
    arena_finish(&agent->sandbox.arena);
    loop_destroy(agent->loop);
    return agent->exit_code;
}
