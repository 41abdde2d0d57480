#include "guest/room.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/secret.h"
#include "guest/environment.h"
#include "guest/sharing.h"
#include "guest/spares.h"
#include "guest/stream.h"
#include "guest/terminal.h"

#define COPIED_ROOT SANDBOX_STATE "/root-room"

enum { START_MS = 60000, LINGER_MS = 200 };

struct room {
    pid_t pid; /* 0 once it is reaped */
    int control_fd;
    struct loop_source *source;
    struct loop_timer *kill_timer;
    struct group group;
    const char *root;
    struct buf spec; /* of the program that is being launched */
    bool is_ending;  /* the host wants it empty */
};

bool program_is_in_room(const struct program *program)
{
    return program->kind == PROGRAM_EXEC || program->kind == PROGRAM_PTY;
}

static void send_order(const struct room *room, const struct room_order *order, const int *fds,
                       size_t n_fds)
{
    /* A full socket means an init that is stuck; its kill deals with it. */
    (void)!room_send(room->control_fd, order, sizeof *order, fds, n_fds);
}

/* What has come of the output is all that will: a process left behind may hold the pipe open. */
static void stop_lingering(void *arg)
{
    struct program *program = arg;

    program->linger_timer = NULL;
    for (size_t i = 0; i < 2; i++)
        output_cut(&program->out[i]);
}

static void note_exit(struct program *program, int status)
{
    program->exit.status = status;
    program->has_exited = program->is_reaped = program->has_executed = true;
    loop_cancel(program->kill_timer);
    program->kill_timer = NULL;
    auto_close(&program->watcher_fd);
    program->watcher_fd = -1;
}

static void linger(struct program *program)
{
    program->linger_timer = loop_after(program->agent->loop, LINGER_MS, stop_lingering, program);
}

static void take_terminal(struct program *program, int fds[ROOM_FDS_MAX], size_t n_fds)
{
    AUTO_FD int master = take_fd(&fds[0]);
    AUTO_FD int other = fcntl(master, F_DUPFD_CLOEXEC, 0);

    if (other < 0 || fcntl(master, F_SETFL, O_NONBLOCK) != 0)
        return;
    output_begin(&program->out[0], take_fd(&master));
    if (program->in.stream)
        program->in.fd = take_fd(&other);
    program->in.is_awaited = false;
    if (n_fds > 1)
        program->watcher_fd = take_fd(&fds[1]);
}

static void take_start(struct program *program, const struct room_news *news)
{
    program->room_pid = news->pid;
    program->has_executed = true;
    program_started(program, (struct str){0});
}

static void take_failure(struct program *program, const struct room_news *news)
{
    const char *what = news->stage == STAGE_CWD ? program->cwd : program->main_name;
    bool is_theirs = news->stage == STAGE_CWD || news->stage == STAGE_EXEC;
    char text[1024];

    note_exit(program, 127 << 8);
    snprintf(text, sizeof text, "%.900s: %s", what, strerror(news->value));
    program_failed(program, init_stage_name(news->stage), news->value,
                   is_theirs ? "launch_failed" : "agent_unhealthy", text);
    stop_lingering(program);
}

static void take_news(struct agent *agent, const struct room_news *news, int fds[ROOM_FDS_MAX],
                      size_t n_fds)
{
    struct program *program = program_find(agent, news->program);

    if (news->kind == ROOM_STILL || news->kind == ROOM_MOVES)
        (void)hold_heard(agent, &agent->hold.room, news->kind == ROOM_STILL, (uint64_t)news->value);
    if (!program || !program_is_in_room(program))
        return;
    switch (news->kind) {
    case ROOM_TERMINAL:
        if (n_fds > 0)
            take_terminal(program, fds, n_fds);
        break;
    case ROOM_STARTED: take_start(program, news); break;
    case ROOM_FAILED: take_failure(program, news); break;
    case ROOM_EXITED:
        take_start(program, news);
        program->exit.cpu_ms = news->cpu_ms;
        program->exit.max_rss_kib = news->max_rss_kib;
        note_exit(program, news->value);
        linger(program);
        break;
    default: break;
    }
}

/* False when there is no more to come now. */
static bool read_news(struct agent *agent)
{
    struct room *room = agent->room;
    int fds[ROOM_FDS_MAX];
    struct room_news news;
    size_t n_fds;

    ssize_t got = room_receive(room->control_fd, &news, sizeof news, fds, &n_fds);
    if (got == sizeof news)
        take_news(agent, &news, fds, n_fds);
    for (size_t i = 0; i < n_fds; i++)
        auto_close(&fds[i]);
    if (got == 0) {
        loop_remove(room->source);
        room->source = NULL;
    }
    return got == sizeof news;
}

static void control_ready(void *arg, unsigned events UNUSED)
{
    (void)!read_news(arg);
}

/* Waits until the init has become its own image, or could not. It is a matter of milliseconds, and
 * once in the life of a sandbox. */
