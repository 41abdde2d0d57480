#include "http/transport.h"

#include <malloc.h>
#include <openssl/err.h>
#include <semaphore.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include "base/file.h"
#include "base/own.h"
#include "base/test.h"
#include "base/time.h"
#include "http/testing.h"
#include "http/tls_testing.h"

/* A server behind TLS and OpenSSL's own client, with short patience. */

#define HOST    "Host: h\r\n"
#define END     "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

enum { HEAD_MS = 400, IDLE_MS = 1500, WRITE_MS = 1500, UPLOAD_MAX = 32 << 20, LARGE_MAX = 4 << 20 };
enum { WHOLE = 64 << 20, PIECE = 64 << 10, CROWD = 1500, SESSIONS = 200 };

static char folder[40];
static SSL_CTX *client;
static struct reply reply;
static _Atomic int64_t published, pulled;
static sem_t released;

static bool who(struct call *call, struct response *res, struct error *err)
{
    char text[256];
    int len = snprintf(text, sizeof text, "%s %s %s %.*s", call_client_address(call),
                       call->is_secure ? "https" : "http", call->peer_is_local ? "local" : "far",
                       (int)call->host.len, call->host.ptr);

    response_bytes(res, 200, "text/plain");
    return buf_append(response_body(res), (struct str){text, (size_t)len}, err);
}

static bool echo(struct call *call, struct response *res, struct error *err)
{
    response_bytes(res, 201, "text/plain");
    return buf_append(response_body(res), call->request->body, err);
}

