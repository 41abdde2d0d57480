#include "http/connection.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/test.h"
#include "base/time.h"
#include "http/abuse.h"
#include "http/testing.h"

/* Every way a client can be bad at it, over a real socket, with short patience. */

enum { HEAD_MS = 150, BODY_MS = 150, IDLE_MS = 300, WRITE_MS = 200 };
enum { CAP = 32, FLOOD = 32 * 1024 * 1024 };

static struct reply reply;

static bool plain(struct call *call UNUSED, struct response *res, struct error *err UNUSED)
{
    response_empty(res, 200);
    return true;
}

static bool flood(struct call *call UNUSED, struct response *res, struct error *err)
{
    static char bytes[FLOOD];

    response_bytes(res, 200, "application/octet-stream");
    return buf_append(response_body(res), (struct str){bytes, sizeof bytes}, err);
}

static const struct route routes[] = {
    {METHOD_GET, "/x", 1, plain, .body_max = ABUSE_BODY_MAX},
    {METHOD_POST, "/x", 1, plain, .body_max = ABUSE_BODY_MAX},
    {METHOD_POST, "/upload", 1, plain, .body_max = MIB(1), .upload = true},
    {METHOD_GET, "/flood", 1, flood},
};

static bool is_alive(void)
{
    return testing_ask(GET "\r\n", &reply) == 200;
}

TEST(every_abuse_gets_its_error_and_loses_the_connection)
{
    int wrong = 0;

    for (size_t i = 0; i < COUNT_OF(abuse); i++) {
        AUTO_FD int fd = testing_dial();
        bool is_heard = testing_say(fd, abuse[i].bytes) && testing_hear(fd, &reply);
        bool is_json = is_heard && strstr(reply.body, "\"code\":\"");

        if (is_json && reply.status == abuse[i].want && testing_is_closed(fd))
            continue;
        printf("# %s: want %d, got %d\n", abuse[i].what, abuse[i].want, reply.status);
        wrong++;
    }
    CHECK(wrong == 0);
    CHECK(is_alive());
}

TEST(a_request_smuggled_behind_an_abuse_is_never_answered)
{
    static char bytes[4096];

    for (size_t i = 0; i < COUNT_OF(abuse); i++) {
        AUTO_FD int fd = testing_dial();
        int before = atomic_load(&testing_answered);

        memcpy(bytes, abuse[i].bytes.ptr, abuse[i].bytes.len);
        memcpy(bytes + abuse[i].bytes.len, GET "\r\n", sizeof GET + 1);
        CHECK(testing_say(fd, (struct str){bytes, abuse[i].bytes.len + sizeof GET + 1}));
        CHECK(testing_is_closed(fd));
        CHECK(atomic_load(&testing_answered) == before + 1);
        CHECK(atomic_load(&testing_last_status) >= 400);
    }
}

TEST(a_huge_head_is_refused)
{
    AUTO_FD int fd = testing_dial();
    static char line[REQUEST_HEAD_MAX];

    memset(line, 'a', sizeof line);
    CHECK(testing_say(fd, STR(GET "X-A: ")));
    CHECK(testing_say(fd, (struct str){line, sizeof line}));
    CHECK(testing_hear(fd, &reply) && reply.status == 431);
    CHECK(testing_is_closed(fd));
}

TEST(too_many_headers_are_refused)
{
    AUTO_FD int fd = testing_dial();

    CHECK(testing_say(fd, STR(GET)));
    for (int i = 0; i < REQUEST_HEADERS_MAX; i++)
        CHECK(testing_say(fd, STR("A: b\r\n")));
    CHECK(testing_say(fd, STR("\r\n")));
    CHECK(testing_hear(fd, &reply) && reply.status == 431);
}

/* Bytes keep coming, one at a time, and still the head must end in its time. */
TEST(a_slow_loris_is_cut_off)
{
    AUTO_FD int fd = testing_dial();
    int64_t started = time_boot_ms();
    int said = 0;

    CHECK(testing_say(fd, STR(GET)));
    while (time_boot_ms() - started < 10000 && testing_say(fd, STR("X"))) {
        char byte;

        said++;
        if (recv(fd, &byte, 1, MSG_DONTWAIT) == 0)
            break;
        usleep(5000);
    }
    CHECK(said > 1 && time_boot_ms() - started < 10000);
    CHECK(is_alive());
}

