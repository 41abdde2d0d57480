#include "guest/barrier.h"

#include <errno.h>

#include "base/own.h"

void barrier_init(struct barrier *barrier, struct loop *loop, int fd,
                  barrier_on_message *on_message, barrier_on_fault *on_fault, void *arg)
{
    *barrier = (struct barrier){
        .loop = loop,
        .fd = fd,
        .on_message = on_message,
        .on_fault = on_fault,
        .arg = arg,
    };
    channel_init(&barrier->channel, fd, fd, SIDE_AGENT);
}

static void close_end(struct barrier *barrier)
{
    loop_remove(barrier->source);
    barrier->source = NULL;
    barrier->watched = 0;
    auto_close(&barrier->fd);
    barrier->fd = -1;
}

void barrier_finish(struct barrier *barrier)
{
    close_end(barrier);
    channel_finish(&barrier->channel);
}

static void fail(struct barrier *barrier, const struct error *err)
{
    close_end(barrier);
    barrier->on_fault(barrier->arg, err);
}

void barrier_send(struct barrier *barrier, enum message_type type, const void *message)
{
    struct error err;

    if (barrier->fd >= 0 && !channel_send(&barrier->channel, type, message, &err))
        fail(barrier, &err);
}

static bool refuse_data(void *arg UNUSED, uint16_t stream UNUSED, struct str bytes UNUSED,
                        bool is_end UNUSED, struct error *err)
{
    return error_set(err, ERR_INVALID, "the barrier carries no data");
}

static void end_ready(void *arg, unsigned events)
{
    struct barrier *barrier = arg;
    struct error err;

    if (!(events & (LOOP_READ | LOOP_CLOSED)) ||
        channel_read(&barrier->channel, barrier->on_message, refuse_data, barrier->arg, &err))
        return;
    /* An end that just closes says nothing: the exit code of the process will. */
    if (err.code == ERR_GONE || err.sys == ECONNRESET)
        close_end(barrier);
    else
        fail(barrier, &err);
}

static void watch(struct barrier *barrier, unsigned events)
{
    struct error err;

    if (events == barrier->watched)
        return;
    loop_remove(barrier->source);
    barrier->source = NULL;
    barrier->watched = events;
    if (!loop_add(barrier->loop, barrier->fd, events, end_ready, barrier, &barrier->source, &err))
        fail(barrier, &err);
}

void barrier_settle(struct barrier *barrier)
{
    bool wants_write = false;
    struct error err;

    if (barrier->fd < 0)
        return;
    if (!channel_flush(&barrier->channel, &wants_write, &err)) {
        /* Nobody reads it any more; what was said before may still be read. */
        if (err.sys != EPIPE && err.sys != ECONNRESET) {
            fail(barrier, &err);
            return;
        }
        barrier->channel.has_failed = false;
        wants_write = false;
    }
    watch(barrier, LOOP_READ | (wants_write ? LOOP_WRITE : 0u));
}
