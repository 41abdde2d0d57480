#include "http/testing.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own.h"
#include "base/time.h"

struct http_server *testing_server;
struct tls *testing_tls;
char testing_unix_path[64];
int testing_port;
_Atomic int testing_authorized, testing_answered, testing_last_status;

static struct loop *loop;
static struct pool *pool;
static pthread_t thread;
static bool is_running;
static char folder[40];
static int64_t asked_grace_ms;

static void must(bool ok, const struct error *err)
{
    if (ok)
        return;
    printf("Bail out! %s\n", err->text);
    exit(1);
}

static bool authorize(struct call *call, struct error *err)
{
    atomic_fetch_add(&testing_authorized, 1);
    if (str_equal(call_header(call, STR("authorization")), STR("nobody")))
        return error_set(err, ERR_FORBIDDEN, "you may not");
    return true;
}

static void answered(const struct call *call UNUSED, int status, int64_t took_ms UNUSED)
{
    atomic_store(&testing_last_status, status);
    atomic_fetch_add(&testing_answered, 1);
}

static void *run_loop(void *arg UNUSED)
{
    struct error err;

    must(loop_run(loop, &err), &err);
    return NULL;
}

void testing_start(const struct route *routes, size_t n, const struct http_config *tweak)
{
    struct http_config config = *tweak;
    struct error err;

    snprintf(folder, sizeof folder, "/tmp/http-test-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    must(loop_create(&loop, &err) && pool_create(4, &pool, &err), &err);
    config.loop = loop;
    config.pool = pool;
    config.routes = routes;
    config.n_routes = n;
    config.authorize = authorize;
    config.answered = answered;
    config.spool_dir = folder;
    must(http_server_create(&config, &testing_server, &err), &err);
    must(http_server_listen_tls(testing_server, "127.0.0.1:0", testing_tls, &err), &err);
    snprintf(testing_unix_path, sizeof testing_unix_path, "%s/socket", folder);

    char address[80];
    snprintf(address, sizeof address, "unix:%s", testing_unix_path);
    must(http_server_listen(testing_server, address, &err), &err);
    testing_port = http_server_port(testing_server);
    if (pthread_create(&thread, NULL, run_loop, NULL) != 0)
        abort();
    is_running = true;
}

static void on_stopped(void *arg UNUSED)
{
    loop_stop(loop);
}

static void stop_here(void *arg UNUSED)
{
    http_server_shutdown(testing_server, asked_grace_ms, on_stopped, NULL);
}

void testing_begin_stop(int64_t grace_ms)
{
    asked_grace_ms = grace_ms;
    loop_post(loop, stop_here, NULL);
}

void testing_join(void)
{
    if (is_running)
        pthread_join(thread, NULL);
    is_running = false;
}

void testing_stop(void)
{
    testing_join();
    pool_destroy(TAKE(pool));
    http_server_destroy(TAKE(testing_server));
    loop_destroy(TAKE(loop));
    if (rmdir(folder) < 0)
        printf("# %s is not empty: %s\n", folder, strerror(errno));
}

bool testing_answers_reach(int n)
{
    int64_t until = time_boot_ms() + 10000;

    while (atomic_load(&testing_answered) < n && time_boot_ms() < until)
        sched_yield();
    return atomic_load(&testing_answered) >= n;
}

static int dial(int family, const struct sockaddr *name, socklen_t len, int buffer)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = 10};

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) < 0)
        abort();
    if (buffer && setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) < 0)
        abort();
    if (connect(fd, name, len) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int dial_tcp(int buffer)
{
    struct sockaddr_in name = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)testing_port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };

    return dial(AF_INET, (struct sockaddr *)&name, sizeof name, buffer);
}

int testing_dial(void)
{
    return dial_tcp(0);
}

int testing_dial_narrow(void)
{
    return dial_tcp(4096);
}

int testing_dial_unix(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};

    memcpy(name.sun_path, testing_unix_path, sizeof testing_unix_path);
    return dial(AF_UNIX, (struct sockaddr *)&name, sizeof name, 0);
}

bool testing_say(int fd, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t sent = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);

        if (sent < 0)
            return false;
        bytes = (struct str){bytes.ptr + sent, bytes.len - (size_t)sent};
    }
    return true;
}

