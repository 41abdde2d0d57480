#include "guest/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"

/* A listener has no other end, and what is closed already has none that matters. */
enum {
    ENDED = 1u << TCP_LISTEN | 1u << TCP_CLOSE | 1u << TCP_TIME_WAIT,
    STATES = 0xffff & ~ENDED,
    ANSWER_MAX = 32768,
    ROUNDS_MAX = 65536
};

struct request {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

union answer {
    struct nlmsghdr head;
    char bytes[ANSWER_MAX];
};

static bool stays_inside(const struct inet_diag_msg *found)
{
    const uint32_t *to = found->id.idiag_dst;

    if (found->idiag_family == AF_INET)
        return ntohl(to[0]) >> 24 == IN_LOOPBACKNET;
    if (to[0] == 0 && to[1] == 0 && to[2] == htonl(0xffff))
        return ntohl(to[3]) >> 24 == IN_LOOPBACKNET;
    return to[0] == 0 && to[1] == 0 && to[2] == 0 && to[3] == htonl(1);
}

static struct request request_of(uint16_t type, uint16_t flags, uint8_t family)
{
    return (struct request){
        .head = {.nlmsg_len = sizeof(struct request),
                 .nlmsg_type = type,
                 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)                                          },
        .body = {.sdiag_family = family,              .sdiag_protocol = IPPROTO_TCP, .idiag_states = STATES},
    };
}

static bool verdict_of(const struct nlmsghdr *head, struct error *err)
{
    const struct nlmsgerr *verdict = NLMSG_DATA(head);

    errno = -verdict->error;
    /* One that ended meanwhile is what was wanted. */
    return verdict->error == 0 || errno == ENOENT || error_errno(err, "ending connections");
}

static bool end_one(int fd, const struct inet_diag_msg *found, struct error *err)
{
    struct request request = request_of(SOCK_DESTROY, NLM_F_ACK, found->idiag_family);
    union answer answer;

    request.body.id = found->id;
    if (send(fd, &request, sizeof request, 0) < 0 ||
        recv(fd, answer.bytes, sizeof answer.bytes, 0) < (ssize_t)NLMSG_LENGTH(sizeof(int)))
        return error_errno(err, "ending a connection");
    return answer.head.nlmsg_type != NLMSG_ERROR || verdict_of(&answer.head, err);
}

/* One part of the list; *is_last when it was the end of it. */
static bool end_listed(union answer *answer, size_t len, int killer, uint32_t *n_closed,
                       bool *is_last, struct error *err)
{
    for (struct nlmsghdr *head = &answer->head; NLMSG_OK(head, len); head = NLMSG_NEXT(head, len)) {
        if (head->nlmsg_type == NLMSG_ERROR)
            return verdict_of(head, err);
        *is_last = head->nlmsg_type == NLMSG_DONE;
        if (*is_last)
            return true;
        const struct inet_diag_msg *found = NLMSG_DATA(head);
        if (stays_inside(found))
            continue;
        if (!end_one(killer, found, err))
            return false;
        ++*n_closed;
    }
    return true;
}

static bool end_family(uint8_t family, uint32_t *n_closed, struct error *err)
{
    AUTO_FD int lister = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    AUTO_FD int killer = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    const struct request request = request_of(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, family);
    bool is_last = false;

    if (lister < 0 || killer < 0 || send(lister, &request, sizeof request, 0) < 0)
        return error_errno(err, "listing connections");
    for (int round = 0; !is_last && round < ROUNDS_MAX; round++) {
        union answer answer;
        ssize_t got = recv(lister, answer.bytes, sizeof answer.bytes, 0);
        if (got < 0)
            return error_errno(err, "listing connections");
        if (!end_listed(&answer, (size_t)got, killer, n_closed, &is_last, err))
            return false;
        /* An error that was none has no list behind it. */
        if (answer.head.nlmsg_type == NLMSG_ERROR)
            break;
    }
    return true;
}

bool sockets_close(uint32_t *n_closed, struct error *err)
{
    *n_closed = 0;
    return end_family(AF_INET, n_closed, err) && end_family(AF_INET6, n_closed, err);
}
