#include "engine/ring.h"

#include <errno.h>
#include <fcntl.h>

#include "base/own.h"

struct ring {
    struct service *service;
    struct loop_source *source;
    int fd;
    size_t start, len; /* of the bytes kept */
    char bytes[RING_BYTES];
    char copy[RING_BYTES];
    size_t copy_len;
    struct error err;
    bool failed;
};

static void ring_keep(struct ring *ring, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ring->bytes[(ring->start + ring->len) % RING_BYTES] = bytes[i];
        if (ring->len < RING_BYTES)
            ring->len++;
        else
            ring->start = (ring->start + 1) % RING_BYTES;
    }
}

static void ring_fill(void *arg, unsigned events)
{
    struct ring *ring = arg;
    char bytes[4096];
    ssize_t got = read(ring->fd, bytes, sizeof(bytes));

    (void)events;
    if (got > 0) {
        ring_keep(ring, bytes, (size_t)got);
    } else if (got == 0 || errno != EAGAIN) {
        loop_remove(ring->source);
        ring->source = NULL;
    }
}

static void ring_attach(void *arg)
{
    struct ring *ring = arg;

    ring->failed = !loop_add(service_loop(ring->service), ring->fd, LOOP_READ, ring_fill, ring,
                             &ring->source, &ring->err);
}

static void ring_detach(void *arg)
{
    struct ring *ring = arg;

    loop_remove(ring->source);
    ring->source = NULL;
}

static void ring_copy(void *arg)
{
    struct ring *ring = arg;

    while (ring->source) {
        size_t before = ring->len + ring->start;
        ring_fill(ring, 0);
        if (before == ring->len + ring->start)
            break;
    }
    for (size_t i = 0; i < ring->len; i++)
        ring->copy[i] = ring->bytes[(ring->start + i) % RING_BYTES];
    ring->copy_len = ring->len;
}

bool ring_create(struct service *service, int fd, struct ring **ring, struct error *err)
{
    struct ring *made = alloc(sizeof(*made));

    *made = (struct ring){.service = service, .fd = fd};
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    service_call(service, ring_attach, made);
    if (made->failed) {
        *err = made->err;
        close(fd);
        free(made);
        return false;
    }
    *ring = made;
    return true;
}

void ring_destroy(struct ring *ring)
{
    if (!ring)
        return;
    service_call(ring->service, ring_detach, ring);
    close(ring->fd);
    free(ring);
}

struct str ring_tail(struct ring *ring)
{
    service_call(ring->service, ring_copy, ring);
    return (struct str){ring->copy, ring->copy_len};
}
