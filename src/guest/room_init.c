#include "guest/room_init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/time.h"
#include "guest/confine.h"
#include "guest/exec.h"
#include "guest/group.h"
#include "guest/init.h"
#include "guest/room_wire.h"
#include "guest/stop.h"
#include "guest/terminal.h"

enum { CONTROL_FD = 3, PROC_FD = 4, FREEZE_FD = 5, EVENTS_FD = 6, RUN_FD = 7 };

/* START_MS: how long a start waits for its end, so that a short program is one piece of news. */
enum { KILL_ROUNDS = 20, START_MS = 10 };

struct member {
    uint32_t program; /* 0: a free place */
    pid_t pid;
    int64_t tell_ms; /* when its start is due to be told; 0: it was */
};

struct room_keeper {
    struct member members[ROOM_PROGRAMS_MAX];
    struct stop stop;
    int run_fd; /* of the control group, or -1 */
    bool is_ending, is_alone, is_orphaned;
};

/* An order and the spec that came with it. */
struct packet {
    struct room_order order;
    char text[ROOM_TEXT_MAX];
};

/* A program about to be, as its child reads it. */
struct recruit {
    char *text;   /* of a spec that came as a file, or NULL */
    char **words; /* the same of its lists */
    struct room_spec spec;
    struct user user;
    char **argv, **env;
    const char *path, *cwd;
    int std[3];
    int terminal;   /* the controlling end, or -1 */
    int watcher[2]; /* the pipe to its watcher, or -1 */
    char slave[32]; /* the other end's path */
    int run_fd;
    enum init_stage stage; /* of a failure; written by the child, whose memory is ours */
    volatile int sys;
};

static char *few_words[ROOM_TEXT_MAX + 2];

static void tell(const struct room_news *news)
{
    /* An agent that does not listen is gone, and this end with it. */
    (void)!room_send(CONTROL_FD, news, sizeof *news, NULL, 0);
}

static struct member *find_member(struct room_keeper *keeper, uint32_t program)
{
    for (size_t i = 0; i < ROOM_PROGRAMS_MAX; i++) {
        if (keeper->members[i].program == program)
            return &keeper->members[i];
    }
    return NULL;
}

static uint64_t milliseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_usec / 1000;
}

static void note_end(struct room_keeper *keeper, pid_t pid, int status, const struct rusage *used)
{
    for (size_t i = 0; i < ROOM_PROGRAMS_MAX; i++) {
        struct member *member = &keeper->members[i];
        if (member->program == 0 || member->pid != pid)
            continue;
        tell(&(struct room_news){
            .kind = ROOM_EXITED,
            .program = member->program,
            .pid = pid,
            .value = status,
            .cpu_ms = milliseconds(used->ru_utime) + milliseconds(used->ru_stime),
            .max_rss_kib = (uint64_t)used->ru_maxrss,
        });
        *member = (struct member){0};
        return;
    }
}

static void reap(struct room_keeper *keeper)
{
    struct rusage used;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &used)) > 0)
        note_end(keeper, pid, status, &used);
    keeper->is_alone = pid < 0 && errno == ECHILD;
}

/* The texts behind the spec; false when they are not all there. */
static bool read_texts(char **list, size_t n, char **at, const char *end)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strnlen(*at, (size_t)(end - *at));
        if (*at + len >= end)
            return false;
        list[i] = *at;
        *at += len + 1;
    }
    return true;
}