static bool await_init(int report_fd, struct error *err)
{
    struct pollfd ready = {.fd = report_fd, .events = POLLIN};
    struct init_report report;

    if (poll(&ready, 1, START_MS) <= 0)
        return error_set(err, ERR_TIMEOUT, "the room's init did not start");
    ssize_t got = read(report_fd, &report, sizeof report);
    if (got == 0)
        return true;
    if (got != sizeof report)
        return error_errno(err, "starting the room");
    errno = report.sys;
    return error_errno(err, "%s: %.*s", init_stage_name(report.stage), (int)sizeof report.text - 1,
                       report.text);
}

static bool start_init(struct agent *agent, struct room *room, struct error *err)
{
    int control[2], report[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0)
        return error_errno(err, "making the room's socket");
    AUTO_FD int theirs = control[1];
    room->control_fd = control[0];
    if (fcntl(room->control_fd, F_SETFL, O_NONBLOCK) != 0 || pipe2(report, O_CLOEXEC) != 0)
        return error_errno(err, "making the room's pipe");
    AUTO_FD int told = report[0];
    AUTO_FD int teller = report[1];
    struct init_spec spec = {
        .sandbox = &agent->sandbox,
        .root = room->root,
        .group = &room->group,
        .std = {-1, -1, -1},
        .adapter_fd = -1,
        .barrier_fd = -1,
        .self_fd = agent->self_fd,
        .control_fd = theirs,
        .report_fd = teller,
        .mounts_fd = -1,
        .mask = agent->mask,
    };
    if (!init_start(&spec, &room->pid, err))
        return false;
    close(take_fd(&teller));
    return await_init(told, err) && loop_add(agent->loop, room->control_fd, LOOP_READ,
                                             control_ready, agent, &room->source, err);
}

/* Under a shared table of mounts it gets a root of its own, so that no task covers its /proc. */
static bool room_make(struct agent *agent, struct error *err)
{
    struct room *room = alloc(sizeof *room);

    *room = (struct room){.control_fd = -1,
                          .group = GROUP_NONE,
                          .root = SANDBOX_ROOT,
                          .spec = {.max = ROOM_SPEC_MAX}};
    agent->room = room;
    if (agent->sandbox.shares_mounts) {
        room->root = COPIED_ROOT;
        if (mkdir(COPIED_ROOT, 0755) != 0 && errno != EEXIST)
            return error_errno(err, "making %s", COPIED_ROOT);
    }
    return (!agent->boot || group_make(&room->group, 0, err)) && start_init(agent, room, err);
}

static bool append_text(struct buf *text, const char *value, struct error *err)
{
    return buf_append(text, (struct str){value, strlen(value) + 1}, err);
}

static bool write_spec(struct program *program, const struct message_launch *launch,
                       struct buf *text, struct error *err)
{
    const struct user *user = &program->user;
    struct room_spec spec = {
        .n_argv = (uint32_t)launch->argv.n,
        .is_terminal = program->kind == PROGRAM_PTY,
        .cols = launch->cols,
        .rows = launch->rows,
        .uid = user->uid,
        .gid = user->gid,
        .n_groups = (uint32_t)user->n_groups,
    };
    struct environment env;

    memcpy(spec.groups, user->groups, sizeof spec.groups);
    environment_build(&env, &program->arena, program->agent->sandbox.env, launch->env, user,
                      program->cwd);
    spec.n_env = (uint32_t)env.n;
    text->len = 0;
    bool is_whole = buf_append(text, (struct str){(const char *)&spec, sizeof spec}, err);
    for (size_t i = 0; is_whole && i < launch->argv.n; i++)
        is_whole = buf_append(text, launch->argv.items[i], err) &&
                   buf_append(text, (struct str){"", 1}, err);
    for (size_t i = 0; is_whole && i < env.n; i++)
        is_whole = append_text(text, env.block[i], err);
    const char *path = environment_get(&env, "PATH");
    return is_whole && append_text(text, path ? path : "", err) &&
           append_text(text, program->cwd, err);
}

/* With a file of its own, for what is larger than a socket takes now. */
static bool send_file(const struct room *room, const struct room_order *order,
                      int fds[ROOM_FDS_MAX], size_t n_fds, struct error *err)
{
    AUTO_FD int file = memfd_create("program", MFD_CLOEXEC);

    if (file < 0 || write(file, room->spec.bytes, room->spec.len) != (ssize_t)room->spec.len)
        return error_errno(err, "writing down the program");
    fds[0] = file;
    return room_send(room->control_fd, order, sizeof *order, fds, n_fds + 1) ||
           error_errno(err, "ordering the program");
}

static bool send_launch(const struct room *room, const struct program *program, const int std[3],
                        struct error *err)
{
    const struct room_order order = {.kind = ROOM_LAUNCH, .program = program->number};
    int fds[ROOM_FDS_MAX] = {-1, std[1], std[2], std[0]};
    size_t n_fds = program->kind == PROGRAM_PTY ? 0 : std[0] < 0 ? 2 : 3;

    return (room->spec.len <= ROOM_TEXT_MAX &&
            room_send_text(room->control_fd, &order, sizeof order, buf_str(&room->spec), fds + 1,
                           n_fds)) ||
           send_file(room, &order, fds, n_fds, err);
}

