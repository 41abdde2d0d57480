#include "image/registry_faults.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/own.h"
#include "image/digest.h"
#include "image/store.h"

enum { HEAD_MAX = 16384 };

struct visit {
    struct fault_server *server;
    int fd;
    char head[HEAD_MAX];
    struct str early; /* of the body, read with the head */
    char path[4096], authorization[1024], range[64];
    bool is_layer;
    int number; /* of requests for the same kind */
};

static void say(int fd, struct str bytes)
{
    while (bytes.len) {
        ssize_t sent = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes = (struct str){bytes.ptr + sent, bytes.len - (size_t)sent};
    }
}

PRINTF_LIKE(4, 5)
static void answer(struct visit *visit, int status, struct str body, const char *fmt, ...)
{
    char head[8192];
    va_list args;
    int len = snprintf(head, sizeof head,
                       "HTTP/1.1 %d Status\r\nContent-Length: %zu\r\nConnection: close\r\n", status,
                       body.len);

    va_start(args, fmt);
    len += vsnprintf(head + len, sizeof head - (size_t)len, fmt, args);
    va_end(args);
    say(visit->fd, (struct str){head, (size_t)len});
    say(visit->fd, STR("\r\n"));
    say(visit->fd, body);
}

/* Until the client has gone or the server ends. */
static void be_silent(struct visit *visit)
{
    struct pollfd fds[] = {
        {.fd = visit->fd,           .events = POLLRDHUP},
        {.fd = visit->server->quit, .events = POLLIN   },
    };

    (void)poll(fds, 2, 20000);
}

static void copy_header(const char *head, const char *name, char *room, size_t size)
{
    const char *at = strcasestr(head, name);

    room[0] = '\0';
    if (at)
        (void)snprintf(room, size, "%.*s", (int)strcspn(at + strlen(name), "\r"),
                       at + strlen(name));
}

static bool hear(struct visit *visit)
{
    size_t len = 0;

    while (len + 1 < sizeof visit->head) {
        ssize_t got = recv(visit->fd, visit->head + len, sizeof visit->head - 1 - len, 0);
        if (got <= 0)
            return false;
        len += (size_t)got;
        visit->head[len] = '\0';
        if (visit->head[0] == 0x16) /* TLS is not spoken here */
            return false;
        if (strstr(visit->head, "\r\n\r\n"))
            break;
    }
    const char *path = strchr(visit->head, ' '), *end = strstr(visit->head, "\r\n\r\n");
    if (!path || !end)
        return false;
    visit->early = (struct str){end + 4, len - (size_t)(end + 4 - visit->head)};
    (void)snprintf(visit->path, sizeof visit->path, "%.*s", (int)strcspn(path + 1, " "), path + 1);
    copy_header(visit->head, "\r\nAuthorization: ", visit->authorization,
                sizeof visit->authorization);
    copy_header(visit->head, "\r\nRange: ", visit->range, sizeof visit->range);
    return true;
}

static void note(struct visit *visit)
{
    struct fault_server *server = visit->server;

    visit->is_layer = strstr(visit->path, server->layer) != NULL;
    pthread_mutex_lock(&server->lock);
    server->requests++;
    server->authorized += visit->authorization[0] != '\0';
    server->ranges += visit->range[0] != '\0';
    if (visit->range[0])
        memcpy(server->last_range, visit->range, sizeof server->last_range);
    visit->number = visit->is_layer ? ++server->layers : server->requests;
    pthread_mutex_unlock(&server->lock);
}

static char *read_blob(struct visit *visit, const char *digest, struct arena *arena, size_t *len)
{
    struct error err;
    struct str bytes;

    if (!store_read_blob(visit->server->store, digest, MIB(64), arena, &bytes, &err))
        return NULL;
    *len = bytes.len;
    return (char *)bytes.ptr;
}

/* The length is promised in full, whatever then comes. */
static void give_part(struct visit *visit, struct str bytes, size_t from, size_t promised,
                      size_t given)
{
    char head[512];
    int len =
        snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\nConnection: close\r\n",
                 from ? "206 Partial Content" : "200 OK", promised);

    if (from)
        len += snprintf(head + len, sizeof head - (size_t)len,
                        "Content-Range: bytes %zu-%zu/%zu\r\n", from, bytes.len - 1, bytes.len);
    say(visit->fd, (struct str){head, (size_t)len});
    say(visit->fd, STR("\r\n"));
    say(visit->fd, (struct str){bytes.ptr + from, given});
}

