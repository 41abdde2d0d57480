#include "engine/net/frames.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"

enum {
    ETHERNET = 14,
    TYPE_IPV4 = 0x0800,
    TYPE_ARP = 0x0806,
    IPV4_HEAD = 20,
    PORTS = 4,
    NAMES_PORT = 53,
    GATEWAY = 0xc6120001, /* 198.18.0.1 */
    ROOM = 4 * (FRAME_HEAD + FRAME_MAX),
};

static unsigned two(const uint8_t *bytes)
{
    return (unsigned)bytes[0] << 8 | bytes[1];
}

static uint32_t four(const uint8_t *bytes)
{
    return (uint32_t)two(bytes) << 16 | two(bytes + 2);
}

/* Of what is in pieces only the first says to which port it goes. */
static bool asks_for_names(const uint8_t *packet, size_t len)
{
    const size_t head = (size_t)(packet[0] & 0x0f) * 4;
    const bool is_whole = (two(packet + 6) & 0x3fff) == 0;

    return is_whole && head >= IPV4_HEAD && len >= head + PORTS &&
           (packet[9] == IPPROTO_UDP || packet[9] == IPPROTO_TCP) &&
           two(packet + head + 2) == NAMES_PORT;
}

bool frame_may_pass(const struct policy *policy, const uint8_t *frame, size_t len)
{
    if (len < ETHERNET)
        return false;
    const uint8_t *packet = frame + ETHERNET;
    const size_t left = len - ETHERNET;
    const unsigned type = two(frame + 12);

    if (type == TYPE_ARP)
        return true;
    if (type != TYPE_IPV4 || left < IPV4_HEAD || packet[0] >> 4 != 4)
        return false;
    const uint32_t to = four(packet + 16);
    if (to == GATEWAY)
        return asks_for_names(packet, left);
    return (packet[9] == IPPROTO_TCP || packet[9] == IPPROTO_UDP) && !policy_blocks(policy, to);
}

struct frames {
    struct service *service;
    const struct policy *policy;
    int from, to; /* our ends */
    struct loop_source *source, *sink;
    uint8_t *taken; /* that came, up to a frame that is not whole yet */
    size_t n_taken;
    uint8_t *given; /* that may go on and has not gone yet */
    size_t n_given;
    struct error err;
    bool is_fine;
};

/* The guest has no network any more; nobody else notices. */
static void frames_end(struct frames *frames, const char *why)
{
    loop_remove(frames->source);
    loop_remove(frames->sink);
    frames->source = frames->sink = NULL;
    if (why)
        log_warn("a machine lost its network", LOG_STR("why", why));
}

/* Whole frames only: what may pass is moved on, all others are gone. */
static bool sort_out(struct frames *frames)
{
    size_t at = 0;

    while (frames->n_taken - at >= FRAME_HEAD) {
        const size_t len = four(frames->taken + at), whole = FRAME_HEAD + len;
        if (len > FRAME_MAX)
            return false;
        if (frames->n_taken - at < whole || frames->n_given + whole > ROOM)
            break;
        if (frame_may_pass(frames->policy, frames->taken + at + FRAME_HEAD, len)) {
            memcpy(frames->given + frames->n_given, frames->taken + at, whole);
            frames->n_given += whole;
        }
        at += whole;
    }
    memmove(frames->taken, frames->taken + at, frames->n_taken - at);
    frames->n_taken -= at;
    return true;
}

static bool send_on(struct frames *frames)
{
    while (frames->n_given > 0) {
        ssize_t sent = send(frames->to, frames->given, frames->n_given, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN;
        memmove(frames->given, frames->given + sent, frames->n_given - (size_t)sent);
        frames->n_given -= (size_t)sent;
    }
    return true;
}

/* While something waits to go on, nothing more is taken than there is room for. */
static void watch(struct frames *frames)
{
    const bool has_room = frames->n_taken < ROOM;

    if (!loop_change(frames->source, has_room ? LOOP_READ : 0, &frames->err) ||
        !loop_change(frames->sink, frames->n_given ? LOOP_WRITE : 0, &frames->err))
        frames_end(frames, frames->err.text);
}

static void move_on(struct frames *frames)
{
    bool is_sorted = sort_out(frames);

    if (is_sorted && !send_on(frames))
        frames_end(frames, NULL); /* the machine has ended */
    else if (!is_sorted || !sort_out(frames))
        frames_end(frames, "a frame is too long");
    else
        watch(frames);
}

static void on_frames(void *arg, unsigned events)
{
    struct frames *frames = arg;
    ssize_t got = recv(frames->from, frames->taken + frames->n_taken, ROOM - frames->n_taken, 0);

    (void)events;
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        frames_end(frames, NULL);
        return;
    }
    if (got > 0)
        frames->n_taken += (size_t)got;
    move_on(frames);
}

static void on_room(void *arg, unsigned events)
{
    (void)events;
    move_on(arg);
}

static void attach(void *arg)
{
    struct frames *frames = arg;
    struct loop *loop = service_loop(frames->service);

    frames->is_fine =
        loop_add(loop, frames->from, LOOP_READ, on_frames, frames, &frames->source, &frames->err) &&
        loop_add(loop, frames->to, 0, on_room, frames, &frames->sink, &frames->err);
}

static void detach(void *arg)
{
    frames_end(arg, NULL);
}

static bool pair_make(int *ours, int *theirs, struct error *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "make a pair of sockets");
    (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
    *ours = pair[0];
    *theirs = pair[1];
    return true;
}

bool frames_open(struct service *service, const struct policy *policy, struct frames **frames,
                 int *out, int *in, struct error *err)
{
    AUTO_FD int from = -1, to = -1, out_end = -1, in_end = -1;

    if (!pair_make(&from, &out_end, err) || !pair_make(&to, &in_end, err))
        return false;
    struct frames *made = alloc(sizeof(*made));
    *made = (struct frames){.service = service,
                            .policy = policy,
                            .from = take_fd(&from),
                            .to = take_fd(&to),
                            .taken = alloc(ROOM),
                            .given = alloc(ROOM)};
    service_call(service, attach, made);
    if (!made->is_fine) {
        *err = made->err;
        frames_close(made);
        return false;
    }
    *frames = made;
    *out = take_fd(&out_end);
    *in = take_fd(&in_end);
    return true;
}

void frames_close(struct frames *frames)
{
    if (!frames)
        return;
    service_call(frames->service, detach, frames);
    close(frames->from);
    close(frames->to);
    free(frames->taken);
    free(frames->given);
    free(frames);
}

bool address_answers(uint32_t address, uint16_t port, int timeout_ms)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(address)};
    AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int failed = 1;
    socklen_t len = sizeof(failed);

    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return true;
    struct pollfd done = {.fd = fd, .events = POLLOUT};
    return errno == EINPROGRESS && poll(&done, 1, timeout_ms) == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) == 0 && failed == 0;
}
