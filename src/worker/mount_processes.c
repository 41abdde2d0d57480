/* The programs of a mount: started, fed, signalled and followed as the server asks. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/guest_state.h"
#include "worker/mount.h"

enum {
    FORMER_MAX = 1024,
    STREAM_FIRST = 16,    /* lower ones are the capture's, the place's and a task's */
    STREAM_ROUNDS = 7900, /* programs until a number is used again; higher ones are relays' */
    INPUT_MAX = 32 * 1024 * 1024,
};

enum { STREAM_OUT, STREAM_ERR, STREAM_IN };

struct process {
    struct process *next;
    struct mount *mount;
    struct arena arena;
    char id[ID_TEXT];
    bool is_terminal, is_launched, is_killed;
    const struct wire_message *wish; /* until it is launched */
    uint32_t program;
    int64_t ends[2]; /* bytes that came of each output */
    size_t owed[2];  /* credit withheld */
    struct buf input;
    int64_t input_end;   /* bytes that came for it */
    int64_t input_given; /* of those, sent on */
    int64_t input_told;
    bool input_closed, input_ended;
    int64_t pid;
    bool has_exited;
    struct message_exited exit;
    char error[512];
};

static uint16_t stream_of(const struct process *process, unsigned which)
{
    return (uint16_t)((STREAM_FIRST + process->program % STREAM_ROUNDS) * 8 + 1 + which * 2);
}

static struct process *find(const struct mount *mount, struct str id)
{
    struct process *process = mount->processes;

    while (process && !str_equal(str_of(process->id), id))
        process = process->next;
    return process;
}

static struct process *find_program(const struct mount *mount, uint32_t program)
{
    struct process *process = mount->processes;

    while (process && (!process->is_launched || process->program != program))
        process = process->next;
    return process;
}

static bool was_here(const struct mount *mount, struct str id)
{
    size_t n = mount->n_former < FORMER_MAX ? mount->n_former : FORMER_MAX;

    for (size_t i = 0; i < n; i++) {
        if (str_equal(str_of(mount->former[i]), id))
            return true;
    }
    return false;
}

static void process_free(struct process *process)
{
    buf_finish(&process->input);
    arena_finish(&process->arena);
    free(process);
}

/* Remembered, so that a message told twice does not begin it again. */
static void process_remove(struct process *process)
{
    struct mount *mount = process->mount;
    struct process **link = &mount->processes;

    while (*link != process)
        link = &(*link)->next;
    *link = process->next;
    if (!mount->former)
        mount->former = alloc(FORMER_MAX * sizeof *mount->former);
    memcpy(mount->former[mount->n_former++ % FORMER_MAX], process->id, ID_TEXT);
    mount->n_processes--;
    mount->n_live -= process->is_launched;
    mount->touched_ms = time_boot_ms();
    process_free(process);
}

static void tell(struct process *process, const char *state, const char *signal, const char *error)
{
    process->input_told = process->input_given;
    mount_output_tell(process->mount->output, &(struct mount_news){
                                                  .process_id = process->id,
                                                  .state = state,
                                                  .pid = process->pid,
                                                  .exit_code = process->exit.exit_code,
                                                  .input_offset = process->input_given,
                                                  .signal = signal,
                                                  .error = error,
                                              });
}

/* A number is free again long before its turn comes, but for a program that runs on and on. */
static bool number_is_free(const struct mount *mount, uint32_t program)
{
    for (const struct process *p = mount->processes; p; p = p->next) {
        if (p->is_launched && p->program % STREAM_ROUNDS == program % STREAM_ROUNDS)
            return false;
    }
    return true;
}

static uint32_t next_number(struct mount *mount)
{
    do
        mount->n_launched++;
    while (!number_is_free(mount, mount->guest->program + mount->n_launched));
    return mount->guest->program + mount->n_launched;
}

static bool open_streams(const struct process *process, struct error *err)
{
    struct channel *channel = &process->mount->guest->channel;

    return channel_open_stream(channel, stream_of(process, STREAM_OUT), CHANNEL_RECEIVES, err) &&
           channel_open_stream(channel, stream_of(process, STREAM_ERR), CHANNEL_RECEIVES, err) &&
           channel_open_stream(channel, stream_of(process, STREAM_IN), CHANNEL_SENDS, err);
}

static struct str_list variables_of(const struct process *process, struct arena *arena)
{
    const struct json_map *env = &process->wish->env;
    struct str *list = arena_array(arena, env->n + 2, sizeof *list);
    size_t n = 0;