TEST(an_idle_connection_is_closed)
{
    AUTO_FD int silent = testing_dial(), once = testing_dial();

    CHECK(testing_say(once, STR(GET "\r\n")) && testing_hear(once, &reply));
    CHECK(testing_is_closed(silent));
    CHECK(testing_is_closed(once));
}

TEST(a_body_that_stops_coming_ends_the_connection)
{
    static const char *const heads[] = {
        POST LENGTH "10" END "abc",
        CHUNKED "3\r\nabc\r\n",
        "POST /upload HTTP/1.1\r\nHost: h\r\n" LENGTH "10" END "abc",
    };

    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        AUTO_FD int fd = testing_dial();

        CHECK(testing_say(fd, str_of(heads[i])));
        CHECK(testing_is_closed(fd));
    }
    CHECK(is_alive());
}

/* On a unix socket the hang-up can be seen without reading. */
TEST(a_reader_that_stops_is_cut_off)
{
    AUTO_FD int fd = testing_dial_unix();
    struct pollfd hang_up = {.fd = fd};
    static char piece[65536];
    size_t total = 0;
    ssize_t got;

    CHECK(testing_say(fd, STR("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n")));
    CHECK(poll(&hang_up, 1, 10000) == 1 && hang_up.revents & POLLHUP);
    while ((got = recv(fd, piece, sizeof piece, 0)) > 0)
        total += (size_t)got;
    CHECK(total > 0 && total < FLOOD);
    CHECK(is_alive());
}

TEST(leaving_in_any_phase_harms_nobody)
{
    static const char *const pieces[] = {
        "",
        "G",
        "GET /x HTTP/1.1\r\nHo",
        POST LENGTH "10" END,
        POST LENGTH "10" END "abc",
        CHUNKED "3\r\nab",
        "POST /upload HTTP/1.1\r\nHost: h\r\n" CODING "chunked" END "5\r\nabc",
        GET "\r\n",
        "GET /flood HTTP/1.1\r\nHost: h\r\n\r\n",
    };
    const struct linger resets[] = {{0}, {.l_onoff = 1}};

    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        for (size_t r = 0; r < COUNT_OF(resets); r++) {
            int fd = testing_dial();

            CHECK(testing_say(fd, str_of(pieces[i])));
            CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &resets[r], sizeof resets[r]) == 0);
            close(fd);
            CHECK(is_alive());
        }
    }
}

TEST(connections_over_the_cap_are_closed_at_once)
{
    int fds[CAP + 8], served = 0;

    for (size_t i = 0; i < COUNT_OF(fds); i++)
        fds[i] = testing_dial();
    for (size_t i = 0; i < COUNT_OF(fds); i++) {
        served += testing_say(fds[i], STR(GET "\r\n")) && testing_hear(fds[i], &reply);
        close(fds[i]);
    }
    CHECK(served > 0 && served <= CAP);

    /* The server hears of the closed ones in its own time. */
    int64_t until = time_boot_ms() + 10000;
    while (!is_alive())
        CHECK(time_boot_ms() < until);
}

/* Takes every descriptor there is but one, for the client. */
static size_t use_up_descriptors(int *fds, size_t max)
{
    size_t n = 0;

    while (n < max && (fds[n] = dup(STDOUT_FILENO)) >= 0)
        n++;
    if (n > 0)
        close(fds[--n]);
    return n;
}

TEST(without_descriptors_a_client_is_turned_away_and_not_left_waiting)
{
    struct rlimit before, tight;
    static int fds[512];
    size_t n;

    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    tight = before;
    tight.rlim_cur = 256;
    CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
    n = use_up_descriptors(fds, COUNT_OF(fds));

    int fd = testing_dial();
    bool is_turned_away = testing_is_closed(fd);

    close(fd);
    while (n > 0)
        close(fds[--n]);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(is_turned_away);
    CHECK(is_alive());
}

int main(void)
{
    static const struct http_config tweak = {
        .connections_max = CAP,
        .head_timeout_ms = HEAD_MS,
        .body_timeout_ms = BODY_MS,
        .idle_timeout_ms = IDLE_MS,
        .write_timeout_ms = WRITE_MS,
    };

    testing_start(routes, COUNT_OF(routes), &tweak);
    int status = test_run_all();
    testing_begin_stop(5000);
    testing_stop();
    return status;
}
