#include "engine/firecracker/vsock.h"

#include <stdatomic.h>

#include "engine/firecracker/jail_fixture.h"

/* What one end says, and whether it then hangs up. */
struct script {
    const char *answer;
    int refusals; /* so often it hangs up first */
    atomic_int *asked;
};

static void peer(int connection, const void *arg)
{
    const struct script *script = arg;
    char question[64] = {0}, byte;
    size_t len = 0;

    while (len < sizeof(question) - 1 && recv(connection, &byte, 1, 0) == 1) {
        question[len++] = byte;
        if (byte == '\n')
            break;
    }
    int asked = atomic_fetch_add(script->asked, 1);
    if (asked < script->refusals || strcmp(question, "CONNECT 5000\n") != 0)
        return;
    (void)!send(connection, script->answer, strlen(script->answer), MSG_NOSIGNAL);
    /* Until the other end hangs up. */
    while (recv(connection, &byte, 1, 0) == 1)
        ;
}

static bool try(const char *answer, int refusals, int64_t patience_ms, int *channel, int *asked,
                struct error *err)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    atomic_int count = 0;
    const struct script script = {answer, refusals, &count};

    *channel = -1;
    if (!jail_fixture_open(&fixture))
        return error_set(err, ERR_INTERNAL, "no fixture");
    jail_fixture_serve(&fixture, peer, &script);
    bool ok = vsock_connect(fixture.root, "s", geteuid(), fixture.self, VSOCK_AGENT_PORT,
                            time_boot_ms() + patience_ms, channel, err);
    char after[8] = {0};
    if (ok)
        ok = recv(*channel, after, 5, MSG_WAITALL) == 5 && strcmp(after, "agent") == 0;
    auto_close(channel);
    *asked = atomic_load(&count);
    return ok;
}

TEST(not_a_byte_of_the_agent_is_lost_behind_the_answer)
{
    struct error err = {0};
    int channel, asked;

    CHECK(try("OK 1073741824\nagent", 0, PATIENCE_MS, &channel, &asked, &err));
    CHECK(asked == 1);
}

TEST(a_port_that_nobody_listens_on_yet_is_asked_for_again)
{
    struct error err = {0};
    int channel, asked;

    CHECK(try("OK 7\nagent", 3, PATIENCE_MS, &channel, &asked, &err));
    CHECK(asked == 4);
}

TEST(another_answer_than_ok_is_refused)
{
    static const char *const answers[] = {"KO 7\n",
                                          "OK\n",
                                          "OK \n",
                                          "OK 7 8\n",
                                          "OK -1\n",
                                          "OK 0x10\n",
                                          "\n",
                                          "ok 7\n",
                                          "OK 7\r\n",
                                          "HTTP/1.1 200 OK\r\n",
                                          "OK 77777777777777777777777777777777777777\n"};

    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        struct error err = {0};
        int channel, asked;
        bool ok = try(answers[i], 0, PATIENCE_MS, &channel, &asked, &err);
        if (ok || err.code != ERR_INVALID)
            printf("# %s: %s\n", answers[i], err.text);
        CHECK(!ok && err.code == ERR_INVALID);
    }
}

TEST(an_answer_that_never_ends_its_line_is_given_up_at_the_deadline)
{
    struct error err = {0};
    int channel, asked;

    CHECK(!try("OK 7", 0, 50, &channel, &asked, &err));
    CHECK(err.code == ERR_TIMEOUT);
}

TEST(a_machine_whose_agent_never_listens_is_given_up_at_the_deadline)
{
    struct error err = {0};
    int channel, asked;

    CHECK(!try("", 1 << 30, 50, &channel, &asked, &err));
    CHECK(err.code == ERR_TIMEOUT);
    CHECK(asked > 0);
}

TEST(a_link_in_place_of_the_socket_is_not_followed)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    struct error err = {0};
    int channel;

    CHECK(jail_fixture_open(&fixture));
    CHECK(symlinkat("s", fixture.root, "link") == 0);
    CHECK(!vsock_connect(fixture.root, "link", geteuid(), fixture.self, VSOCK_AGENT_PORT,
                         time_boot_ms() + PATIENCE_MS, &channel, &err));
    CHECK(err.code == ERR_FORBIDDEN);
}

TEST(a_file_in_place_of_the_socket_is_refused)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    struct error err = {0};
    int channel;

    CHECK(jail_fixture_open(&fixture));
    AUTO_FD int file = openat(fixture.root, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    CHECK(!vsock_connect(fixture.root, "file", geteuid(), fixture.self, VSOCK_AGENT_PORT,
                         time_boot_ms() + PATIENCE_MS, &channel, &err));
    CHECK(err.code == ERR_FORBIDDEN);
}

TEST(a_socket_of_another_user_is_refused)
{
    AUTO(jail_fixture_close) struct jail_fixture fixture;
    struct error err = {0};
    int channel;

    CHECK(jail_fixture_open(&fixture));
    CHECK(!vsock_connect(fixture.root, "s", geteuid() + 1, fixture.self, VSOCK_AGENT_PORT,
                         time_boot_ms() + PATIENCE_MS, &channel, &err));
    CHECK(err.code == ERR_FORBIDDEN);
}

TEST_MAIN()