    if (process->is_terminal)
        list[n++] = STR("TERM=xterm-256color");
    for (size_t i = 0; i < env->n; i++)
        list[n++] = str_of(arena_printf(arena, "%.*s=%.*s", (int)env->pairs[i].name.len,
                                        env->pairs[i].name.ptr, (int)env->pairs[i].value.len,
                                        env->pairs[i].value.ptr));
    return (struct str_list){list, n};
}

static bool launch(struct process *process, struct error *err)
{
    static const struct str shell[] = {STR("sh"), STR("-l")};
    struct guest *guest = process->mount->guest;
    const struct wire_message *wish = process->wish;

    process->program = next_number(process->mount);
    process->is_launched = true;
    process->mount->n_live++;
    struct message_launch message = {
        .id = ++guest->number,
        .program = process->program,
        .kind = process->is_terminal ? PROGRAM_PTY : PROGRAM_EXEC,
        .argv = {wish->command.items, wish->command.n},
        .env = variables_of(process, &process->arena),
        .cwd = wish->cwd,
        .cols = (uint32_t)wish->cols,
        .rows = (uint32_t)wish->rows,
        .stdin_stream = stream_of(process, STREAM_IN),
        .stdout_stream = stream_of(process, STREAM_OUT),
        .stderr_stream = stream_of(process, STREAM_ERR),
        .generation = guest->generation,
    };
    if (process->is_terminal && wish->command.n == 0)
        message.argv = (struct str_list){shell, COUNT_OF(shell)};
    return open_streams(process, err) && guest_send(guest, MESSAGE_LAUNCH, &message, err);
}

static void refuse(struct process *process, const char *why)
{
    tell(process, "failed", NULL, why);
    process_remove(process);
}

void mount_start_waiting(struct mount *mount)
{
    struct process *next;
    struct error err;

    if (guest_is_still(mount->guest))
        return;
    for (struct process *p = mount->processes; p && mount->n_live < MOUNT_LIVE_MAX; p = next) {
        next = p->next;
        if (!p->is_launched && !launch(p, &err))
            refuse(p, err.text);
    }
}

void mount_refuse_waiting(struct mount *mount, const char *why)
{
    struct process *next;

    for (struct process *p = mount->processes; p; p = next) {
        next = p->next;
        if (!p->is_launched)
            refuse(p, why);
    }
}

void mount_process_start(struct mount *mount, const struct wire_message *message)
{
    AUTO(buf_finish) struct buf text = {.max = (size_t)2 * WIRE_JSON_MAX};
    struct json_writer writer = json_begin(&text);
    struct error err;

    if (find(mount, message->process_id) || was_here(mount, message->process_id))
        return;
    struct process *process = alloc(sizeof *process);
    struct process **last = &mount->processes;
    *process = (struct process){.mount = mount, .input = {.max = INPUT_MAX}};
    snprintf(process->id, sizeof process->id, "%.*s", (int)message->process_id.len,
             message->process_id.ptr);
    process->is_terminal = str_equal(message->process_kind, STR("pty"));
    while (*last)
        last = &(*last)->next;
    *last = process;
    mount->n_processes++;
    /* It may wait for a place, and the message does not. */
    struct wire_message *wish = arena_alloc(&process->arena, sizeof *wish);
    wire_write(&writer, NULL, wire_message_body_fields, message);
    if (!json_end(&writer, &err) || !json_read(buf_str(&text), wire_message_body_fields, wish,
                                               sizeof *wish, &process->arena, &err))
        refuse(process, err.text);
    else if (mount->is_ending)
        refuse(process, "the workspace is being unmounted");
    else if (mount->n_processes > MOUNT_WAITING_MAX)
        refuse(process, "too many programs wait to be started");
    else
        process->wish = wish;
    mount_start_waiting(mount);
}

/* What came before is passed over; what does not follow it is lost for good. */
void mount_process_input(struct mount *mount, const struct wire_message *message)
{
    struct process *process = find(mount, message->process_id);
    AUTO_FREE char *bytes = alloc(base64_decoded_max(message->data.len) + 1);
    size_t len = base64_decoded_max(message->data.len);
    struct error err;

    if (!process || process->input_closed || !base64_decode(message->data, bytes, &len))
        return;
    int64_t skip = process->input_end - message->offset;
    if (skip < 0) {
        log_warn("input with a gap", LOG_STR("process", process->id));
        return;
    }
    if (skip >= (int64_t)len)
        return;
    struct str rest = {bytes + skip, len - (size_t)skip};
    if (!buf_append(&process->input, rest, &err)) {
        log_warn("input lost", LOG_STR("process", process->id), LOG_ERR(&err));
        return;
    }
    process->input_end += (int64_t)rest.len;
    guest_flush(mount->guest);
}