bool testing_say_chunks(int fd, int n, char want[64])
{
    static unsigned char chunk[65536];
    uint64_t sum = 0;
    uint32_t seed = 1;

    for (int i = 0; i < n; i++) {
        for (size_t at = 0; at < sizeof chunk; at++) {
            seed = seed * 1664525 + 1013904223;
            chunk[at] = (unsigned char)(seed >> 24);
            sum = sum * 31 + chunk[at];
        }
        if (!testing_say(fd, STR("10000\r\n")) ||
            !testing_say(fd, (struct str){(char *)chunk, sizeof chunk}) ||
            !testing_say(fd, STR("\r\n")))
            return false;
    }
    snprintf(want, 64, "%zu %llx", (size_t)n * sizeof chunk, (unsigned long long)sum);
    return testing_say(fd, STR("0\r\n\r\n"));
}

static bool read_byte(int fd, char *byte)
{
    return recv(fd, byte, 1, 0) == 1;
}

/* Up to and with the line end, which is left out of `line`. */
static bool read_line(int fd, char *line, size_t size)
{
    size_t len = 0;

    while (read_byte(fd, line + len)) {
        if (line[len] == '\n' && len > 0 && line[len - 1] == '\r') {
            line[len - 1] = '\0';
            return true;
        }
        if (++len == size)
            return false;
    }
    return false;
}

static bool read_head(int fd, struct reply *reply)
{
    size_t len = 0;

    *reply = (struct reply){0};
    for (;;) {
        if (!read_line(fd, reply->head + len, sizeof reply->head - len - 1))
            return false;
        if (reply->head[len] == '\0')
            break;
        len += strlen(reply->head + len);
        reply->head[len++] = '\n';
    }
    reply->head[len] = '\0';
    return sscanf(reply->head, "HTTP/1.1 %d", &reply->status) == 1;
}

static bool read_body(int fd, struct reply *reply, size_t len)
{
    char piece[4096];

    while (len > 0) {
        ssize_t got = recv(fd, piece, len < sizeof piece ? len : sizeof piece, 0);

        if (got <= 0)
            return false;
        if (reply->len + (size_t)got < sizeof reply->body)
            memcpy(reply->body + reply->len, piece, (size_t)got);
        reply->len += (size_t)got;
        len -= (size_t)got;
    }
    return true;
}

static bool read_chunks(int fd, struct reply *reply)
{
    char line[64];
    size_t len;

    for (;;) {
        if (!read_line(fd, line, sizeof line) || sscanf(line, "%zx", &len) != 1)
            return false;
        if (!read_body(fd, reply, len) || !read_line(fd, line, sizeof line) || line[0])
            return false;
        if (len == 0)
            return true;
    }
}

bool testing_hear(int fd, struct reply *reply)
{
    if (!read_head(fd, reply))
        return false;
    if (strcmp(reply_header(reply, "Transfer-Encoding"), "chunked") == 0)
        return read_chunks(fd, reply);
    return read_body(fd, reply, strtoul(reply_header(reply, "Content-Length"), NULL, 10));
}

bool testing_hear_headless(int fd, struct reply *reply)
{
    return read_head(fd, reply);
}

bool testing_hear_until(int fd, const char *text)
{
    size_t want = strlen(text), len = 0;
    int64_t until = time_boot_ms() + 10000;
    char seen[256] = "";

    while (len < want || memcmp(seen + len - want, text, want) != 0) {
        if (len == sizeof seen) {
            memmove(seen, seen + len - want, want);
            len = want;
        }
        if (time_boot_ms() > until || !read_byte(fd, seen + len))
            return false;
        len++;
    }
    return true;
}

bool testing_is_closed(int fd)
{
    char piece[4096];
    ssize_t got;

    while ((got = recv(fd, piece, sizeof piece, 0)) > 0)
        continue;
    return got == 0 || errno == ECONNRESET;
}

const char *reply_header(const struct reply *reply, const char *name)
{
    static char value[512];
    size_t len = strlen(name);

    for (const char *line = reply->head; *line; line = strchr(line, '\n') + 1) {
        if (strncasecmp(line, name, len) != 0 || strncmp(line + len, ": ", 2) != 0)
            continue;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(line + len + 2, "\n"), line + len + 2);
        return value;
    }
    return "";
}

int testing_ask(const char *request, struct reply *reply)
{
    AUTO_FD int fd = testing_dial();

    if (fd < 0 || !testing_say(fd, str_of(request)) || !testing_hear(fd, reply))
        return -1;
    return reply->status;
}
