/* The only program of the test images: does what its first argument says. As `node` it plays
 * the adapter, whose behaviour the options of A_START choose. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/hash.h"
#include "base/own.h"
#include "guest/probe_park.h"
#include "protocol/channel.h"

static void put(const char *bytes, size_t len)
{
    while (len) {
        ssize_t wrote = write(STDOUT_FILENO, bytes, len);
        if (wrote < 0 && errno != EINTR)
            _exit(99);
        bytes += wrote > 0 ? wrote : 0;
        len -= wrote > 0 ? (size_t)wrote : 0;
    }
}

/* The test ends it. */
static int wait_for_ever(void)
{
    while (pause() != 0)
        ;
    return 0;
}

/* Byte i of the output is i mod 251, so that a lost or moved piece shows. */
static int print(long total)
{
    char piece[10007];

    for (long at = 0; at < total;) {
        size_t len = total - at < (long)sizeof piece ? (size_t)(total - at) : sizeof piece;
        for (size_t i = 0; i < len; i++)
            piece[i] = (char)((at + (long)i) % 251);
        put(piece, len);
        at += (long)len;
    }
    return 0;
}

static int show(char **env)
{
    char cwd[4096], host[256], groups_text[512] = "";
    gid_t groups[64];
    int n = getgroups(64, groups);

    for (int i = 0; i < n; i++)
        snprintf(groups_text + strlen(groups_text), sizeof groups_text - strlen(groups_text), " %d",
                 (int)groups[i]);
    if (!getcwd(cwd, sizeof cwd) || gethostname(host, sizeof host) != 0)
        return 1;
    printf("uid=%d gid=%d groups=%s\ncwd=%s\nhost=%s\npid=%d\n", (int)getuid(), (int)getgid(),
           groups_text, cwd, host, (int)getpid());
    for (; *env; env++)
        printf("env %s\n", *env);
    return 0;
}

static int cat(const char *path)
{
    char bytes[4096];
    ssize_t got;
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return printf("%s: %s\n", path, strerror(errno)) < 0;
    while ((got = read(fd, bytes, sizeof bytes)) > 0)
        put(bytes, (size_t)got);
    return 0;
}

static int list(const char *path)
{
    DIR *folder = opendir(path);
    int fd = folder ? dirfd(folder) : -1;

    if (fd < 0)
        return 1;
    for (struct dirent *entry; (entry = readdir(folder));) {
        struct stat info;
        if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
            printf("%s %o %d\n", entry->d_name, (unsigned)info.st_mode, (int)info.st_uid);
    }
    closedir(folder);
    return 0;
}

/* Entries of a directory besides . and .., or only those that are numbers; 0 without one. */
static int count_entries(const char *path, bool only_numbers)
{
    DIR *folder = opendir(path);
    int n = 0;

    if (!folder)
        return 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        bool is_number = entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
        n += only_numbers ? is_number : entry->d_name[0] != '.';
    }
    closedir(folder);
    return n;
}

/* The classic way out of a chroot: enter another one with a directory of the first still open. */
static int climb(void)
{
    mkdir("/tmp/deeper", 0755);
    AUTO_FD int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0 || chroot("/tmp/deeper") != 0 || fchdir(root) != 0)
        return 1;
    for (int i = 0; i < 64; i++) {
        if (chdir("..") != 0)
            return 2;
    }
    if (chroot(".") != 0)
        return 3;
    printf("processes=%d scratch=%d\n", count_entries("/proc", true),
           count_entries("/scratch", false));
    return 0;
}