static bool read_spec(struct recruit *recruit, char *text, size_t len, char **words)
{
    struct room_spec *spec = &recruit->spec;
    char *last[2], *at = text + sizeof *spec;
    const char *end = text + len;

    memcpy(spec, text, sizeof *spec);
    if (spec->n_argv == 0 || spec->n_argv > len || spec->n_env > len ||
        spec->n_groups > USER_GROUPS_MAX)
        return false;
    if (!words)
        words = recruit->words = calloc((size_t)spec->n_argv + spec->n_env + 2, sizeof *words);
    if (!words)
        return false;
    recruit->argv = words;
    recruit->env = words + spec->n_argv + 1;
    recruit->argv[spec->n_argv] = NULL;
    if (!read_texts(recruit->argv, spec->n_argv, &at, end) ||
        !read_texts(recruit->env, spec->n_env, &at, end) || !read_texts(last, 2, &at, end))
        return false;
    recruit->env[spec->n_env] = NULL;
    recruit->path = last[0];
    recruit->cwd = last[1];
    recruit->user = (struct user){.uid = spec->uid, .gid = spec->gid, .n_groups = spec->n_groups};
    memcpy(recruit->user.groups, spec->groups, sizeof spec->groups);
    return true;
}

static bool read_file(struct recruit *recruit, int fd)
{
    struct stat info;

    if (fstat(fd, &info) != 0 || info.st_size < (off_t)sizeof recruit->spec ||
        info.st_size > ROOM_SPEC_MAX)
        return false;
    size_t len = (size_t)info.st_size;
    recruit->text = alloc(len);
    return pread(fd, recruit->text, len, 0) == (ssize_t)len &&
           read_spec(recruit, recruit->text, len, NULL);
}

static void recruit_finish(struct recruit *recruit)
{
    for (size_t i = 0; i < 3; i++)
        auto_close(&recruit->std[i]);
    auto_close(&recruit->terminal);
    auto_close(&recruit->watcher[0]);
    auto_close(&recruit->watcher[1]);
    free(recruit->words);
    free(recruit->text);
}

/* In the room's own devpts; the program's user owns its end, as after a login. */
static bool open_terminal(struct recruit *recruit)
{
    const struct room_spec *spec = &recruit->spec;
    struct winsize size = {.ws_col = (unsigned short)spec->cols,
                           .ws_row = (unsigned short)spec->rows};
    int unlocked = 0;
    unsigned number;

    recruit->terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (recruit->terminal < 0 || ioctl(recruit->terminal, TIOCSPTLCK, &unlocked) != 0 ||
        ioctl(recruit->terminal, TIOCGPTN, &number) != 0 ||
        ioctl(recruit->terminal, TIOCSWINSZ, &size) != 0 ||
        (terminal_needs_watcher(recruit->terminal) && pipe2(recruit->watcher, O_CLOEXEC) != 0))
        return false;
    snprintf(recruit->slave, sizeof recruit->slave, "/dev/pts/%u", number);
    /* Not every kernel lets it be changed; then it is open to whoever has it open already. */
    if (chown(recruit->slave, spec->uid, spec->gid) == 0)
        (void)!chmod(recruit->slave, 0620);
    return true;
}

static bool take_terminal(const struct recruit *recruit, int std[5])
{
    int fd = open(recruit->slave, O_RDWR | O_NOCTTY | O_CLOEXEC);

    for (size_t i = 0; i < 3; i++)
        std[i] = fd;
    return fd >= 0 && ioctl(fd, TIOCSCTTY, 0) == 0 &&
           (recruit->watcher[0] < 0 || terminal_watch(fd, recruit->watcher[0]));
}

static _Noreturn void fail(struct recruit *recruit, enum init_stage stage)
{
    recruit->sys = errno ? errno : EIO;
    recruit->stage = stage;
    _exit(127);
}

/* In a child that has our memory: it changes nothing there but what says why it failed. */
static _Noreturn void run_child(struct recruit *recruit)
{
    int std[] = {recruit->std[0], recruit->std[1], recruit->std[2], -1, -1};
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!group_enter(recruit->run_fd))
        fail(recruit, STAGE_LIMITS);
    if (setsid() < 0 || (recruit->terminal >= 0 && !take_terminal(recruit, std)) ||
        !exec_place(std))
        fail(recruit, STAGE_FORK);
    if (!confine_become(&recruit->user))
        fail(recruit, STAGE_USER);
    if (chdir(recruit->cwd) != 0)
        fail(recruit, STAGE_CWD);
    exec_search(recruit->path, recruit->argv, recruit->env);
    fail(recruit, STAGE_EXEC);
}

