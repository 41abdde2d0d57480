/* The event loop: epoll, timers on CLOCK_BOOTTIME, signals, children, wake-ups.
 *
 * One loop belongs to one thread; only loop_post and loop_stop may be called from
 * others. Callbacks run one at a time. A source may be removed inside any callback,
 * its own included, and is never called again after removal.
 */
#pragma once

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct loop;
struct loop_source; /* a watched descriptor */
struct loop_timer;

enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_CLOSED = 4 }; /* CLOSED: hang-up or error */

typedef void loop_ready(void *arg, unsigned events);
typedef void loop_fire(void *arg);
typedef void loop_signal(void *arg, int number);
typedef void loop_exit(void *arg, pid_t pid, int status); /* a wait status */

bool loop_create(struct loop **loop, struct error *err) MUST_USE;
/* Forgets sources, timers, posts and children without calling them. */
void loop_destroy(struct loop *loop);

/* Runs until loop_stop; false when epoll itself fails. */
bool loop_run(struct loop *loop, struct error *err) MUST_USE;
/* Handles what is ready, waiting at most timeout_ms (-1: until something is). */
bool loop_turn(struct loop *loop, int timeout_ms, struct error *err) MUST_USE;
void loop_stop(struct loop *loop);

/* The descriptor stays the caller's; remove the source before closing it. */
bool loop_add(struct loop *loop, int fd, unsigned events, loop_ready *ready, void *arg,
              struct loop_source **source, struct error *err) MUST_USE;
bool loop_change(struct loop_source *source, unsigned events, struct error *err) MUST_USE;
void loop_remove(struct loop_source *source); /* accepts NULL */

/* One shot. The timer is gone once it fires (before its callback runs) or is cancelled: forget
 * the pointer then. */
struct loop_timer *loop_after(struct loop *loop, int64_t delay_ms, loop_fire *fire, void *arg);
void loop_cancel(struct loop_timer *timer); /* accepts NULL */

/* Blocks the signals in this thread and delivers them here. Call before making threads. */
bool loop_signals(struct loop *loop, const int *numbers, size_t n, loop_signal *handle, void *arg,
                  struct error *err) MUST_USE;

/* Reaps the child and calls once with its status, or with -1 when something else reaped it. */
bool loop_child(struct loop *loop, pid_t pid, loop_exit *handle, void *arg,
                struct error *err) MUST_USE;

/* From any thread: run fire(arg) on the loop's thread soon. */
void loop_post(struct loop *loop, loop_fire *fire, void *arg);