void mount_process_input_close(struct mount *mount, const struct wire_message *message)
{
    struct process *process = find(mount, message->process_id);

    if (!process)
        return;
    process->input_closed = true;
    guest_flush(mount->guest);
}

static void send_to(struct mount *mount, enum message_type type, const void *message)
{
    struct error err;

    if (!guest_send(mount->guest, type, message, &err))
        guest_break_off(mount->guest, &err);
}

void mount_process_resize(struct mount *mount, const struct wire_message *message)
{
    struct process *process = find(mount, message->process_id);

    if (process && process->is_launched)
        send_to(mount, MESSAGE_RESIZE,
                &(struct message_resize){++mount->guest->number, process->program,
                                         (uint32_t)message->cols, (uint32_t)message->rows});
}

static const struct {
    const char *name;
    int number;
} signals[] = {
    {"HUP",  SIGHUP },
    {"INT",  SIGINT },
    {"QUIT", SIGQUIT},
    {"ILL",  SIGILL },
    {"TRAP", SIGTRAP},
    {"ABRT", SIGABRT},
    {"BUS",  SIGBUS },
    {"FPE",  SIGFPE },
    {"KILL", SIGKILL},
    {"USR1", SIGUSR1},
    {"SEGV", SIGSEGV},
    {"USR2", SIGUSR2},
    {"PIPE", SIGPIPE},
    {"ALRM", SIGALRM},
    {"TERM", SIGTERM},
    {"XCPU", SIGXCPU},
    {"XFSZ", SIGXFSZ},
    {"SYS",  SIGSYS },
};

/* The name of a signal, or its number for one that no program should die of. */
static const char *signal_name(uint32_t number, char text[16])
{
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        if (signals[i].number == (int)number)
            return signals[i].name;
    }
    snprintf(text, 16, "%u", number);
    return text;
}

static int signal_number(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        if (str_equal(name, str_of(signals[i].name)))
            return signals[i].number;
    }
    return 0;
}

static void kill_process(struct process *process, uint64_t grace_ms)
{
    struct mount *mount = process->mount;

    process->is_killed = true;
    if (!process->is_launched)
        refuse(process, "ended before it began");
    else
        send_to(mount, MESSAGE_KILL,
                &(struct message_kill){++mount->guest->number, process->program, grace_ms});
}

/* What must die takes everything of its session with it. */
void mount_process_signal(struct mount *mount, const struct wire_message *message)
{
    struct process *process = find(mount, message->process_id);
    int number = signal_number(message->signal);

    if (!process || number == 0)
        return;
    if (number == SIGKILL || !process->is_launched)
        kill_process(process, 0);
    else
        send_to(mount, MESSAGE_SIGNAL,
                &(struct message_signal){++mount->guest->number, process->program,
                                         (uint32_t)number});
}

void mount_process_close(struct mount *mount, const struct wire_message *message)
{
    struct process *process = find(mount, message->process_id);

    if (process)
        kill_process(process, MOUNT_GRACE_MS);
}

/* On engines with a kernel of ours the agent knows; elsewhere the sandbox's own group does. */
static bool was_starved(const struct process *process)
{
    const struct message_exited *exit = &process->exit;
    bool was_killed = exit->signal == SIGKILL || exit->exit_code == 128 + SIGKILL;
    struct instance_usage usage;
    struct error ignored;

    return exit->oom ||
           (was_killed && !process->is_killed && !process->mount->is_ending &&
            instance_usage(process->mount->guest->instance, &usage, &ignored) && usage.oom_killed);
}

static void take_end(struct process *process)
{
    char text[16];

    if (!process->has_exited) {
        refuse(process, process->error[0] ? process->error : "it could not be started");
        return;
    }
    const char *signal = process->exit.signal ? signal_name(process->exit.signal, text) : NULL;
    tell(process, "exited", signal,
         was_starved(process) ? "killed: the sandbox has no more memory" : NULL);
    process_remove(process);
}

static void take_refusal(struct mount *mount, const struct message_error *error, bool *is_taken)
{
    *is_taken = str_equal(error->stage, STR("launch")) || str_equal(error->stage, STR("signal"));
    if (*is_taken)
        log_warn("the agent refused", LOG_STR("lease", mount->lease->id),
                 LOG_SLICE("text", error->text));
}

static void take_failure(struct process *process, const struct message_launch_failed *failed)
{
    snprintf(process->error, sizeof process->error, "%.*s", (int)failed->text.len,
             failed->text.ptr);
}