/* Returns when the child has become its program, or has not. Nothing is copied meanwhile: this is
 * most of what makes a command quick. posix_spawn has no way to set up what run_child does. */
static pid_t start(struct recruit *recruit)
{
    /* NOLINTNEXTLINE(*-unsafe-functions,*-security.insecureAPI.vfork) */
    pid_t pid = vfork();

    if (pid == 0)
        run_child(recruit); /* NOLINT(*-unix.Vfork): it calls the kernel and nothing else */
    if (pid < 0)
        recruit->sys = errno;
    return pid;
}

static bool send_terminal(const struct recruit *recruit, uint32_t program)
{
    const struct room_news news = {.kind = ROOM_TERMINAL, .program = program};

    const int fds[] = {recruit->terminal, recruit->watcher[1]};

    return room_send(CONTROL_FD, &news, sizeof news, fds, recruit->watcher[1] < 0 ? 1 : 2);
}

static bool read_recruit(struct recruit *recruit, struct packet *packet, size_t n_text, int file)
{
    if (file >= 0)
        return read_file(recruit, file);
    /* No text is shorter than its NUL, so that none has more words than this. */
    return n_text >= sizeof recruit->spec && read_spec(recruit, packet->text, n_text, few_words);
}

static void note_start(struct member *place, uint32_t program, pid_t pid, bool is_terminal)
{
    *place = (struct member){program, pid, is_terminal ? 0 : time_boot_ms() + START_MS};
    if (is_terminal)
        tell(&(struct room_news){.kind = ROOM_STARTED, .program = program, .pid = pid});
}

static void launch(struct room_keeper *keeper, struct packet *packet, size_t n_text,
                   int fds[ROOM_FDS_MAX], size_t n_fds)
{
    AUTO(recruit_finish)
    struct recruit recruit = {
        .std = {-1, -1, -1},
        .terminal = -1,
        .watcher = {-1, -1},
        .run_fd = keeper->run_fd,
        .stage = STAGE_FORK
    };
    uint32_t program = packet->order.program;
    struct member *free_place = find_member(keeper, 0);
    size_t n_files = n_text == 0 && n_fds > 0;
    AUTO_FD int file = n_files ? fds[0] : -1;
    pid_t pid = -1;

    for (size_t i = n_files; i < n_fds; i++)
        recruit.std[(i - n_files + 1) % 3] = fds[i];
    errno = EAGAIN;
    if (free_place && read_recruit(&recruit, packet, n_text, file) &&
        (!recruit.spec.is_terminal ||
         (open_terminal(&recruit) && send_terminal(&recruit, program))))
        pid = start(&recruit);
    else
        recruit.sys = errno;
    /* A child that failed is reaped as nobody's. */
    if (recruit.sys)
        tell(&(struct room_news){
            .kind = ROOM_FAILED, .program = program, .value = recruit.sys, .stage = recruit.stage});
    else
        note_start(free_place, program, pid, recruit.spec.is_terminal);
}

/* A process that forks while the signal goes round is met by the next round. */
static void signal_session(struct room_keeper *keeper, pid_t session, int number)
{
    int rounds = number == SIGKILL ? KILL_ROUNDS : 1;

    for (bool is_hit = true; is_hit && rounds > 0; rounds--) {
        is_hit = false;
        if (!stop_list(&keeper->stop))
            return;
        for (size_t i = 0; i < keeper->stop.n_processes; i++) {
            pid_t pid = keeper->stop.now[i];
            if (pid != getpid() && getsid(pid) == session)
                is_hit |= kill(pid, number) == 0;
        }
    }
}

static void stop(struct room_keeper *keeper)
{
    bool is_still = stop_all(&keeper->stop);

    tell(&(struct room_news){
        .kind = is_still ? ROOM_STILL : ROOM_MOVES,
        .value = is_still ? (int32_t)keeper->stop.n_processes : 0,
    });
}