static bool upload(struct call *call, struct response *res, struct error *err)
{
    unsigned char piece[65536];
    uint64_t sum = 0;
    ssize_t got;
    char text[64];

    while ((got = read(call->upload_fd, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < got; i++)
            sum = sum * 31 + piece[i];
    snprintf(text, sizeof text, "%llu %llx", (unsigned long long)call->upload_len,
             (unsigned long long)sum);
    response_bytes(res, 200, "text/plain");
    return buf_append(response_body(res), str_of(text), err);
}

static bool big(struct call *call UNUSED, struct response *res, struct error *err)
{
    static char bytes[8 << 20];

    response_bytes(res, 200, "application/octet-stream");
    return buf_append(response_body(res), (struct str){bytes, sizeof bytes}, err);
}

struct cursor {
    int64_t at;
};

static bool pull_events(void *state, struct buf *out, bool *more, bool *over UNUSED,
                        struct error *err)
{
    struct cursor *cursor = state;
    int64_t last = atomic_load(&published);
    char text[64];

    for (int n = 0; cursor->at < last && n < 100; n++) {
        int len = snprintf(text, sizeof text, "data: %lld\n\n", (long long)++cursor->at);

        if (!buf_append(out, (struct str){text, (size_t)len}, err))
            return false;
    }
    *more = cursor->at < last;
    return true;
}

/* Each piece is made of its own number. */
static bool pull_pieces(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct cursor *cursor = state;
    char piece[PIECE];

    memset(piece, (int)(cursor->at % 251), sizeof piece);
    cursor->at++;
    atomic_store(&pulled, cursor->at);
    *more = cursor->at < WHOLE / PIECE;
    *over = !*more;
    return buf_append(out, (struct str){piece, sizeof piece}, err);
}

static void release(void *state)
{
    free(state);
    sem_post(&released);
}

static bool stream(struct response *res, const struct response_source *kind)
{
    struct response_source source = *kind;
    struct cursor *cursor = alloc(sizeof *cursor);

    *cursor = (struct cursor){0};
    source.state = cursor;
    source.release = release;
    response_stream(res, &source);
    return true;
}

static bool events(struct call *call UNUSED, struct response *res, struct error *err UNUSED)
{
    return stream(res, &(struct response_source){.topic = "numbers",
                                                 .content_type = "text/event-stream",
                                                 .is_sse = true,
                                                 .pull = pull_events});
}

static bool download(struct call *call UNUSED, struct response *res, struct error *err UNUSED)
{
    return stream(res, &(struct response_source){.content_type = "application/octet-stream",
                                                 .length = WHOLE,
                                                 .pull = pull_pieces});
}

static bool wait_long(struct call *call UNUSED, struct response *res, struct error *err UNUSED)
{
    response_park(res, "nothing", 60000);
    return true;
}

static const struct route routes[] = {
    {METHOD_GET, "/who", 1, who},
    {METHOD_POST, "/echo", 1, echo, .body_max = LARGE_MAX},
    {METHOD_POST, "/upload", 1, upload, .body_max = UPLOAD_MAX, .upload = true},
    {METHOD_GET, "/big", 1, big},
    {METHOD_GET, "/events", 1, events},
    {METHOD_GET, "/download", 1, download},
    {METHOD_GET, "/wait", 1, wait_long},
};

static int dial(void)
{
    return tls_testing_wrap(client, testing_dial(), SIZE_MAX);
}

static bool ask_on(int fd, const char *request, int want)
{
    return testing_say(fd, str_of(request)) && testing_hear(fd, &reply) && reply.status == want;
}

static bool is_alive(void)
{
    AUTO_FD int fd = dial();

    return ask_on(fd, "GET /who HTTP/1.1\r\n" HOST END, 200);
}

/* A handshake by this client; *ssl is the caller's to free, its socket too. */
static bool shake(SSL_CTX *with, SSL **ssl, int *fd)
{
    *fd = testing_dial();
    *ssl = tls_testing_session(with, *fd);
    ERR_clear_error();
    return SSL_do_handshake(*ssl) == 1;
}

static void leave(SSL *ssl, int fd)
{
    SSL_free(ssl);
    close(fd);
}

TEST(a_request_inside_tls_is_answered)
{
    AUTO_FD int fd = dial();

    CHECK(ask_on(fd, "GET /who HTTP/1.1\r\n" HOST END, 200));
    reply.body[reply.len] = '\0';
    CHECK_STR(reply.body, "127.0.0.1 https local h");
    CHECK_STR(reply_header(&reply, "X-Secure"), "yes");
    CHECK_STR(reply_header(&reply, "X-Everywhere"), "1");
}

TEST(the_unix_socket_stays_in_the_clear)
{
    AUTO_FD int fd = testing_dial_unix();

    CHECK(ask_on(fd, "GET /who HTTP/1.1\r\nX-Forwarded-Proto: https\r\n" HOST END, 200));
    CHECK_STR(reply.body, "unix http local h");
    CHECK_STR(reply_header(&reply, "X-Secure"), "");
}

TEST(one_session_serves_many_requests_also_at_once)
{
    AUTO_FD int fd = dial();

    for (int i = 0; i < 200; i++)
        CHECK(testing_say(fd, STR("GET /who HTTP/1.1\r\n" HOST END
                                  "POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" HOST END "two")));
    for (int i = 0; i < 200; i++) {
        CHECK(testing_hear(fd, &reply) && reply.status == 200);
        CHECK(testing_hear(fd, &reply) && reply.status == 201);
        CHECK_STR(reply.body, "two");
    }
}

TEST(bytes_may_come_one_by_one)
{
    AUTO_FD int fd = tls_testing_wrap(client, testing_dial(), 1);

    CHECK(ask_on(fd, "POST /echo HTTP/1.1\r\nContent-Length: 5\r\n" HOST END "hello", 201));
    CHECK_STR(reply.body, "hello");
    CHECK(ask_on(fd, "GET /who HTTP/1.1\r\n" HOST END, 200));
}

TEST(who_expects_to_continue_is_told_to)
{
    static char body[100000];
    AUTO_FD int fd = dial();

    CHECK(
        ask_on(fd,
               "POST /echo HTTP/1.1\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n" HOST END,
               100));
    CHECK(testing_say(fd, (struct str){body, sizeof body}));
    CHECK(testing_hear(fd, &reply) && reply.status == 201 && reply.len == sizeof body);
}

TEST(a_chunked_upload_reaches_the_disk_whole)
{
    AUTO_FD int fd = dial();
    char want[64];

    CHECK(testing_say(fd, STR("POST /upload HTTP/1.1\r\n" CHUNKED HOST END)));
    CHECK(testing_say_chunks(fd, 320, want));
    CHECK(testing_hear(fd, &reply) && reply.status == 200);
    CHECK_STR(reply.body, want);
}

TEST(a_big_answer_arrives_through_a_narrow_socket)
{
    AUTO_FD int fd = tls_testing_wrap(client, testing_dial_narrow(), 1000);

    CHECK(ask_on(fd, "GET /big HTTP/1.1\r\n" HOST END, 200));
    CHECK(reply.len == MIB(8));
    CHECK(ask_on(fd, "GET /who HTTP/1.1\r\n" HOST END, 200));
}

TEST(events_come_as_they_happen)
{
    AUTO_FD int fd = dial();
    char text[32];

    atomic_store(&published, 1000);
    CHECK(testing_say(fd, STR("GET /events HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear_until(fd, "data: 1\n\n") && testing_hear_until(fd, "data: 1000\n\n"));
    for (int64_t n = 1001; n < 1100; n++) {
        atomic_store(&published, n);
        http_server_wake(testing_server, "numbers");
        snprintf(text, sizeof text, "data: %lld\n\n", (long long)n);
        CHECK(testing_hear_until(fd, text));
    }
}

/* Reads `len` bytes of the download that begin at `at`. */
static bool follow(int fd, size_t at, size_t len)
{
    static unsigned char bytes[PIECE];

    while (len > 0) {
        ssize_t got = recv(fd, bytes, len < sizeof bytes ? len : sizeof bytes, 0);

        if (got <= 0)
            return false;
        for (ssize_t i = 0; i < got; i++, at++)
            if (bytes[i] != (at / PIECE) % 251)
                return false;
        len -= (size_t)got;
    }
    return true;
}

TEST(a_slow_reader_slows_its_source)
{
    AUTO_FD int fd = tls_testing_wrap(client, testing_dial_narrow(), SIZE_MAX);

    CHECK(testing_say(fd, STR("GET /download HTTP/1.1\r\n" HOST END)));
    CHECK(testing_hear_until(fd, "\r\n\r\n") && follow(fd, 0, PIECE));
    for (size_t at = PIECE; at < WHOLE; at += PIECE) {
        CHECK(atomic_load(&pulled) * PIECE <= (int64_t)(at + MIB(16)));
        CHECK(follow(fd, at, PIECE));
    }
    CHECK(ask_on(fd, "GET /who HTTP/1.1\r\n" HOST END, 200));
}

TEST(a_reader_that_stops_is_cut_off)
{
    AUTO_FD int fd = tls_testing_wrap(client, testing_dial_narrow(), SIZE_MAX);
    struct timespec until = {.tv_sec = time(NULL) + 10};
    static char bytes[PIECE];
    size_t total = 0;
    ssize_t got;

    while (sem_trywait(&released) == 0)
        continue;
    CHECK(testing_say(fd, STR("GET /download HTTP/1.1\r\n" HOST END)));
    CHECK(sem_timedwait(&released, &until) == 0);
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        total += (size_t)got;
    CHECK(total > 0 && total < WHOLE);
    CHECK(is_alive());
}

TEST(a_client_that_leaves_while_it_waits_is_noticed)
{
    int fd = dial(), answers = atomic_load(&testing_answered);

    CHECK(testing_say(fd, STR("GET /wait HTTP/1.1\r\n" HOST END)));
    close(fd);
    CHECK(testing_answers_reach(answers + 1));
    CHECK(atomic_load(&testing_last_status) == 499);
    CHECK(is_alive());
}

TEST(the_end_is_said_before_the_socket_is_shut)
{
    static const char ask[] = "GET /who HTTP/1.1\r\nConnection: close\r\n" HOST END;
    char bytes[4096];
    SSL *ssl;
    int fd, result;

    CHECK(shake(client, &ssl, &fd));
    CHECK(SSL_write(ssl, ask, sizeof ask - 1) > 0);
    while ((result = SSL_read(ssl, bytes, sizeof bytes)) > 0)
        continue;
    CHECK(SSL_get_error(ssl, result) == SSL_ERROR_ZERO_RETURN);
    leave(ssl, fd);

    /* An idle session is ended in the same way when its time is over. */
    CHECK(shake(client, &ssl, &fd));
    result = SSL_read(ssl, bytes, sizeof bytes);
    CHECK(SSL_get_error(ssl, result) == SSL_ERROR_ZERO_RETURN);
    leave(ssl, fd);
}

TEST(whoever_speaks_http_is_told_to_use_https)
{
    static const char *const requests[] = {"GET / HTTP/1.1\r\n" HOST END,
                                           "DELETE /x HTTP/1.0\r\n" END, "OPTIONS * "};

    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        AUTO_FD int fd = testing_dial();

        CHECK(ask_on(fd, requests[i], 400));
        CHECK(strstr(reply.body, "https://"));
        CHECK(reply.len == strlen(reply.body));
        CHECK(testing_is_closed(fd));
    }
}

TEST(who_speaks_neither_is_dropped)
{
    static const struct str rubbish[] = {
        STR("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"),
        STR("\x16\x03\x01\xff\xff\x01\x00\x00\x00\x00\x00"),
        STR("\x17\x03\x03\x00\x05hello"),
        STR("\x15\x03\x01\x00\x02\x02\x28"),
        STR("ssh-2.0\r\n"),
        STR("\0\0\0\0\0\0\0\0"),
    };

    for (size_t i = 0; i < COUNT_OF(rubbish); i++) {
        AUTO_FD int fd = testing_dial();

        CHECK(testing_say(fd, rubbish[i]));
        CHECK(testing_is_closed(fd));
    }
    CHECK(is_alive());
}

TEST(a_handshake_that_does_not_end_is_cut_off)
{
    AUTO_FD int silent = testing_dial(), half = testing_dial(), slow = testing_dial();
    int64_t started = time_boot_ms();

    CHECK(testing_say(half, STR("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")));
    CHECK(testing_say(slow, STR("\x16\x03\x01\x02\x00\x01")));
    while (testing_say(slow, STR("\0")) && time_boot_ms() - started < 10000) {
        char byte;

        if (recv(slow, &byte, 1, MSG_DONTWAIT) == 0)
            break;
        usleep(5000);
    }
    CHECK(time_boot_ms() - started < 10000);
    CHECK(testing_is_closed(half) && testing_is_closed(silent));
    CHECK(is_alive());
}

/* A client that can do only this. */
static SSL_CTX *limited(int version, const char *ciphers)
{
    SSL_CTX *made = tls_testing_client(folder, "first");

    SSL_CTX_set_security_level(made, 0);
    if (SSL_CTX_set_min_proto_version(made, version) != 1 ||
        SSL_CTX_set_max_proto_version(made, version) != 1 ||
        (ciphers && SSL_CTX_set_cipher_list(made, ciphers) != 1))
        abort();
    return made;
}

TEST(only_modern_protocols_and_ciphers_are_spoken)
{
    static const struct {
        int version;
        const char *ciphers;
        bool want;
    } rows[] = {
        {TLS1_3_VERSION, NULL,                            true },
        {TLS1_2_VERSION, NULL,                            true },
        {TLS1_2_VERSION, "ECDHE-ECDSA-AES256-GCM-SHA384", true },
        {TLS1_2_VERSION, "ECDHE-ECDSA-CHACHA20-POLY1305", true },
        {TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256",     false},
        {TLS1_2_VERSION, "AES128-GCM-SHA256",             false},
        {TLS1_2_VERSION, "DHE-RSA-AES128-GCM-SHA256",     false},
        {TLS1_1_VERSION, "ALL",                           false},
        {TLS1_VERSION,   "ALL",                           false},
    };
    int wrong = 0;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        SSL_CTX *with = limited(rows[i].version, rows[i].ciphers);
        SSL *ssl;
        int fd;

        if (shake(with, &ssl, &fd) != rows[i].want) {
            printf("# row %zu: %s\n", i, ERR_reason_error_string(ERR_peek_last_error()));
            wrong++;
        }
        leave(ssl, fd);
        SSL_CTX_free(with);
    }
    CHECK(wrong == 0);
}

TEST(only_http_1_1_is_spoken_inside)
{
    static const struct {
        const char *offer, *want; /* NULL: the handshake fails */
    } rows[] = {
        {"\x02h2\x08http/1.1", "http/1.1"},
        {"\x08http/1.1",       "http/1.1"},
        {"\x02h2",             NULL      },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int fd = testing_dial();
        SSL *ssl = tls_testing_session(client, fd);
        const unsigned char *chosen = NULL;
        unsigned len = 0;

        CHECK(SSL_set_alpn_protos(ssl, (const unsigned char *)rows[i].offer,
                                  (unsigned)strlen(rows[i].offer)) == 0);
        CHECK((SSL_do_handshake(ssl) == 1) == (rows[i].want != NULL));
        SSL_get0_alpn_selected(ssl, &chosen, &len);
        if (rows[i].want)
            CHECK(str_equal((struct str){(const char *)chosen, len}, str_of(rows[i].want)));
        leave(ssl, fd);
    }
}

TEST(nothing_is_resumed_and_nothing_negotiated_anew)
{
    static const char ask[] = "GET /who HTTP/1.1\r\n" HOST END;
    SSL_CTX *old = limited(TLS1_2_VERSION, NULL);
    char bytes[4096];
    SSL *ssl;
    int fd;

    SSL_CTX_set_session_cache_mode(client, SSL_SESS_CACHE_CLIENT);
    CHECK(shake(client, &ssl, &fd));
    CHECK(SSL_write(ssl, ask, sizeof ask - 1) > 0 && SSL_read(ssl, bytes, sizeof bytes) > 0);
    CHECK(SSL_SESSION_is_resumable(SSL_get0_session(ssl)) == 0);
    leave(ssl, fd);

    CHECK(shake(old, &ssl, &fd));
    CHECK(!SSL_SESSION_has_ticket(SSL_get0_session(ssl)));
    CHECK(SSL_get_secure_renegotiation_support(ssl) == 1);
    CHECK(SSL_renegotiate(ssl) == 1);
    CHECK(SSL_do_handshake(ssl) != 1);
    leave(ssl, fd);
    SSL_CTX_free(old);
    CHECK(is_alive());
}

TEST(keys_may_be_changed_on_the_way)
{
    static const char ask[] = "GET /who HTTP/1.1\r\n" HOST END;
    char bytes[4096];
    SSL *ssl;
    int fd;

    CHECK(shake(client, &ssl, &fd));
    for (int i = 0; i < 20; i++) {
        CHECK(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1);
        CHECK(SSL_write(ssl, ask, sizeof ask - 1) > 0 && SSL_read(ssl, bytes, sizeof bytes) > 0);
    }
    leave(ssl, fd);
}

/* The clients forget their side at once, so that what grows is the server's. */
TEST(a_crowd_of_sessions_costs_little_each)
{
    int fds[SESSIONS];
    size_t before = mallinfo2().uordblks;

    for (size_t i = 0; i < SESSIONS; i++) {
        SSL *ssl;

        CHECK(shake(client, &ssl, &fds[i]));
        SSL_free(ssl);
    }

    size_t grown = mallinfo2().uordblks - before;

    printf("# %zu bytes each\n", grown / SESSIONS);
    for (size_t i = 0; i < SESSIONS; i++)
        close(fds[i]);
    CHECK(grown / SESSIONS < KIB(48));
    CHECK(is_alive());
}

/* Those that leave it at that must not crowd out the others. */
TEST(thousands_that_say_nothing_cost_a_socket_each)
{
    static int fds[CROWD];
    struct rlimit files;
    size_t before = mallinfo2().uordblks;

    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_cur < (rlim_t)2 * CROWD + 100)
        SKIP("too few descriptors are allowed here");
    for (size_t i = 0; i < CROWD; i++)
        CHECK((fds[i] = testing_dial()) >= 0);
    CHECK(is_alive());
    printf("# %zu bytes each\n", (mallinfo2().uordblks - before) / CROWD);
    CHECK(mallinfo2().uordblks < before + (size_t)CROWD * 2048);
    for (size_t i = 0; i < CROWD; i++)
        close(fds[i]);
    CHECK(is_alive());
}

static void start(void)
{
    static const struct http_config tweak = {
        .head_timeout_ms = HEAD_MS,
        .idle_timeout_ms = IDLE_MS,
        .write_timeout_ms = WRITE_MS,
        .response_headers = "X-Everywhere: 1\r\n",
        .secure_headers = "X-Secure: yes\r\n",
    };
    char certificate[80], key[80];
    struct error err;

    snprintf(folder, sizeof folder, "/tmp/transport-test-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    tls_testing_make(folder, "first");
    client = tls_testing_client(folder, "first");
    snprintf(certificate, sizeof certificate, "%s/first.pem", folder);
    snprintf(key, sizeof key, "%s/first.key", folder);
    if (!tls_create(&(struct tls_files){certificate, key, "certificate", "key"}, &testing_tls,
                    &err)) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    testing_start(routes, COUNT_OF(routes), &tweak);
}

int main(void)
{
    struct error err;

    /* One arena, so that what is counted is what all threads hold. */
    mallopt(M_ARENA_MAX, 1);
    sem_init(&released, 0, 0);
    start();
    int status = test_run_all();
    testing_begin_stop(1000);
    testing_stop();
    tls_testing_finish();
    tls_destroy(testing_tls);
    SSL_CTX_free(client);
    if (!folder_remove(folder, &err))
        printf("# %s\n", err.text);
    return status;
}
