#include "guest/room_wire.h"

#include <string.h>
#include <sys/socket.h>

union room_rights {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(ROOM_FDS_MAX * sizeof(int))];
};

bool room_send_text(int socket, const void *packet, size_t len, struct str text, const int *fds,
                    size_t n_fds)
{
    struct iovec both[] = {
        {.iov_base = (void *)packet,   .iov_len = len     },
        {.iov_base = (void *)text.ptr, .iov_len = text.len},
    };
    union room_rights rights = {0};
    struct msghdr message = {.msg_iov = both, .msg_iovlen = text.len ? 2 : 1};

    if (n_fds > 0) {
        rights.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(n_fds * sizeof *fds),
                                         .cmsg_level = SOL_SOCKET,
                                         .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&rights.header), fds, n_fds * sizeof *fds);
        message.msg_control = rights.bytes;
        message.msg_controllen = CMSG_SPACE(n_fds * sizeof *fds);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) == (ssize_t)(len + text.len);
}

bool room_send(int socket, const void *packet, size_t len, const int *fds, size_t n_fds)
{
    return room_send_text(socket, packet, len, (struct str){0}, fds, n_fds);
}

ssize_t room_receive(int socket, void *packet, size_t len, int fds[ROOM_FDS_MAX], size_t *n_fds)
{
    struct iovec one = {.iov_base = packet, .iov_len = len};
    union room_rights rights = {0};
    struct msghdr message = {.msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = rights.bytes,
                             .msg_controllen = sizeof rights.bytes};

    *n_fds = 0;
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = got < 0 ? NULL : CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return got;
    *n_fds = (header->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
    memcpy(fds, CMSG_DATA(header), *n_fds * sizeof *fds);
    return got;
}