/* Says whether each path can be written. */
static int try_write(int n, char **paths)
{
    for (int i = 0; i < n; i++) {
        AUTO_FD int fd = open(paths[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        printf("%s %s\n", paths[i], fd >= 0 ? "written" : "refused");
    }
    return 0;
}

/* Grandchildren that left the session, ignore TERM and write on and on. */
static int orphans(void)
{
    for (int i = 0; i < 3; i++) {
        if (fork() != 0)
            continue;
        setsid();
        if (fork() != 0)
            _exit(0);
        signal(SIGTERM, SIG_IGN);
        for (;;) {
            put("orphan\n", 7);
            usleep(2000);
        }
    }
    signal(SIGTERM, SIG_IGN);
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    put("ready\n", 6);
    return wait_for_ever();
}

/* Leaves `n` orphans to the init and waits until only the two of us are in /proc. */
static int leave_zombies(long n)
{
    for (long i = 0; i < n; i++) {
        pid_t middle = fork();
        if (middle == 0) {
            if (fork() == 0)
                _exit(0);
            _exit(0);
        }
        waitpid(middle, NULL, 0);
    }
    int left = count_entries("/proc", true);
    for (int tries = 0; tries < 2000 && left != 2; tries++) {
        usleep(5000);
        left = count_entries("/proc", true);
    }
    printf("left=%d\n", left);
    return 0;
}

/* Takes memory and uses it, until the kernel ends it. */
static int eat(void)
{
    enum { PIECE = 16 << 20, MOST = 1024 };

    for (int n = 0; n < MOST; n++) {
        volatile char *piece = alloc(PIECE);
        for (size_t i = 0; i < PIECE; i += 512)
            piece[i] = 1;
    }
    return 0;
}

static int copy_input(void)
{
    char bytes[8192];
    ssize_t got;

    while ((got = read(STDIN_FILENO, bytes, sizeof bytes)) > 0)
        put(bytes, (size_t)got);
    return 0;
}

/* USR1: says which; USR2: says how many processes this program sees. */
static int wait_for_signal(void)
{
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    put("ready\n", 6);
    if (sigwait(&set, &number) != 0)
        return 1;
    if (number == SIGUSR1)
        printf("signal %d\n", number);
    else
        printf("left=%d\n", count_entries("/proc", true));
    return 0;
}

/* Leaves somebody behind who holds the output open. */
static int leave(void)
{
    if (fork() == 0) {
        setsid();
        return wait_for_ever();
    }
    put("left\n", 5);
    return 5;
}

static void say_signal(int number)
{
    struct winsize size = {0};

    /* Nothing else runs meanwhile: the program only waits for signals. */
    ioctl(STDIN_FILENO, TIOCGWINSZ, &size); /* NOLINT(bugprone-signal-handler) */
    /* NOLINTNEXTLINE(bugprone-signal-handler) */
    dprintf(STDOUT_FILENO, "signal %d size %dx%d\n", number, size.ws_col, size.ws_row);
    if (number == SIGHUP)
        _exit(9);
}

/* Says what kind of terminal it has, then what it hears. */
static int use_terminal(void)
{
    struct stat info;
    char line[64];
    ssize_t got;

    signal(SIGINT, say_signal);
    signal(SIGWINCH, say_signal);
    signal(SIGHUP, say_signal);
    AUTO_FD int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
    fstat(STDIN_FILENO, &info);
    printf("terminal %d controlling %d leader %d foreground %d owner %d\n", isatty(1), tty >= 0,
           getsid(0) == getpid(), tcgetpgrp(0) == getpgrp(), (int)info.st_uid);
    fflush(stdout);
    while ((got = read(STDIN_FILENO, line, sizeof line)) > 0 || (got < 0 && errno == EINTR)) {
        if (got > 0)
            dprintf(STDOUT_FILENO, "heard %.*s", (int)got, line);
    }
    return 3;
}

struct adapter_play {
    struct channel channel;
    char mode[64];
    struct buf payload;
    bool is_started, has_payload, is_cancelled;
};

static int take_variable(const struct message_a_env *variable)
{
    char name[256];
    AUTO_FREE char *value = alloc(variable->value.len + 1);

    snprintf(name, sizeof name, "%.*s", (int)variable->name.len, variable->name.ptr);
    memcpy(value, variable->value.ptr, variable->value.len);
    value[variable->value.len] = '\0';
    return setenv(name, value, 1);
}

static bool say(struct adapter_play *play, enum message_type type, const void *message)
{
    struct error err;
    bool wants_write;

    return channel_send(&play->channel, type, message, &err) &&
           channel_flush(&play->channel, &wants_write, &err);
}

/* By the name of the module: none, or one that says how it goes. */
static bool play_preload(struct adapter_play *play, const struct message_a_preload *preload)
{
    struct message_a_preloaded answer = {
        .ok = !str_equal(preload->module, STR("throws")),
        .load_ms = 7,
        .text = preload->workspace_path,
    };

    if (str_equal(preload->module, STR("never")))
        return true;
    return say(play, MESSAGE_A_PRELOADED, &answer) &&
           (!str_equal(preload->module, STR("twice")) || say(play, MESSAGE_A_PRELOADED, &answer));
}

static bool play_message(void *arg, const struct message *message, struct error *err)
{
    struct adapter_play *play = arg;

    if (message->type == MESSAGE_A_CANCEL) {
        play->is_cancelled = true;
        return true;
    }
    if (message->type == MESSAGE_A_ENV)
        return take_variable(&message->a_env) == 0;
    if (message->type == MESSAGE_A_RESEED)
        return say(play, MESSAGE_A_RESEEDED, &(struct message_a_reseeded){.ok = 1});
    if (message->type == MESSAGE_A_PRELOAD)
        return play_preload(play, &message->a_preload);
    if (message->type != MESSAGE_A_START)
        return true;
    snprintf(play->mode, sizeof play->mode, "%.*s", (int)message->a_start.options.len,
             message->a_start.options.ptr ? message->a_start.options.ptr : "");
    play->is_started = true;
    play->has_payload = message->a_start.payload_len == 0;
    return play->has_payload || channel_open_stream(&play->channel, 1, CHANNEL_RECEIVES, err);
}

static bool play_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    struct adapter_play *play = arg;

    play->has_payload = is_end && stream == 1;
    return buf_append(&play->payload, bytes, err);
}

static bool listen_until(struct adapter_play *play, const bool *condition)
{
    struct error err;

    while (!*condition) {
        if (!channel_read(&play->channel, play_message, play_data, play, &err))
            return false;
    }
    return true;
}

/* Gives the payload back as the output. */
static int play_success(struct adapter_play *play)
{
    uint8_t digest[BLAKE2B_LEN];
    struct blake2b state;
    struct error err;
    bool wants_write;

    blake2b_init(&state, (struct str){0});
    blake2b_update(&state, buf_str(&play->payload));
    blake2b_final(&state, digest);
    struct message_a_outcome outcome = {
        .kind = OUTCOME_SUCCEEDED,
        .output_len = play->payload.len,
        .output_digest = {(const char *)digest, sizeof digest},
    };
    if (!say(play, MESSAGE_A_OUTCOME, &outcome) ||
        !channel_open_stream(&play->channel, 2, CHANNEL_SENDS, &err))
        return 1;
    for (size_t at = 0; at < play->payload.len;) {
        size_t left = play->payload.len - at, len = left < 65536 ? left : 65536;
        if (!channel_send_data(&play->channel, 2, (struct str){play->payload.bytes + at, len},
                               len == left, &err) ||
            !channel_flush(&play->channel, &wants_write, &err))
            return 1;
        at += len;
    }
    return wait_for_ever();
}

static int play_failure(struct adapter_play *play)
{
    struct message_a_outcome outcome = {
        .kind = OUTCOME_FAILED,
        .error_name = STR("TypeError"),
        .error_message = STR("no such thing"),
        .error_stack = STR("at task.ts:3:4"),
    };

    say(play, MESSAGE_A_OUTCOME, &outcome);
    return wait_for_ever();
}

/* Commands of the probe that a task can play too. */
static void play_look(const char *mode)
{
    if (strncmp(mode, "cat ", 4) == 0)
        (void)!cat(mode + 4);
    else if (strncmp(mode, "list ", 5) == 0)
        (void)!list(mode + 5);
    else if (strcmp(mode, "env") == 0)
        (void)!show(environ);
    fflush(stdout);
}

static void play_finish(struct adapter_play *play)
{
    channel_finish(&play->channel);
    buf_finish(&play->payload);
}

static int play_node(void)
{
    AUTO(play_finish) struct adapter_play play = {.payload = {.max = 16 << 20}};
    const char *version = getenv("PLAY_VERSION");
    struct message_a_hello hello = {
        .adapter = STR("test"),
        .node_version = str_of(version ? version : "v24.1.0"),
        .pid = (uint32_t)getpid(),
    };

    channel_init(&play.channel, 3, 3, SIDE_ADAPTER);
    const char *code = getenv("PLAY_EXIT");
    if (code)
        return (int)strtol(code, NULL, 10);
    if (!say(&play, MESSAGE_A_HELLO, &hello) || !listen_until(&play, &play.is_started) ||
        !listen_until(&play, &play.has_payload))
        return 3;
    if (strcmp(play.mode, "garbage") == 0)
        return write(3, "\377\377\377\377\377\377\377\377", 8) == 8 ? pause() : 1;
    if (!say(&play, MESSAGE_A_LOADED,
             &(struct message_a_loaded){.accepts_payload = 1, .load_ms = 5}) ||
        !say(&play, MESSAGE_A_LOG,
             &(struct message_a_log){.level = LEVEL_INFO, .message = STR("loaded"), .at_ms = 1}))
        return 4;
    play_look(play.mode);
    if (strcmp(play.mode, "fail") == 0)
        return play_failure(&play);
    if (strcmp(play.mode, "exit") == 0)
        return 7;
    if (strncmp(play.mode, "park", 4) == 0)
        return probe_park(&play.channel, play.mode);
    if (strcmp(play.mode, "cancel") == 0 && !listen_until(&play, &play.is_cancelled))
        return 5;
    return play_success(&play);
}

/* How many processes there can be at once. */
static int forks(void)
{
    int n = 0;
    pid_t pid;

    while ((pid = fork()) > 0)
        n++;
    if (pid == 0)
        return wait_for_ever();
    printf("forks=%d\n", n);
    return 0;
}

/* Says everything again to one connection until its end, then goodbye. */
static int serve(long port)
{
    struct sockaddr_in name = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    char bytes[4096];
    ssize_t got;

    if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(listener, (struct sockaddr *)&name, sizeof name) < 0 || listen(listener, 8) < 0)
        return 1;
    put("listening\n", 10);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        return 1;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        for (ssize_t at = 0, sent; at < got; at += sent)
            if ((sent = send(fd, bytes + at, (size_t)(got - at), MSG_NOSIGNAL)) < 0)
                return 2;
    send(fd, "goodbye", 7, MSG_NOSIGNAL);
    close(fd);
    put("over\n", 5);
    return wait_for_ever();
}

