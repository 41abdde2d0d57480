/* A moment in which everything in the sandbox stands still, so that its workspace can be read: HOLD
 * and LET_GO.
 *
 * No program is asked, unlike for a park: all processes of each namespace are stopped (stop.h) and
 * go on as they were. It ends by LET_GO, or by itself when its time is up, and a capture with it: a
 * workspace that moves is never taken for one that stood still.
 */
#pragma once

#include "base/loop.h"
#include "protocol/message.h"

struct agent;

/* A namespace of processes: of a program, or the room. */
struct hold_part {
    bool is_asked; /* to stop, and has not answered */
    bool is_still;
    unsigned n_late; /* answers to come that nobody waits for any more */
};

enum hold_state { HOLD_NONE, HOLD_STOPPING, HOLD_ON };

struct hold {
    enum hold_state state;
    uint64_t id, ms, processes;
    bool has_failed; /* something would not stop */
    struct hold_part room;
    struct loop_timer *timer;
};

void hold_begin(struct agent *agent, const struct message_hold *message);
void hold_let_go(struct agent *agent, const struct message_let_go *message);

/* An init's answer to a stop; false when it was none to a hold. */
bool hold_heard(struct agent *agent, struct hold_part *part, bool is_still, uint64_t processes);

/* There is nothing left in it that could move. */
void hold_gone(struct agent *agent, struct hold_part *part);

/* Everything goes on; nothing when nothing is held. */
void hold_end(struct agent *agent);