bool room_launch(struct program *program, const struct message_launch *launch, const int std[3],
                 struct error *err)
{
    struct agent *agent = program->agent;
    const struct sandbox *sandbox = &agent->sandbox;
    const char *fallback = sandbox->mount ? sandbox->mount : sandbox->workdir;

    if (agent->room && agent->room->is_ending)
        return error_set(err, ERR_CONFLICT, "the sandbox is being emptied");
    program->cwd = launch->cwd.len ? arena_text(&program->arena, launch->cwd) : fallback;
    if (!program_choose_user(program, launch->user, err))
        return false;
    if (!agent->room && !room_make(agent, err)) {
        room_destroy(agent);
        return false;
    }
    program->root = agent->room->root;
    program->starved = room_starved(agent);
    bool is_sent = write_spec(program, launch, &agent->room->spec, err) &&
                   send_launch(agent->room, program, std, err);
    /* Variables may be secrets: they are the program's alone from here on. */
    bytes_wipe(agent->room->spec.bytes, agent->room->spec.len);
    return is_sent;
}

void room_order(struct program *program, enum init_order order, int value)
{
    const struct room *room = program->agent->room;
    struct room_order packet = {.kind = ROOM_SESSION, .program = program->number};

    if (!room || program->is_reaped)
        return;
    switch (order) {
    case INIT_TERM: packet.value = program->kind == PROGRAM_PTY ? SIGHUP : SIGTERM; break;
    case INIT_KILL: packet.value = SIGKILL; break;
    case INIT_SIGNAL:
        if (program->kind == PROGRAM_PTY && terminal_signal(program, value))
            return;
        packet.kind = ROOM_SIGNAL;
        packet.value = (uint32_t)value;
        break;
    case INIT_STOP:
    case INIT_CONT: return; /* the room stands still as a whole */
    }
    send_order(room, &packet, NULL, 0);
    if (order == INIT_TERM) {
        packet.value = SIGCONT;
        send_order(room, &packet, NULL, 0);
    }
}

void room_resize(struct program *program, const struct message_resize *resize)
{
    if (program->kind == PROGRAM_PTY)
        terminal_resize(program, resize->cols, resize->rows);
}

static void kill_room(void *arg)
{
    struct room *room = arg;

    room->kill_timer = NULL;
    if (room->pid > 0)
        kill(room->pid, SIGKILL);
}

void room_end(struct agent *agent, uint64_t grace_ms)
{
    struct room *room = agent->room;
    int64_t delay = grace_ms < INT32_MAX ? (int64_t)grace_ms : INT32_MAX;

    hold_end(agent);
    agent->is_room_unwanted = true;
    if (!room)
        return;
    room->is_ending = true;
    loop_cancel(room->kill_timer);
    room->kill_timer = NULL;
    if (grace_ms == 0) {
        kill_room(room);
        return;
    }
    send_order(room, &(struct room_order){.kind = ROOM_ALL, .value = SIGHUP}, NULL, 0);
    send_order(room, &(struct room_order){.kind = ROOM_ALL, .value = SIGTERM}, NULL, 0);
    room->kill_timer = loop_after(agent->loop, delay, kill_room, room);
}

uint64_t room_starved(const struct agent *agent)
{
    return agent->room ? group_starved(&agent->room->group) : 0;
}

void room_stop(struct agent *agent)
{
    if (agent->room)
        send_order(agent->room, &(struct room_order){.kind = ROOM_STOP}, NULL, 0);
}

void room_continue(struct agent *agent)
{
    if (agent->room)
        send_order(agent->room, &(struct room_order){.kind = ROOM_CONTINUE}, NULL, 0);
}

bool room_reaped(struct agent *agent, pid_t pid)
{
    struct room *room = agent->room;

    if (!room || room->pid != pid)
        return false;
    room->pid = 0;
    while (room->source && read_news(agent))
        ;
    for (struct program *p = agent->programs; p; p = p->next) {
        if (!program_is_in_room(p) || p->is_reaped)
            continue;
        note_exit(p, SIGKILL);
        linger(p);
    }
    room_destroy(agent);
    return true;
}

void room_settle(struct agent *agent)
{
    if (!agent->is_room_unwanted || agent->room)
        return;
    for (const struct program *p = agent->programs; p; p = p->next) {
        if (program_is_in_room(p))
            return;
    }
    agent->is_room_unwanted = false;
    agent_send(agent, MESSAGE_QUIESCED, &(struct message_quiesced){.program = 0});
}

void room_destroy(struct agent *agent)
{
    struct room *room = TAKE(agent->room);

    if (!room)
        return;
    spares_drop(agent);
    loop_cancel(room->kill_timer);
    loop_remove(room->source);
    auto_close(&room->control_fd);
    /* Not reaped yet: it never came to be the room, and the agent reaps what it started. */
    if (room->pid > 0) {
        kill(room->pid, SIGKILL);
        (void)!waitpid(room->pid, NULL, 0);
    }
    group_remove(&room->group);
    if (agent->sandbox.shares_mounts)
        sharing_clear_root(room->root);
    buf_finish(&room->spec);
    free(room);
    hold_gone(agent, &agent->hold.room);
}