static void give_blob(struct visit *visit, const char *digest)
{
    AUTO(arena_finish) struct arena arena = {0};
    enum fault fault = visit->is_layer ? visit->server->fault : FAULT_NONE;
    size_t len = 0, from = 0, given;
    char *bytes = read_blob(visit, digest, &arena, &len);

    if (!bytes) {
        answer(visit, 404, STR("{\"errors\":[{\"code\":\"BLOB_UNKNOWN\"}]}"), "%s", "");
        return;
    }
    if (fault == FAULT_CORRUPT)
        bytes[len / 2] ^= 1;
    if (fault != FAULT_DROP_PLAIN && visit->range[0])
        from = (size_t)strtoull(visit->range + sizeof "bytes=" - 1, NULL, 10);
    given = len - from;
    if (((fault == FAULT_DROP || fault == FAULT_DROP_PLAIN) && visit->number == 1) ||
        fault == FAULT_STALL)
        given /= 2;
    if (fault == FAULT_DROP_EVER)
        given = given < 1000 ? given : 1000;
    give_part(visit, (struct str){bytes, len}, from, len - from, given);
    if (fault == FAULT_STALL)
        be_silent(visit);
}

static bool redirect(struct visit *visit)
{
    const struct fault_server *server = visit->server;

    if (!visit->is_layer)
        return false;
    if (server->fault == FAULT_REDIRECT)
        answer(visit, 307, (struct str){0}, "Location: http://%s%s\r\n", server->other,
               visit->path);
    else if (server->fault == FAULT_LOOP)
        answer(visit, 302, (struct str){0}, "Location: %s\r\n", visit->path);
    else if (server->fault == FAULT_ELSEWHERE)
        answer(visit, 302, (struct str){0}, "Location: http://blobs.example/%s\r\n", "layer");
    else
        return false;
    return true;
}

/* So much of the body as is to be taken, hashed; false: it ended before. */
static bool hear_body(struct visit *visit, size_t len, char digest[DIGEST_TEXT])
{
    AUTO(sha256_finish) struct sha256 hash;
    char bytes[65536];

    sha256_init(&hash);
    sha256_update(&hash, visit->early);
    for (size_t left = len - visit->early.len; left;) {
        ssize_t got = recv(visit->fd, bytes, left < sizeof bytes ? left : sizeof bytes, 0);
        if (got <= 0)
            return false;
        sha256_update(&hash, (struct str){bytes, (size_t)got});
        left -= (size_t)got;
    }
    digest_take(&hash, digest);
    return true;
}

/* Whoever drops a connection before it has read everything resets it. */
static bool drops_upload(struct visit *visit)
{
    struct fault_server *server = visit->server;
    bool is_first;

    pthread_mutex_lock(&server->lock);
    is_first = visit->is_layer && ++server->uploads == 1;
    pthread_mutex_unlock(&server->lock);
    return visit->is_layer &&
           ((server->fault == FAULT_DROP && is_first) || server->fault == FAULT_DROP_EVER);
}

