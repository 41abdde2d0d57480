#include "engine/firecracker/api.h"

#include "engine/firecracker/jail_fixture.h"

/* The whole request as it came, for the test to look at. */
static char request[8192];

struct answer {
    const char *bytes;
    bool holds;  /* says nothing more, and does not hang up */
    size_t fill; /* so many bytes more */
};

/* Reads up to the end of the body. */
static void request_read(int connection)
{
    size_t len = 0;
    const char *body;

    memset(request, 0, sizeof(request));
    while (len < sizeof(request) - 1) {
        ssize_t got = recv(connection, request + len, sizeof(request) - 1 - len, 0);
        if (got <= 0)
            return;
        len += (size_t)got;
        const char *length = strcasestr(request, "content-length: ");
        body = strstr(request, "\r\n\r\n");
        if (body &&
            (!length || len - (size_t)(body + 4 - request) >= strtoul(length + 16, NULL, 10)))
            return;
    }
}

static void peer(int connection, const void *arg)
{
    const struct answer *answer = arg;
    char byte;

    request_read(connection);
    (void)!send(connection, answer->bytes, strlen(answer->bytes), MSG_NOSIGNAL);
    for (size_t i = 0; i < answer->fill; i++) {
        if (send(connection, "x", 1, MSG_NOSIGNAL) != 1)
            return;
    }
    while (answer->holds && recv(connection, &byte, 1, 0) == 1)
        ;
}

static bool ask(const struct answer *answer, int64_t patience_ms, struct error *err)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    struct machine_api *api;

    if (!jail_fixture_open(&fixture))
        return error_set(err, ERR_INTERNAL, "no fixture");
    jail_fixture_serve(&fixture, peer, answer);
    int64_t deadline = time_boot_ms() + PATIENCE_MS;
    if (!machine_api_open(fixture.root, "s", geteuid(), fixture.self, deadline, &api, err))
        return false;
    bool ok = machine_api_send(api, "PUT", "/vsock", STR("{\"guest_cid\":3}"),
                               time_boot_ms() + patience_ms, err);
    machine_api_close(api);
    return ok;
}

static const struct row {
    const char *what;
    struct answer answer;
    int64_t patience_ms;
    bool is_success;
    enum error_code code;
    const char *text; /* in the error */
} rows[] = {
    {"done",
     {"HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n", true},
     PATIENCE_MS, .is_success = true},
    {"refused",
     {"HTTP/1.1 400 \r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n"
      "{\"fault_message\":\"it is in use.\"}",
      true},
     PATIENCE_MS, .code = ERR_INVALID,
     .text = "refuses PUT /vsock: it is in use."},
    {"refused with bytes for a terminal",
     {"HTTP/1.1 400 \r\nContent-Length: 34\r\n\r\n{\"fault_message\":\"a\\u001b[31m b.\"}", true},
     PATIENCE_MS, .code = ERR_INVALID,
     .text = "PUT /vsock: a [31m b."},
    {"refused without a reason",
     {"HTTP/1.1 400 \r\nContent-Length: 2\r\n\r\n{}", true},
     PATIENCE_MS, .code = ERR_INVALID,
     .text = "with status 400"},
    {"refused with no JSON",
     {"HTTP/1.1 500 \r\nContent-Length: 2\r\n\r\n!!", true},
     PATIENCE_MS, .code = ERR_INVALID,
     .text = "with status 500"},
    {"another success than ours",
     {"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n{}", true},
     PATIENCE_MS, .code = ERR_INVALID,
     .text = "with status 200"},
    {"a redirect",
     {"HTTP/1.1 302 \r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", true},
     PATIENCE_MS, .code = ERR_INVALID,
     .text = "with status 302"},
    {"no word", {"", true}, 100, .code = ERR_TIMEOUT, .text = "in time"},
    {"half a head", {"HTTP/1.1 204 \r\nServ", true}, 100, .code = ERR_TIMEOUT, .text = "in time"},
    {"hung up", {"", false}, PATIENCE_MS, .code = ERR_UNAVAILABLE, .text = "no answer"},
    {"hung up within",
     {"HTTP/1.1 400 \r\nContent-Length: 99\r\n\r\n{", false},
     PATIENCE_MS, .code = ERR_UNAVAILABLE,
     .text = "no answer"},
    {"garbage", {"OK 7\r\n\r\n", false}, PATIENCE_MS, .code = ERR_UNAVAILABLE, .text = "no answer"},
    {"an endless head",
     {"HTTP/1.1 204 \r\nX: ", false, 1 << 20},
     PATIENCE_MS, .code = ERR_UNAVAILABLE,
     .text = "no answer"},
    {"an endless body",
     {"HTTP/1.1 400 \r\n\r\n", false, 1 << 20},
     PATIENCE_MS, .code = ERR_UNAVAILABLE,
     .text = "no answer"},
};

TEST(every_answer_is_yes_or_a_named_no)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct row *row = &rows[i];
        struct error err = {0};
        bool ok = ask(&row->answer, row->patience_ms, &err);
        bool is_right = row->is_success
                            ? ok
                            : !ok && err.code == row->code && strstr(err.text, row->text) != NULL;
        if (!is_right)
            printf("# %s: %d %s\n", row->what, ok, err.text);
        CHECK(is_right);
    }
}

TEST(a_request_has_its_method_path_length_and_body)
{
    const struct answer done = {"HTTP/1.1 204 \r\n\r\n", true};
    struct error err = {0};

    CHECK(ask(&done, PATIENCE_MS, &err));
    CHECK(strncmp(request, "PUT /vsock HTTP/1.1\r\n", 21) == 0);
    CHECK(strcasestr(request, "\r\nContent-Length: 15\r\n"));
    CHECK(strcasestr(request, "\r\nContent-Type: application/json\r\n"));
    CHECK(!strcasestr(request, "\r\nExpect:"));
    CHECK(strstr(request, "\r\n\r\n{\"guest_cid\":3}"));
}

TEST(a_process_that_ends_before_its_socket_is_there_is_not_waited_for)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    struct machine_api *api;
    struct error err = {0};
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    AUTO_FD int ended = (int)syscall(SYS_pidfd_open, child, 0);
    CHECK(jail_fixture_open(&fixture));
    CHECK(!machine_api_open(fixture.root, "absent", geteuid(), ended, time_boot_ms() + PATIENCE_MS,
                            &api, &err));
    CHECK(err.code == ERR_UNAVAILABLE);
}

TEST(a_socket_that_never_comes_is_given_up_at_the_deadline)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    struct machine_api *api;
    struct error err = {0};

    CHECK(jail_fixture_open(&fixture));
    CHECK(!machine_api_open(fixture.root, "absent", geteuid(), fixture.self, time_boot_ms() + 30,
                            &api, &err));
    CHECK(err.code == ERR_TIMEOUT);
}

TEST_MAIN()
