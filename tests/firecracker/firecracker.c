/* A stand-in for Firecracker, for machines without KVM: the same command line, the same API with
 * the same refusals, a vsock with somebody behind it, and files that a machine really goes on from.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "http.h"
#include "machine.h"

enum { TAIL_MAX = 4096 };

static struct fault faults[FAULTS_MAX];
static size_t n_faults;
static int log_fd = -1;
static bool is_deaf; /* said nothing, and never will */

static void say(const char *what, const char *why)
{
    char line[600];
    int len = snprintf(line, sizeof line, "2026-01-01T00:00:00 [anonymous-instance:main] %s: %s\n",
                       what, why);

    if (log_fd >= 0)
        (void)!write(log_fd, line, (size_t)len);
}

void faults_read(const char *program)
{
    static char tail[TAIL_MAX + 1];
    AUTO_FD int fd = open(program, O_RDONLY | O_CLOEXEC);
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0)
        return;
    off_t from = status.st_size > TAIL_MAX ? status.st_size - TAIL_MAX : 0;
    ssize_t got = pread(fd, tail, TAIL_MAX, from);
    struct str rest = {tail, got > 0 ? (size_t)got : 0}, line;
    while (str_split(&rest, '\n', &line) && n_faults < FAULTS_MAX) {
        char text[128];
        struct fault *fault = &faults[n_faults];
        snprintf(text, sizeof text, "%.*s", (int)(line.len < 100 ? line.len : 100), line.ptr);
        if (sscanf(text, "#fault %7s %63s %15s", fault->method, fault->path, fault->kind) == 3)
            n_faults++;
    }
}

const char *fault_of(const char *method, const char *path)
{
    for (size_t i = 0; i < n_faults; i++) {
        if (strcmp(faults[i].method, method) == 0 && strcmp(faults[i].path, path) == 0)
            return faults[i].kind;
    }
    return NULL;
}

static const char *argument(char **argv, const char *name)
{
    static const char *const known[] = {"--id",
                                        "--start-time-us",
                                        "--start-time-cpu-us",
                                        "--parent-cpu-time-us",
                                        "--api-sock",
                                        "--log-path",
                                        "--level"};
    const char *value = NULL;

    for (size_t i = 1; argv[i]; i += 2) {
        bool is_known = false;
        for (size_t k = 0; k < COUNT_OF(known); k++)
            is_known = is_known || strcmp(known[k], argv[i]) == 0;
        if (!is_known || !argv[i + 1]) {
            fprintf(stderr, "Arguments parsing error: %s\n", argv[i]);
            exit(153);
        }
        if (strcmp(argv[i], name) == 0)
            value = argv[i + 1];
    }
    return value;
}

static int api_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 8) < 0) {
        fprintf(stderr, "Failed to open the API socket at: %s\n", path);
        exit(1);
    }
    return fd;
}

/* True: the request was dealt with, badly. */
static bool misbehave(struct http *http, const struct http_request *request)
{
    const char *kind = fault_of(request->method, request->path);

    if (!kind)
        return false;
    say("fault", kind);
    if (strcmp(kind, "exit") == 0)
        _exit(3);
    if (strcmp(kind, "garbage") == 0)
        (void)!send(http->fd, "!? 7 \x01\r\n\r\n", 10, MSG_NOSIGNAL);
    if (strcmp(kind, "half") == 0)
        (void)!send(http->fd, "HTTP/1.1 20", 11, MSG_NOSIGNAL);
    if (strcmp(kind, "hang") == 0 || strcmp(kind, "half") == 0)
        is_deaf = true;
    else if (strcmp(kind, "refuse") == 0)
        http_say_fault(http, "told to refuse this.");
    else
        http_close(http);
    return true;
}

static void request_answer(struct http *http, const struct http_request *request)
{
    struct error err = {0};

    if (rules_apply(request->method, request->path, request->body, &err)) {
        http_say_done(http);
        return;
    }
    say("refused", err.text);
    http_say_fault(http, err.text);

    if (machine.is_broken)
        exit(1);
}

static void api_turn(struct http *http)
{
    struct http_request request;
    struct error err = {0};
    bool is_whole;

    if (!http_fill(http)) {
        http_close(http);
        return;
    }
    for (;;) {
        if (!http_take(http, &request, &is_whole, &err)) {
            http_say_fault(http, err.text);
            http_close(http);
            return;
        }
        if (!is_whole)
            return;
        if (!misbehave(http, &request))
            request_answer(http, &request);
        if (http->fd < 0 || is_deaf)
            return;
        http_drop(http, &request);
    }
}

static void vsock_turn(void)
{
    int connection = accept4(machine.vsock, NULL, NULL, SOCK_CLOEXEC);

    if (connection >= 0 && agent_accept(connection) < 0)
        close(connection);
}

/* A machine that stands still takes nothing from its guest and gives nothing to it. */
static void serve(int listener)
{
    struct http http = {.fd = -1};

    http_close(&http);
    for (;;) {
        bool runs = machine.phase == RUNNING;
        struct pollfd fds[] = {
            {is_deaf        ? -1
             : http.fd >= 0 ? http.fd
                            : listener,
             POLLIN,                                         0},
            {runs ? machine.vsock : -1,              POLLIN, 0},
            {runs ? agent_fd() : -1,                 POLLIN, 0},
        };
        if (poll(fds, COUNT_OF(fds), -1) < 0)
            exit(1);
        if (fds[0].revents && http.fd >= 0)
            api_turn(&http);
        else if (fds[0].revents)
            http.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fds[1].revents && machine.phase == RUNNING)
            vsock_turn();
        if (fds[2].revents && machine.phase == RUNNING && agent_fd() >= 0)
            agent_turn();
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        faults_read(argv[0]);
        printf("Firecracker v%s\n\n", fault_of("-", "version") ? "1.7.0" : "1.12.1");
        return 0;
    }
    faults_read(argv[0]);
    const char *log = argument(argv, "--log-path"), *api = argument(argv, "--api-sock");
    if (log)
        log_fd = open(log, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if ((log && log_fd < 0) || !api || !argument(argv, "--id")) {
        fprintf(stderr, "Could not initialize logger or API\n");
        return 1;
    }
    if (getuid() == 0 || getpid() != 1) {
        fprintf(stderr, "the stand-in wants to be jailed\n");
        return 1;
    }
    if (fault_of("-", "start")) {
        say("fault", "ends before its API is there");
        return 3;
    }
    serve(api_listen(api));
}
