/* Links and connections of a machine, in a network namespace of this test's own. */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/process.h"
#include "base/test.h"
#include "guest/link.h"
#include "guest/sockets.h"

static const char *begin(void)
{
    static bool is_begun;

    if (geteuid() != 0)
        return "only root makes namespaces here";
    if (!is_begun && unshare(CLONE_NEWNET) != 0)
        return "no network namespace can be made here";
    is_begun = true;
    return NULL;
}

static bool runs(const char *command, struct buf *out)
{
    const char *const argv[] = {"sh", "-c", command, NULL};
    struct error err;

    if (process_must(argv, (struct str){0}, 30000, out, &err))
        return true;
    printf("# %s: %s\n", command, err.text);
    return false;
}

static bool shows(const char *command, const char *text)
{
    AUTO(buf_finish) struct buf out = {.max = 65536};
    struct error err;

    if (!runs(command, &out) || !buf_append(&out, (struct str){"", 1}, &err))
        return false;
    if (strstr(out.bytes, text))
        return true;
    printf("# %s does not show %s:\n# %s\n", command, text, out.bytes);
    return false;
}

TEST(a_guest_without_a_network_has_loopback)
{
    struct error err = {0};

    if (begin())
        SKIP(begin());
    CHECK(link_setup(&err));
    CHECK(shows("ip link show lo", "LOOPBACK,UP"));
}

TEST(a_guest_has_the_address_that_every_guest_has)
{
    struct error err = {0};

    if (begin())
        SKIP(begin());
    CHECK(runs("ip link add eth0 type veth peer name far && ip link set far up && "
               "ip addr add 198.18.0.1/30 dev far",
               NULL));
    bool is_set = link_setup(&err);
    CHECK_STR(err.text, "");
    CHECK(is_set);
    CHECK(shows("ip addr show eth0", "inet 198.18.0.2/30"));
    CHECK(shows("ip route", "default via 198.18.0.1 dev eth0"));
    CHECK(shows("ip neigh show dev eth0", "198.18.0.1 lladdr 02:68:6c:6d:72:01 PERMANENT"));
    /* Again is as good as once. */
    CHECK(link_setup(&err));
}

/* A connection between two sockets of ours at this address. */
static bool make_connection(const char *address, int ends[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof name;
    AUTO_FD int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, address, &name.sin_addr);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return listener >= 0 && ends[0] >= 0 &&
           bind(listener, (const struct sockaddr *)&name, sizeof name) == 0 &&
           listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&name, &len) == 0 &&
           connect(ends[0], (const struct sockaddr *)&name, sizeof name) == 0 &&
           (ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;
}

TEST(connections_of_an_earlier_life_are_ended_and_those_inside_are_not)
{
    int out[2] = {-1, -1}, in[2] = {-1, -1};
    uint32_t n_closed = 0;
    struct error err = {0};
    char byte;

    if (begin())
        SKIP(begin());
    CHECK(make_connection("198.18.0.2", out) && make_connection("127.0.0.1", in));
    bool is_done = sockets_close(&n_closed, &err);
    if (!is_done && (err.sys == ENOENT || err.sys == EOPNOTSUPP || err.sys == EPERM))
        SKIP("this kernel does not end connections on request");
    CHECK_STR(err.text, "");
    /* Both ends are here: the first that is ended resets the other. */
    CHECK(n_closed == 1 || n_closed == 2);
    CHECK(recv(out[0], &byte, 1, MSG_DONTWAIT) < 0 &&
          (errno == ECONNABORTED || errno == ECONNRESET));
    CHECK(recv(in[0], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    for (int i = 0; i < 2; i++) {
        close(out[i]);
        close(in[i]);
    }
}

TEST_MAIN()
