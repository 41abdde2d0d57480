#include "guest/probe_park.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#include "base/own.h"

enum { BARRIER_FD = 4 };

struct player {
    struct channel *link;
    struct channel barrier;
    const char *mode;
    uint64_t number; /* of the park that is asked for */
    bool is_asked, has_answer, is_released, is_thawed;
    pid_t stopped;
};

static bool say(struct channel *channel, enum message_type type, const void *message)
{
    struct error err;
    bool wants_write;

    return channel_send(channel, type, message, &err) && channel_flush(channel, &wants_write, &err);
}

static void show_file(const char *path)
{
    char bytes[256];
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);

    printf("%s=%.*s\n", path, got > 0 ? (int)got : 0, bytes);
}

static int state_of(pid_t pid)
{
    char path[64], text[512] = "";

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return '?';
    const char *end = strrchr(text, ')');
    return end ? end[2] : '?';
}

/* One that was just brought back may be on its way to where it stood. */
static int settled_state_of(pid_t pid)
{
    int state = state_of(pid);

    for (int i = 0; state == 'R' && i < 200; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        state = state_of(pid);
    }
    return state;
}

static void show(const struct player *player, const char *how, struct str body)
{
    const char *key = getenv("API_KEY");

    printf("%s %.*s stopped=%c key=%s\n", how, (int)body.len, body.ptr,
           settled_state_of(player->stopped), key ? key : "");
    show_file("/run/helmr/generation");
    show_file("/proc/sys/kernel/random/boot_id");
    show_file("/run/key");
    fflush(stdout);
}

static bool take_at_barrier(void *arg, const struct message *message, struct error *err UNUSED)
{
    struct player *player = arg;
    char name[128], value[256];

    switch ((unsigned)message->type) {
    case MESSAGE_A_THAW: player->is_thawed |= message->a_thaw.number == player->number; return true;
    case MESSAGE_A_RESEED:
        return say(&player->barrier, MESSAGE_A_RESEEDED,
                   &(struct message_a_reseeded){.ok = !strstr(player->mode, "old")});
    case MESSAGE_A_ENV:
        snprintf(name, sizeof name, "%.*s", (int)message->a_env.name.len, message->a_env.name.ptr);
        snprintf(value, sizeof value, "%.*s", (int)message->a_env.value.len,
                 message->a_env.value.ptr);
        return setenv(name, value, 1) == 0;
    case MESSAGE_A_RESUME:
        player->is_thawed = player->has_answer = true;
        printf("identity %.*s\n", (int)message->a_resume.identity.len,
               message->a_resume.identity.ptr);
        show(player, "resumed", message->a_resume.body);
        return say(&player->barrier, MESSAGE_A_CONSUMED,
                   &(struct message_a_consumed){message->a_resume.resume_version});
    default: return false;
    }
}

static bool take_link(void *arg, const struct message *message, struct error *err UNUSED)
{
    struct player *player = arg;

    if (message->type == MESSAGE_A_PARK) {
        player->is_asked = true;
        player->number = message->a_park.number;
    }
    if (message->type == MESSAGE_A_RESULT) {
        player->has_answer = true;
        show(player, "result", message->a_result.body);
    }
    return true;
}

static bool take_data(void *arg UNUSED, uint16_t stream UNUSED, struct str bytes UNUSED,
                      bool is_end UNUSED, struct error *err UNUSED)
{
    return false;
}

static bool stand_at_barrier(struct player *player)
{
    struct message_a_parked parked = {.op = 1, .number = player->number};
    struct message_a_busy busy = {.reason = STR("two operations"), .number = player->number};
    struct error err;

    player->is_asked = player->is_thawed = false;
    if (strstr(player->mode, "deaf"))
        return true;
    if (strstr(player->mode, "busy"))
        return say(player->link, MESSAGE_A_BUSY, &busy);
    if (strstr(player->mode, "rude"))
        return say(&player->barrier, MESSAGE_A_BUSY, &busy);
    if (!say(&player->barrier, MESSAGE_A_PARKED, &parked))
        return false;
    while (!player->is_thawed) {
        if (!channel_read(&player->barrier, take_at_barrier, take_data, player, &err))
            return false;
    }
    return true;
}

/* One that writes on and on, and one that was stopped before anybody asked. */
static void fork_others(struct player *player)
{
    player->stopped = fork();
    if (player->stopped == 0) {
        raise(SIGSTOP);
        _exit(1);
    }
    while (state_of(player->stopped) != 'T')
        usleep(1000);
    if (fork() != 0)
        return;
    for (;;) {
        (void)!write(STDOUT_FILENO, "tick\n", 5);
        usleep(2000);
    }
}

/* Watched by an epoll, as every server is. */
static void listen_to_tcp(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    struct epoll_event event = {.events = EPOLLIN};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0 || epoll < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 1) != 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        _exit(93);
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        _exit(97);
}

/* One of each kind in the workspace; what the image has there is removed. */
static void change_workspace(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    AUTO_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    mkdir("made", 0750);
    put_file("made/one", "first\n");
    put_file("made.txt", "");
    if (link("made/one", "made/two") != 0 || symlink("../made", "pointer") != 0 ||
        mkfifo("queue", 0600) != 0 || unlink("from-image") != 0 || fd < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        _exit(96);
    if (setxattr("made.txt", "user.note", "x", 1, 0) != 0 || unlink("old/inner") != 0 ||
        rmdir("old") != 0 || mkdir("old", 0700) != 0)
        _exit(94);
    FILE *file = fopen("large", "we");
    for (int i = 0; file && i < 1000000; i++)
        fputc(i % 251, file);
    if (!file || fclose(file) != 0)
        _exit(95);
}

int probe_park(struct channel *link, const char *mode)
{
    struct player player = {.link = link, .mode = mode};
    struct message_a_op op = {.op = 1, .kind = STR("wait.open"), .body = STR("{}")};
    struct error err;

    channel_init(&player.barrier, BARRIER_FD, BARRIER_FD, SIDE_ADAPTER);
    if (strstr(mode, "write"))
        change_workspace();
    else
        fork_others(&player);
    if (strstr(mode, "tcp"))
        listen_to_tcp();
    if (!say(link, MESSAGE_A_OP, &op))
        return 11;
    while (!player.has_answer) {
        if (!channel_read(link, take_link, take_data, &player, &err))
            return 12;
        if (player.is_asked && !stand_at_barrier(&player))
            return 13;
    }
    channel_finish(&player.barrier);
    return say(link, MESSAGE_A_OUTCOME, &(struct message_a_outcome){.kind = OUTCOME_SUCCEEDED})
               ? pause()
               : 14;
}

static void tick(pid_t stopped)
{
    AUTO_FD int fd = open("count", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

    if (fd < 0 || write(fd, "x", 1) != 1)
        _exit(1);
    dprintf(STDOUT_FILENO, "tick %c\n", state_of(stopped));
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

int probe_tick(void)
{
    pid_t stopped = fork();

    if (stopped == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    if (stopped < 0 || waitpid(stopped, NULL, WUNTRACED) != stopped)
        return 1;
    for (;;)
        tick(stopped);
}