static uint32_t program_of(const struct message *message)
{
    switch ((unsigned)message->type) {
    case MESSAGE_STARTED: return message->started.program;
    case MESSAGE_LAUNCH_FAILED: return message->launch_failed.program;
    case MESSAGE_EXITED: return message->exited.program;
    case MESSAGE_QUIESCED: return message->quiesced.program;
    default: return 0;
    }
}

bool mount_hears(void *arg, const struct message *message, bool *is_taken, struct error *err UNUSED)
{
    struct mount *mount = arg;

    *is_taken = mount_files_hear(mount, message);
    if (*is_taken)
        return true;
    if (message->type == MESSAGE_ERROR)
        take_refusal(mount, &message->error, is_taken);
    if (message->type == MESSAGE_QUIESCED && message->quiesced.program == 0)
        mount->is_empty = *is_taken = true;
    uint32_t program = program_of(message);
    struct process *process = program ? find_program(mount, program) : NULL;
    if (!process)
        return true;
    *is_taken = true;
    if (message->type == MESSAGE_STARTED) {
        process->pid = message->started.pid;
        tell(process, "started", NULL, NULL);
    } else if (message->type == MESSAGE_LAUNCH_FAILED) {
        take_failure(process, &message->launch_failed);
    } else if (message->type == MESSAGE_EXITED) {
        process->exit = message->exited;
        process->has_exited = true;
    } else {
        take_end(process);
        mount_start_waiting(mount);
    }
    return true;
}

bool mount_gets_data(void *arg, uint16_t stream, struct str bytes, bool is_end UNUSED,
                     bool *is_taken, struct error *err)
{
    struct mount *mount = arg;
    struct process *process = mount->processes;
    unsigned which = STREAM_OUT;

    for (; process; process = process->next) {
        which = stream_of(process, STREAM_ERR) == stream ? STREAM_ERR : STREAM_OUT;
        if (process->is_launched && stream_of(process, which) == stream)
            break;
    }
    *is_taken = process;
    if (!process || bytes.len == 0)
        return true;
    const char *name = process->is_terminal ? "output" : which == STREAM_OUT ? "stdout" : "stderr";
    bool has_room = mount_output_add(mount->output, process->id, name, process->ends[which], bytes);
    process->ends[which] += (int64_t)bytes.len;
    if (has_room && process->owed[which] == 0)
        return channel_consumed(&mount->guest->channel, stream, bytes.len, err);
    process->owed[which] += bytes.len;
    return true;
}

static bool pump(struct process *process, struct error *err)
{
    struct channel *channel = &process->mount->guest->channel;
    uint16_t stream = stream_of(process, STREAM_IN);

    /* A program that reads no more has taken all that it will. */
    if (!channel_is_open(channel, stream, CHANNEL_SENDS)) {
        process->input_given = process->input_end;
        process->input.len = 0;
        return true;
    }
    size_t room = channel_send_room(channel, stream);
    size_t n = process->input.len < room ? process->input.len : room;
    bool is_last = process->input_closed && n == process->input.len;
    if (process->input_ended || (n == 0 && !is_last))
        return true;
    if (!channel_send_data(channel, stream, (struct str){process->input.bytes, n}, is_last, err))
        return false;
    buf_consume(&process->input, n);
    process->input_given += (int64_t)n;
    process->input_ended = is_last;
    return true;
}

bool mount_pumps(void *arg, struct error *err)
{
    struct mount *mount = arg;

    for (struct process *p = mount->processes; p; p = p->next) {
        if (!p->is_launched)
            continue;
        if (!pump(p, err))
            return false;
        if (p->input_given != p->input_told && !p->has_exited)
            tell(p, "running", NULL, NULL);
    }
    return true;
}

bool mount_has_room(void *arg, struct error *err)
{
    struct mount *mount = arg;

    if (!mount_output_has_room(mount->output))
        return true;
    for (struct process *p = mount->processes; p; p = p->next) {
        for (unsigned which = 0; which < 2 && p->is_launched; which++) {
            size_t n = p->owed[which];
            p->owed[which] = 0;
            if (n > 0 && !channel_consumed(&mount->guest->channel, stream_of(p, which), n, err))
                return false;
        }
    }
    return true;
}

void mount_processes_lost(struct mount *mount, const char *why)
{
    for (struct process *process = mount->processes, *next; process; process = next) {
        next = process->next;
        /* What was launched may have begun, though nobody could say so any more. */
        if (process->is_launched && !process->error[0])
            tell(process, "exited", "KILL", why);
        else
            tell(process, "failed", NULL, why);
        process_remove(process);
    }
}

void mount_processes_free(struct mount *mount)
{
    while (mount->processes) {
        struct process *process = mount->processes;
        mount->processes = process->next;
        process_free(process);
    }
    free(mount->former);
}
