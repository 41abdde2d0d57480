/* REESTABLISH: what must be new before anything of a restored sandbox runs on.
 *
 * Clock, random numbers, identity, names and the generation, which always grows. Every step is
 * proved, or the answer is ERROR and the host destroys the instance.
 */
#pragma once

#include "protocol/message.h"

struct agent;
struct loop_timer;

/* Programs that wait for their release have random numbers of their own to renew first. */
struct reestablish {
    bool is_waiting;
    size_t n_reseeding;
    struct message_reestablished answer;
    struct loop_timer *timer;
};

void reestablish_begin(struct agent *agent, const struct message_reestablish *message);

/* A_RESEEDED of one of them. */
void reestablish_reseeded(struct agent *agent, bool is_fine);