static void take_upload(struct visit *visit)
{
    struct fault_server *server = visit->server;
    const char *wanted = strstr(visit->path, "digest=");
    char length[32], digest[DIGEST_TEXT];

    copy_header(visit->head, "\r\nContent-Length: ", length, sizeof length);
    size_t len = (size_t)strtoull(length, NULL, 10);
    if (strcasestr(visit->head, "\r\nExpect: 100-continue"))
        say(visit->fd, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    if (drops_upload(visit)) {
        (void)hear_body(visit, len / 2, digest);
        return;
    }
    if (!hear_body(visit, len, digest))
        return;
    if (wanted && strcmp(wanted + sizeof "digest=" - 1, digest) != 0) {
        answer(visit, 400, STR("{\"errors\":[{\"code\":\"DIGEST_INVALID\"}]}"), "%s", "");
        return;
    }
    pthread_mutex_lock(&server->lock);
    server->taken += visit->is_layer;
    server->manifests += !wanted;
    pthread_mutex_unlock(&server->lock);
    answer(visit, 201, (struct str){0}, "Docker-Content-Digest: %s\r\n", digest);
}

/* An image comes: nothing of it is here yet. */
static bool take(struct visit *visit)
{
    if (strncmp(visit->head, "HEAD ", 5) == 0)
        answer(visit, 404, (struct str){0}, "%s", "");
    else if (strncmp(visit->head, "POST ", 5) == 0 && visit->server->fault == FAULT_DENIED)
        answer(visit, 403, (struct str){0}, "%s", "");
    else if (strncmp(visit->head, "POST ", 5) == 0)
        answer(visit, 202, (struct str){0}, "Location: %s1\r\n", visit->path);
    else if (strncmp(visit->head, "PUT ", 4) == 0)
        take_upload(visit);
    else
        return false;
    return true;
}

static bool misbehave(struct visit *visit)
{
    switch (visit->server->fault) {
    case FAULT_DOWN: answer(visit, 503, (struct str){0}, "Retry-After: %d\r\n", 1000); return true;
    case FAULT_BUSY:
        if (visit->number > (visit->is_layer ? 1 : 2))
            return false;
        answer(visit, 429, (struct str){0}, "Retry-After: %d\r\n", 0);
        return true;
    case FAULT_MUTE:
        if (!strstr(visit->path, "/manifests/"))
            return false;
        be_silent(visit);
        return true;
    case FAULT_GONE:
        if (visit->is_layer)
            answer(visit, 404, (struct str){0}, "%s", "");
        return visit->is_layer;
    case FAULT_NONE:
    case FAULT_CORRUPT:
    case FAULT_STALL:
    case FAULT_DROP:
    case FAULT_DROP_PLAIN:
    case FAULT_DROP_EVER:
    case FAULT_DENIED:
    case FAULT_REDIRECT:
    case FAULT_LOOP:
    case FAULT_ELSEWHERE: break;
    }
    return redirect(visit);
}

static void give_token(struct visit *visit)
{
    struct fault_server *server = visit->server;

    pthread_mutex_lock(&server->lock);
    server->tokens++;
    (void)snprintf(server->last_token_query, sizeof server->last_token_query, "%.511s",
                   visit->path);
    pthread_mutex_unlock(&server->lock);
    if (server->token_wanted && strcmp(visit->authorization, server->token_wanted) != 0)
        answer(visit, 401, (struct str){0}, "%s", "");
    else
        answer(visit, 200, str_of(server->token), "%s", "");
}

static void serve(struct visit *visit)
{
    const struct fault_server *server = visit->server;
    const char *blob = strstr(visit->path, "/blobs/"),
               *manifest = strstr(visit->path, "/manifests/");

    if (strncmp(visit->path, "/token", 6) == 0)
        give_token(visit);
    else if (server->challenge &&
             (!server->wanted || strcmp(visit->authorization, server->wanted) != 0))
        answer(visit, 401, (struct str){0}, "WWW-Authenticate: %s\r\n", server->challenge);
    else if (misbehave(visit) || take(visit))
        return;
    else if (blob)
        give_blob(visit, blob + sizeof "/blobs/" - 1);
    else if (manifest && strchr(manifest, ':') && server->second.len)
        answer(visit, 200, server->second, "%s", "");
    else if (manifest)
        answer(visit, 200, server->manifest, "%s", "");
    else
        answer(visit, 200, STR("{}"), "%s", "");
}

static void *run_visit(void *arg)
{
    struct visit *visit = arg;
    struct fault_server *server = visit->server;

    if (hear(visit)) {
        note(visit);
        serve(visit);
    }
    (void)shutdown(visit->fd, SHUT_WR);
    close(visit->fd);
    free(visit);
    pthread_mutex_lock(&server->lock);
    server->live--;
    pthread_cond_signal(&server->ended);
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

static void receive(struct fault_server *server, int fd)
{
    struct visit *visit = alloc(sizeof *visit);
    pthread_t thread;

    *visit = (struct visit){.server = server, .fd = fd};
    pthread_mutex_lock(&server->lock);
    server->live++;
    pthread_mutex_unlock(&server->lock);
    if (pthread_create(&thread, NULL, run_visit, visit) != 0)
        abort();
    pthread_detach(thread);
}

static void *run(void *arg)
{
    struct fault_server *server = arg;
    struct pollfd fds[] = {
        {.fd = server->fd,   .events = POLLIN},
        {.fd = server->quit, .events = POLLIN},
    };

    while (poll(fds, 2, -1) >= 0 && !fds[1].revents) {
        int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            receive(server, fd);
    }
    return NULL;
}

bool fault_server_start(struct fault_server *server, const char *host)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;

    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->ended, NULL);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    server->quit = eventfd(0, EFD_CLOEXEC);
    if (server->fd < 0 || server->quit < 0 || inet_pton(AF_INET, host, &address.sin_addr) != 1 ||
        bind(server->fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(server->fd, 64) != 0 ||
        getsockname(server->fd, (struct sockaddr *)&address, &len) != 0)
        return false;
    (void)snprintf(server->address, sizeof server->address, "%s:%d", host, ntohs(address.sin_port));
    return pthread_create(&server->thread, NULL, run, server) == 0;
}

void fault_server_stop(struct fault_server *server)
{
    uint64_t one = 1;

    if (!server->thread)
        return;
    (void)!write(server->quit, &one, sizeof one);
    pthread_join(server->thread, NULL);
    pthread_mutex_lock(&server->lock);
    while (server->live > 0)
        pthread_cond_wait(&server->ended, &server->lock);
    pthread_mutex_unlock(&server->lock);
    close(server->fd);
    close(server->quit);
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->ended);
}