static int run(int argc, char **argv, char **env)
{
    const char *name = strrchr(argv[0], '/');
    const char *what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? strtol(argv[2], NULL, 10) : 0;

    if (strcmp(name ? name + 1 : argv[0], "node") == 0)
        return play_node();
    if (strcmp(what, "print") == 0)
        return print(number);
    if (strcmp(what, "exit") == 0)
        return (int)number;
    if (strcmp(what, "show") == 0)
        return show(env);
    if (strcmp(what, "cat") == 0)
        return cat(argv[2]);
    if (strcmp(what, "list") == 0)
        return list(argv[2]);
    if (strcmp(what, "write") == 0)
        return try_write(argc - 2, argv + 2);
    if (strcmp(what, "forks") == 0)
        return forks();
    if (strcmp(what, "climb") == 0)
        return climb();
    if (strcmp(what, "orphans") == 0)
        return orphans();
    if (strcmp(what, "zombies") == 0)
        return leave_zombies(number);
    if (strcmp(what, "input") == 0)
        return copy_input();
    if (strcmp(what, "eat") == 0)
        return eat();
    if (strcmp(what, "serve") == 0)
        return serve(number);
    if (strcmp(what, "signal") == 0)
        return wait_for_signal();
    if (strcmp(what, "processes") == 0)
        return printf("processes=%d\n", count_entries("/proc", true)) < 0;
    if (strcmp(what, "leave") == 0)
        return leave();
    if (strcmp(what, "terminal") == 0)
        return use_terminal();
    return strcmp(what, "tick") == 0 ? probe_tick() : 98;
}

int main(int argc, char **argv, char **env)
{
    signal(SIGPIPE, SIG_IGN);
    int code = run(argc, argv, env);
    fflush(stdout);
    return code;
}
