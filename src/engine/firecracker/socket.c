#include "engine/firecracker/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "base/own.h"
#include "base/time.h"

enum { RETRY_MS = 5 };

static int socket_find(int root, const char *name)
{
    const struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};

    return (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
}

static bool listener_is(int fd, unsigned user, const char *name, struct error *err)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return error_errno(err, "look at who listens on %s", name);
    return peer.uid == user ||
           error_set(err, ERR_FORBIDDEN, "user %u listens on %s, not %u", peer.uid, name, user);
}

void jailed_path(int place, char path[JAILED_PATH_MAX])
{
    snprintf(path, JAILED_PATH_MAX, "/proc/self/fd/%d", place);
}

bool jailed_connect(int root, const char *name, unsigned user, int *fd, int *place,
                    struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    AUTO_FD int found = socket_find(root, name);

    if (found < 0)
        return errno == ENOENT ? error_set(err, ERR_NOT_FOUND, "%s is not there", name)
                               : error_errno(err, "open %s", name);
    if (fstat(found, &status) < 0 || !S_ISSOCK(status.st_mode))
        return error_set(err, ERR_FORBIDDEN, "%s is no socket", name);
    jailed_path(found, address.sun_path);

    /* Never waits: a queue that is full answers at once, and the caller tries again. */
    AUTO_FD int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return error_errno(err, "make a socket");
    if (connect(made, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        if (errno == ECONNREFUSED || errno == EAGAIN)
            return error_set(err, ERR_NOT_FOUND, "nobody listens on %s", name);
        return error_errno(err, "connect to %s", name);
    }
    if (!listener_is(made, user, name, err))
        return false;
    *fd = take_fd(&made);
    if (place)
        *place = take_fd(&found);
    return true;
}

bool jailed_wait(int pidfd, int64_t deadline_ms, const char *what, struct error *err)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};

    if (poll(&ended, 1, RETRY_MS) > 0)
        return error_set(err, ERR_UNAVAILABLE, "Firecracker ended before %s", what);
    return time_boot_ms() < deadline_ms ||
           error_set(err, ERR_TIMEOUT, "the deadline passed before %s", what);
}
