/* A task that stands still: FREEZE, THAW and RESUME.
 *
 * First the adapter comes to its barrier of its own will, then every process is stopped, then
 * everything it wrote is sent; only then FROZEN. Going on is the same way back: processes
 * continue, and the adapter leaves the barrier by A_THAW, or by A_RESUME with an answer.
 * Each step has a deadline; one that fails leaves the program running.
 */
#pragma once

#include "guest/barrier.h"
#include "protocol/message.h"

struct program;
struct init_news;

enum park_state {
    PARK_NONE,
    PARK_ASKED,    /* A_PARK is on its way */
    PARK_STOPPING, /* INIT_STOP is */
    PARK_DRAINING, /* what it wrote is on its way to the host */
    PARK_FROZEN,
    PARK_RESEEDING, /* A_RESEED is on its way, processes run */
    PARK_RESUMING   /* A_RESUME is */
};

struct park {
    struct program *program;
    struct barrier barrier;
    enum park_state state;
    uint64_t id;     /* of the request that has no answer yet */
    uint64_t number; /* of this park; answers to an earlier one are late */
    uint32_t processes;
    bool without_tcp; /* it is refused while a TCP socket is watched */
    struct loop_timer *timer;
    struct arena arena;
    struct message_a_resume answer; /* in the arena, from RESUME to A_RESUME */
    uint64_t consumed_op;           /* whose answer was consumed last; they only grow */
};

/* Takes the descriptor of the barrier. */
void park_init(struct park *park, struct program *program, int fd);
void park_finish(struct park *park);

void park_freeze(struct program *program, const struct message_freeze *freeze);
void park_thaw(struct program *program, const struct message_thaw *thaw);
void park_resume(struct program *program, const struct message_resume *resume);

/* A_BUSY on fd 3. */
void park_busy(struct park *park, const struct message_a_busy *busy);

/* NEWS_STOPPED or NEWS_RUNNING. */
void park_stopped(struct park *park, const struct init_news *news);

/* The program has ended: whatever waits is answered. */
void park_end(struct park *park);

/* Moves what can move: the barrier, and from draining to frozen. */
void park_settle(struct park *park);

bool park_is_frozen(const struct program *program);
