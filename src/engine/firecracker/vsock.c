#include "engine/firecracker/vsock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/firecracker/socket.h"

enum { ANSWER_MAX = 32 };

/* What became of one question. */
enum turn { TURN_FAILED, TURN_AGAIN, TURN_OPEN };

static enum turn byte_read(int fd, int64_t deadline_ms, char *byte, struct error *err)
{
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int64_t left = deadline_ms - time_boot_ms();

        if (left <= 0 || poll(&ready, 1, (int)left) == 0) {
            error_set(err, ERR_TIMEOUT, "Firecracker does not answer on its vsock");
            return TURN_FAILED;
        }
        ssize_t got = recv(fd, byte, 1, 0);
        if (got == 1)
            return TURN_OPEN;
        if (got == 0 || errno == ECONNRESET)
            return TURN_AGAIN;
        if (errno != EAGAIN && errno != EINTR) {
            error_errno(err, "read from the vsock");
            return TURN_FAILED;
        }
    }
}

static bool is_acceptance(struct str line)
{
    if (line.len < 4 || memcmp(line.ptr, "OK ", 3) != 0)
        return false;
    for (size_t i = 3; i < line.len; i++) {
        if (line.ptr[i] < '0' || line.ptr[i] > '9')
            return false;
    }
    return true;
}

static enum turn line_read(int fd, int64_t deadline_ms, struct error *err)
{
    char line[ANSWER_MAX];

    for (size_t len = 0; len < sizeof(line); len++) {
        enum turn turn = byte_read(fd, deadline_ms, &line[len], err);
        if (turn != TURN_OPEN)
            return turn;
        if (line[len] != '\n')
            continue;
        if (is_acceptance((struct str){line, len}))
            return TURN_OPEN;
        break;
    }
    error_set(err, ERR_INVALID, "Firecracker answers on its vsock with something else than OK");
    return TURN_FAILED;
}

static enum turn port_ask(int root, const char *socket_name, unsigned user, unsigned port,
                          int64_t deadline_ms, int *channel, struct error *err)
{
    char question[32];
    AUTO_FD int fd = -1;

    if (!jailed_connect(root, socket_name, user, &fd, NULL, err))
        return err->code == ERR_NOT_FOUND ? TURN_AGAIN : TURN_FAILED;

    int len = snprintf(question, sizeof(question), "CONNECT %u\n", port);
    ssize_t sent = send(fd, question, (size_t)len, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
        return TURN_AGAIN;
    if (sent != len) {
        error_set(err, ERR_UNAVAILABLE, "port %u cannot be asked for", port);
        return TURN_FAILED;
    }
    enum turn turn = line_read(fd, deadline_ms, err);
    if (turn == TURN_OPEN)
        *channel = take_fd(&fd);
    return turn;
}

bool vsock_connect(int root, const char *socket_name, unsigned user, int pidfd, unsigned port,
                   int64_t deadline_ms, int *channel, struct error *err)
{
    enum turn turn;

    while ((turn = port_ask(root, socket_name, user, port, deadline_ms, channel, err)) ==
           TURN_AGAIN) {
        if (!jailed_wait(pidfd, deadline_ms, "the agent listened", err))
            return false;
    }
    if (turn == TURN_FAILED)
        return false;
    return fcntl(*channel, F_SETFL, 0) == 0 || error_errno(err, "let the channel block");
}
