/* The clients of the benchmarks: one thread each, so that they take little from the server.
 *
 *   client load PORT CONNECTIONS SECONDS  < REQUEST   repeats the request on kept connections
 *   client follow PORT                    < REQUEST   reads a log stream to its end
 *   client idle PORT CONNECTIONS          < REQUEST   opens streams, says "ready", waits
 *
 * Figures go to stdout as one JSON object.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>

#include "base/encode.h"
#include "base/own.h"
#include "base/time.h"
#include "http/sse_reader.h"

enum { REQUEST_MAX = 1 << 20, HEAD_MAX = 1 << 20, READ_SIZE = 1 << 18, CONNECTIONS_MAX = 60000 };

struct settings {
    int port;
    size_t n_connections;
    int64_t seconds;
    struct buf request;
};

static bool connect_to(int port, int *fd, struct error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    AUTO_FD int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (made < 0 || setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        return error_errno(err, "socket");
    if (connect(made, (struct sockaddr *)&address, sizeof address) != 0)
        return error_errno(err, "connect to port %d", port);
    *fd = take_fd(&made);
    return true;
}

static bool send_request(int fd, struct str request, struct error *err)
{
    while (request.len > 0) {
        ssize_t sent = send(fd, request.ptr, request.len, MSG_NOSIGNAL);

        if (sent < 0)
            return error_errno(err, "send");
        request = (struct str){request.ptr + sent, request.len - (size_t)sent};
    }
    return true;
}

/* The first number behind `name` in the head, or 0. */
static size_t head_number(struct str head, const char *name)
{
    const char *at = memmem(head.ptr, head.len, name, strlen(name));

    return at ? (size_t)strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Where the body begins, or 0 while the head is not whole. */
static size_t head_end(struct str bytes)
{
    const char *at = bytes.len ? memmem(bytes.ptr, bytes.len, "\r\n\r\n", 4) : NULL;

    return at ? (size_t)(at - bytes.ptr) + 4 : 0;
}

static bool read_some(int fd, struct buf *into, size_t *got, struct error *err)
{
    static char bytes[READ_SIZE];
    ssize_t n = read(fd, bytes, sizeof bytes);

    if (n < 0)
        return error_errno(err, "read");
    *got = (size_t)n;
    return buf_append(into, (struct str){bytes, (size_t)n}, err);
}

struct connection {
    int fd;
    int64_t sent_ns;
    struct buf answer;
};

struct load {
    const struct settings *settings;
    struct connection *connections;
    int epoll;
    int64_t begun_ns, until_ns;
    size_t n_answers, n_bad, n_open, room;
    uint32_t *times_us;
};

static bool ask(struct load *load, struct connection *connection, struct error *err)
{
    connection->sent_ns = time_boot_ns();
    if (connection->sent_ns >= load->until_ns) {
        load->n_open--;
        return true;
    }
    return send_request(connection->fd, buf_str(&load->settings->request), err);
}

static void note_time(struct load *load, int64_t took_ns)
{
    if (load->n_answers == load->room) {
        load->room = load->room ? load->room * 2 : 1 << 16;
        load->times_us = realloc(load->times_us, load->room * sizeof *load->times_us);
        if (!load->times_us)
            abort();
    }
    load->times_us[load->n_answers++] = (uint32_t)(took_ns / 1000);
}

static bool take_answer(struct load *load, struct connection *connection, struct error *err)
{
    size_t got = 0;

    if (!read_some(connection->fd, &connection->answer, &got, err))
        return false;
    if (got == 0)
        return error_set(err, ERR_UNAVAILABLE, "the server closed a connection");

    struct str answer = buf_str(&connection->answer);
    size_t body = head_end(answer);
    if (body == 0)
        return true;
    if (answer.len < body + head_number((struct str){answer.ptr, body}, "Content-Length: "))
        return true;
    if (answer.len < 10 || answer.ptr[9] != '2') {
        load->n_bad++;
        fprintf(stderr, "%.*s\n", (int)answer.len, answer.ptr);
    }
    note_time(load, time_boot_ns() - connection->sent_ns);
    buf_consume(&connection->answer, answer.len);
    return ask(load, connection, err);
}

static bool open_connections(struct load *load, struct error *err)
{
    for (size_t i = 0; i < load->settings->n_connections; i++) {
        struct connection *connection = &load->connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

        connection->answer.max = HEAD_MAX;
        if (!connect_to(load->settings->port, &connection->fd, err))
            return false;
        if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, connection->fd, &event) != 0)
            return error_errno(err, "epoll_ctl");
        load->n_open++;
    }
    return true;
}

static bool exchange_all(struct load *load, struct error *err)
{
    struct epoll_event events[64];

    load->begun_ns = time_boot_ns();
    load->until_ns = load->begun_ns + load->settings->seconds * 1000 * 1000 * 1000;
    for (size_t i = 0; i < load->settings->n_connections; i++)
        if (!ask(load, &load->connections[i], err))
            return false;
    while (load->n_open > 0) {
        int n = epoll_wait(load->epoll, events, 64, 10000);

        if (n <= 0)
            return error_set(err, ERR_TIMEOUT, "no answer for ten seconds");
        for (int i = 0; i < n; i++)
            if (!take_answer(load, events[i].data.ptr, err))
                return false;
    }
    return load->n_bad == 0 || error_set(err, ERR_INVALID, "%zu bad answers", load->n_bad);
}

