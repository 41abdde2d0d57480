#include "guest/hold.h"

#include "base/own.h"
#include "guest/adapter.h"
#include "guest/capture.h"
#include "guest/program.h"
#include "guest/room.h"

enum { STOP_MS = 5000 };

static void refuse(struct agent *agent, uint64_t id, const char *text)
{
    struct error err = {.code = ERR_CONFLICT};

    snprintf(err.text, sizeof err.text, "%s", text);
    agent_refuse(agent, id, "hold", "hold_failed", &err);
}

static void let_part_go(struct hold_part *part)
{
    part->n_late += part->is_asked;
    part->is_asked = part->is_still = false;
}

void hold_end(struct agent *agent)
{
    struct hold *hold = &agent->hold;

    if (hold->state == HOLD_NONE)
        return;
    loop_cancel(TAKE(hold->timer));
    hold->state = HOLD_NONE;
    capture_cancel(agent);
    for (struct program *p = agent->programs; p; p = p->next) {
        /* Once the lease is lost nothing moves any more. */
        if ((p->held.is_asked || p->held.is_still) && !agent->is_frozen)
            program_order(p, INIT_CONT, 0);
        let_part_go(&p->held);
    }
    if ((hold->room.is_asked || hold->room.is_still) && !agent->is_frozen)
        room_continue(agent);
    let_part_go(&hold->room);
}

static void time_is_up(void *arg)
{
    struct agent *agent = arg;
    bool was_stopping = agent->hold.state == HOLD_STOPPING;

    agent->hold.timer = NULL;
    hold_end(agent);
    if (was_stopping)
        refuse(agent, agent->hold.id, "the processes did not stop in time");
}

static void enter(struct agent *agent, enum hold_state state, uint64_t limit_ms)
{
    struct hold *hold = &agent->hold;
    int64_t limit = limit_ms < INT32_MAX ? (int64_t)limit_ms : INT32_MAX;

    loop_cancel(hold->timer);
    hold->timer = loop_after(agent->loop, limit, time_is_up, agent);
    hold->state = state;
}

static bool is_awaited(const struct agent *agent)
{
    for (const struct program *p = agent->programs; p; p = p->next)
        if (p->held.is_asked)
            return true;
    return agent->hold.room.is_asked;
}

/* Moves on when everybody has answered. */
static void look_over(struct agent *agent)
{
    struct hold *hold = &agent->hold;

    if (hold->state != HOLD_STOPPING || is_awaited(agent))
        return;
    if (hold->has_failed) {
        hold_end(agent);
        refuse(agent, hold->id, "a process would not stop");
        return;
    }
    enter(agent, HOLD_ON, hold->ms);
    agent_send(agent, MESSAGE_HELD, &(struct message_held){hold->id, hold->processes});
}

bool hold_heard(struct agent *agent, struct hold_part *part, bool is_still, uint64_t processes)
{
    if (part->n_late > 0) {
        part->n_late--;
        return true;
    }
    if (!part->is_asked)
        return false;
    part->is_asked = false;
    part->is_still = is_still;
    agent->hold.has_failed |= !is_still;
    agent->hold.processes += processes;
    look_over(agent);
    return true;
}

void hold_gone(struct agent *agent, struct hold_part *part)
{
    *part = (struct hold_part){0};
    look_over(agent);
}

/* Why it cannot be now, or NULL. */
static const char *obstacle(const struct agent *agent)
{
    if (!agent->sandbox.is_ready || agent->hold.state != HOLD_NONE || agent->capture ||
        agent->place || agent->resync.is_wanted || agent->is_frozen || agent->is_stopping ||
        agent->is_room_unwanted)
        return "the sandbox is busy with something else";
    for (const struct program *p = agent->programs; p; p = p->next)
        if (p->adapter && p->adapter->park.state != PARK_NONE && !park_is_frozen(p))
            return "a program is being frozen";
    return NULL;
}

void hold_begin(struct agent *agent, const struct message_hold *message)
{
    struct hold *hold = &agent->hold;
    const char *why = obstacle(agent);

    if (why) {
        refuse(agent, message->id, why);
        return;
    }
    hold->id = message->id;
    hold->ms = message->ms;
    hold->processes = 0;
    hold->has_failed = false;
    enter(agent, HOLD_STOPPING, STOP_MS);
    for (struct program *p = agent->programs; p; p = p->next) {
        /* One that is frozen stands still already, and is not to go on with the others. */
        p->held.is_asked = !program_is_in_room(p) && !p->is_reaped && !park_is_frozen(p);
        if (p->held.is_asked)
            program_order(p, INIT_STOP, 0);
    }
    hold->room.is_asked = agent->room != NULL;
    room_stop(agent);
    look_over(agent);
}

void hold_let_go(struct agent *agent, const struct message_let_go *message)
{
    hold_end(agent);
    agent_send(agent, MESSAGE_WENT_ON, &(struct message_went_on){message->id});
}