static void obey(struct room_keeper *keeper, struct packet *packet, size_t n_text,
                 int fds[ROOM_FDS_MAX], size_t n_fds)
{
    const struct room_order *order = &packet->order;
    const struct member *member = find_member(keeper, order->program);
    pid_t pid = member && order->program ? member->pid : 0;

    switch (order->kind) {
    case ROOM_LAUNCH: launch(keeper, packet, n_text, fds, n_fds); break;
    case ROOM_SIGNAL:
        if (pid > 0)
            kill(-pid, (int)order->value);
        break;
    case ROOM_SESSION:
        if (pid > 0)
            signal_session(keeper, pid, (int)order->value);
        break;
    case ROOM_ALL:
        keeper->is_ending = true;
        kill(-1, (int)order->value);
        kill(-1, SIGCONT);
        break;
    case ROOM_STOP: stop(keeper); break;
    case ROOM_CONTINUE: stop_end(&keeper->stop); break;
    default: break;
    }
}

static void take_order(struct room_keeper *keeper)
{
    static struct packet packet;
    int fds[ROOM_FDS_MAX];
    size_t n_fds;
    ssize_t got = room_receive(CONTROL_FD, &packet, sizeof packet, fds, &n_fds);

    if (got >= (ssize_t)sizeof packet.order)
        obey(keeper, &packet, (size_t)got - sizeof packet.order, fds, n_fds);
    else if (got >= 0 || errno != EINTR)
        keeper->is_orphaned = true;
}

/* Tells the starts that have waited long enough; how long the next one will, or -1. */
static int tell_starts(struct room_keeper *keeper)
{
    int64_t now = 0, left = -1;

    for (size_t i = 0; i < ROOM_PROGRAMS_MAX; i++) {
        struct member *member = &keeper->members[i];
        if (member->program == 0 || member->tell_ms == 0)
            continue;
        now = now ? now : time_boot_ms();
        int64_t its = member->tell_ms - now;
        if (its <= 0) {
            member->tell_ms = 0;
            tell(&(struct room_news){.kind = ROOM_STARTED,
                                     .program = member->program,
                                     .pid = member->pid});
        } else if (left < 0 || its < left) {
            left = its;
        }
    }
    return (int)left;
}

static int watch_children(void)
{
    sigset_t set;

    sigfillset(&set);
    if (sigprocmask(SIG_SETMASK, &set, NULL) != 0)
        return -1;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* What it leaves behind when it returns the kernel ends: it is PID 1. */
int room_main(bool has_freezer)
{
    static struct room_keeper keeper;

    keeper.stop.proc_fd = PROC_FD;
    keeper.stop.freeze_fd = has_freezer ? FREEZE_FD : -1;
    keeper.stop.events_fd = has_freezer ? EVENTS_FD : -1;
    keeper.run_fd = has_freezer ? RUN_FD : -1;
    prctl(PR_SET_NAME, "helmr-init");
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = CONTROL_FD; fd <= RUN_FD; fd++)
        (void)!fcntl(fd, F_SETFD, FD_CLOEXEC);
    int signals = watch_children();
    if (signals < 0 || !confine_children())
        return 1;

    struct pollfd ready[] = {
        {.fd = signals,    .events = POLLIN},
        {.fd = CONTROL_FD, .events = POLLIN},
    };
    while (!keeper.is_orphaned) {
        struct signalfd_siginfo info;
        if (keeper.is_ending)
            reap(&keeper);
        if (keeper.is_ending && keeper.is_alone)
            break;
        if (poll(ready, 2, tell_starts(&keeper)) < 0 && errno != EINTR)
            return 1;
        /* One signal stands for any number of children. */
        if (ready[0].revents) {
            (void)!read(signals, &info, sizeof info);
            reap(&keeper);
        }
        if (ready[1].revents)
            take_order(&keeper);
    }
    return 0;
}