static int compare_times(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

static void print_load(const struct load *load)
{
    double seconds = (double)(time_boot_ns() - load->begun_ns) / 1e9;
    size_t n = load->n_answers;

    qsort(load->times_us, n, sizeof *load->times_us, compare_times);
    printf("{\"requests\":%zu,\"per_second\":%.1f,\"p50_ms\":%.3f,\"p99_ms\":%.3f}\n", n,
           (double)n / seconds, load->times_us[n / 2] / 1e3, load->times_us[n * 99 / 100] / 1e3);
}

static bool run_load(const struct settings *settings, struct error *err)
{
    AUTO_FREE struct connection *connections = calloc(settings->n_connections, sizeof *connections);
    AUTO_FD int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct load load = {.settings = settings, .connections = connections, .epoll = epoll};

    if (!connections || epoll < 0)
        return error_errno(err, "epoll_create1");
    bool ok = open_connections(&load, err) && exchange_all(&load, err);
    if (ok)
        print_load(&load);
    free(load.times_us);
    return ok;
}

struct follow {
    size_t n_bytes, n_events;
    int64_t first_ns, last_ns;
    bool is_bad;
};

/* What a client has to do: find the content and decode it. */
static bool on_event(void *arg, const struct sse_event *event)
{
    static const char key[] = "\"content_base64\":\"";
    static char bytes[SSE_LINE_MAX];
    struct follow *follow = arg;
    const char *at = memmem(event->data.ptr, event->data.len, key, sizeof key - 1);
    if (!at)
        return true;

    const char *text = at + sizeof key - 1;
    size_t left = event->data.len - (size_t)(text - event->data.ptr), len = sizeof bytes;
    const char *end = memchr(text, '"', left);
    if (!end || !base64_decode((struct str){text, (size_t)(end - text)}, bytes, &len)) {
        follow->is_bad = true;
        return false;
    }
    follow->last_ns = time_boot_ns();
    if (follow->n_events++ == 0)
        follow->first_ns = follow->last_ns;
    follow->n_bytes += len;
    return true;
}

static bool read_head(int fd, struct buf *bytes, struct error *err)
{
    size_t got = 1, body = 0;

    while (got > 0 && (body = head_end(buf_str(bytes))) == 0)
        if (!read_some(fd, bytes, &got, err))
            return false;
    if (body == 0 || bytes->len < 10 || bytes->bytes[9] != '2')
        return error_set(err, ERR_INVALID, "no stream: %.*s",
                         (int)(bytes->len < 400 ? bytes->len : 400), bytes->bytes);
    buf_consume(bytes, body);
    return true;
}

static bool run_follow(const struct settings *settings, struct error *err)
{
    AUTO(buf_finish) struct buf bytes = {.max = HEAD_MAX};
    AUTO(sse_reader_finish) struct sse_reader reader;
    AUTO_FD int fd = -1;
    struct follow follow = {0};
    size_t got = 0;

    sse_reader_init(&reader, on_event, &follow);
    if (!connect_to(settings->port, &fd, err) ||
        !send_request(fd, buf_str(&settings->request), err) || !read_head(fd, &bytes, err))
        return false;
    do {
        if (!sse_reader_push(&reader, buf_str(&bytes), err))
            return false;
        buf_consume(&bytes, bytes.len);
        if (!read_some(fd, &bytes, &got, err))
            return false;
    } while (got > 0);
    if (follow.is_bad)
        return error_set(err, ERR_INVALID, "an event without content");
    printf("{\"bytes\":%zu,\"events\":%zu,\"seconds\":%.3f}\n", follow.n_bytes, follow.n_events,
           (double)(follow.last_ns - follow.first_ns) / 1e9);
    return true;
}

/* Streams stay open until stdout's reader goes away. */
static bool run_idle(const struct settings *settings, struct error *err)
{
    for (size_t i = 0; i < settings->n_connections; i++) {
        AUTO(buf_finish) struct buf head = {.max = HEAD_MAX};
        int fd;

        if (!connect_to(settings->port, &fd, err) ||
            !send_request(fd, buf_str(&settings->request), err) || !read_head(fd, &head, err))
            return error_wrap(err, "stream %zu", i);
    }
    puts("ready");
    if (fflush(stdout) != 0)
        return error_errno(err, "write");

    struct pollfd reader = {.fd = STDOUT_FILENO};
    while (poll(&reader, 1, -1) < 0 && errno == EINTR)
        continue;
    return true;
}

static const struct mode {
    const char *name;
    int n_args;
    bool (*run)(const struct settings *settings, struct error *err);
} modes[] = {
    {"load",   5, run_load  },
    {"follow", 3, run_follow},
    {"idle",   4, run_idle  },
};

static bool run_mode(const struct mode *mode, char **argv, struct error *err)
{
    AUTO(buf_finish) struct buf request = {.max = REQUEST_MAX};
    size_t got = 0;
    do {
        if (!read_some(STDIN_FILENO, &request, &got, err))
            return false;
    } while (got > 0);

    const struct settings settings = {
        .port = (int)strtol(argv[2], NULL, 10),
        .n_connections = mode->n_args > 3 ? strtoul(argv[3], NULL, 10) : 1,
        .seconds = mode->n_args > 4 ? strtoll(argv[4], NULL, 10) : 0,
        .request = request,
    };
    if (settings.n_connections < 1 || settings.n_connections > CONNECTIONS_MAX)
        return error_set(err, ERR_INVALID, "connections: 1 to %d", CONNECTIONS_MAX);
    return mode->run(&settings, err);
}

int main(int argc, char **argv)
{
    struct error err;

    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        if (argc != modes[i].n_args || strcmp(argv[1], modes[i].name) != 0)
            continue;
        if (run_mode(&modes[i], argv, &err))
            return 0;
        fprintf(stderr, "client: %s\n", err.text);
        return 1;
    }
    fputs("usage: client load PORT CONNECTIONS SECONDS | follow PORT | idle PORT CONNECTIONS\n",
          stderr);
    return 2;
}
