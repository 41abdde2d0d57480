/* Who waits for what: topics, their waiters, and wake-ups from any thread.
 *
 * A wake-up that comes while nobody waits yet is not lost: who begins to wait asks whether
 * the topic was woken since the moment before it looked. All but topics_wake, topics_now
 * and topics_woken_since belongs to the loop's thread.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/map.h"

enum { TOPIC_SLOTS = 4096, TOPIC_LINES = 4 };

struct topic;

/* Of those who wait in turn a wake-up reaches one of each line: who waits longest. It passes the
 * turn on when it has looked, unless nothing is left. */
struct turn {
    uint64_t place;     /* smaller: waits longer; 0: does not wait in turn */
    uint64_t looked_at; /* the clock before it looked */
    int line;           /* below TOPIC_LINES */
    bool comes_last;    /* its turn is when everybody else of the line has looked */
};

struct waiter {
    struct topic *topic; /* NULL: waits for nothing */
    struct waiter *previous, *next;
    struct turn turn;
    void (*wake)(struct waiter *waiter); /* may leave, and may free the waiter */
};

struct topics {
    struct loop *loop;
    struct map by_name;
    _Atomic uint64_t clock;              /* counts wake-ups */
    _Atomic uint64_t woken[TOPIC_SLOTS]; /* by hash of the name: the clock of the last one */
    uint64_t n_places;                   /* that were given out to those who wait in turn */
    pthread_mutex_t lock;                /* of the two below */
    struct map pending;
    bool is_posted;
};

void topics_init(struct topics *topics, struct loop *loop);
void topics_finish(struct topics *topics);

void topics_join(struct topics *topics, struct waiter *waiter, const char *name);
void topics_leave(struct topics *topics, struct waiter *waiter);

/* Any thread. Wake-ups of one topic that the loop has not seen yet become one. */
void topics_wake(struct topics *topics, const char *name);

/* Wakes the next of a line that has not looked since the last wake-up, then who comes last; false
 * when there is none. */
bool topics_pass(struct topics *topics, const char *name, int line);

/* On the loop: every topic that has a waiter, for when it is not known what was missed. */
void topics_wake_all(struct topics *topics);

/* Taken before looking at the state a topic stands for. */
uint64_t topics_now(struct topics *topics);

/* May say yes for a topic that shares a slot with a woken one; never wrongly no. */
bool topics_woken_since(struct topics *topics, const char *name, uint64_t since);
