/* The barrier: fd 4 of a task, where its adapter stands still while the task is parked.
 *
 * The adapter reads and writes it with blocking calls only; this end never blocks. What comes is
 * in the hands of user code: frames are bounded and decoded, and anything but an answer of the
 * barrier is an error of the protocol.
 */
#pragma once

#include "base/loop.h"
#include "protocol/channel.h"

typedef bool barrier_on_message(void *arg, const struct message *message, struct error *err);

/* The other side has broken the protocol. */
typedef void barrier_on_fault(void *arg, const struct error *err);

struct barrier {
    struct loop *loop;
    struct channel channel;
    int fd; /* -1: the other end has gone */
    struct loop_source *source;
    unsigned watched;
    barrier_on_message *on_message;
    barrier_on_fault *on_fault;
    void *arg;
};

/* Takes the descriptor. */
void barrier_init(struct barrier *barrier, struct loop *loop, int fd,
                  barrier_on_message *on_message, barrier_on_fault *on_fault, void *arg);
void barrier_finish(struct barrier *barrier);

/* To an end that has gone nothing is said. */
void barrier_send(struct barrier *barrier, enum message_type type, const void *message);

/* Writes what can be written and decides what to watch. */
void barrier_settle(struct barrier *barrier);
