#include "guest/resync.h"

#include <poll.h>

#include "base/own.h"
#include "base/secret.h"
#include "guest/adapter.h"
#include "guest/boot.h"
#include "guest/deliver.h"
#include "guest/park.h"

enum {
    TICK_MS = 2,         /* how often a paused agent looks at its channel */
    READS_PER_TICK = 16, /* of 64 KiB; stale bytes are few */
    SEND_MS = 5000,
};

/* Nothing of it may run while the agent is away. */
static bool is_at_rest(const struct program *program)
{
    return park_is_frozen(program) ||
           (program->adapter && program->adapter->state == ADAPTER_WAITING);
}

static bool is_pausable(const struct agent *agent, struct error *err)
{
    if (agent->capture || agent->is_stopping || agent->is_frozen || agent->room ||
        agent->resync.is_wanted)
        return error_set(err, ERR_CONFLICT, "the agent is busy");
    for (const struct program *p = agent->programs; p; p = p->next) {
        if (!is_at_rest(p))
            return error_set(err, ERR_CONFLICT, "program %u is running", p->number);
    }
    return true;
}

void resync_pause(struct agent *agent, const struct message_pause *pause)
{
    struct resync *resync = &agent->resync;
    struct error err = {0};

    if (!is_pausable(agent, &err)) {
        agent_refuse(agent, pause->id, "pause", "invalid_request", &err);
        return;
    }
    if (!deliver_zero(agent, &err)) {
        agent_refuse(agent, pause->id, "pause", "secrets_not_zeroed", &err);
        return;
    }
    resync->is_wanted = true;
    resync->id = pause->id;
    memcpy(resync->nonce, pause->nonce.ptr, sizeof resync->nonce);
}

/* To the last byte and nothing after it: what the host sends next is the nonce. */
static bool send_paused(struct agent *agent, struct error *err)
{
    struct message_paused paused = {.id = agent->resync.id};
    struct pollfd ready = {.fd = agent->channel.fd_out, .events = POLLOUT};
    bool wants_write = true;

    if (!channel_send(&agent->channel, MESSAGE_PAUSED, &paused, err))
        return false;
    while (wants_write) {
        if (!channel_flush(&agent->channel, &wants_write, err))
            return false;
        if (wants_write && poll(&ready, 1, SEND_MS) <= 0)
            return error_set(err, ERR_TIMEOUT, "the host does not take PAUSED");
    }
    return true;
}

static void unwatch(struct agent *agent)
{
    loop_remove(agent->source_in);
    loop_remove(agent->source_out);
    agent->source_in = agent->source_out = NULL;
    loop_cancel(agent->dead_man);
    agent->dead_man = NULL;
}

static void rest(struct agent *agent)
{
    struct resync *resync = &agent->resync;

    channel_resync_await(&agent->channel, resync->nonce);
    bytes_wipe(resync->nonce, sizeof resync->nonce);
    unwatch(agent);
    resync->is_wanted = false;
    resync->is_paused = true;
}

/* The host opens the streams of output again and counts from their start; one that had ended
 * ends again. */
static void renew_output(struct program_output *output)
{
    struct channel *channel = &output->program->agent->channel;
    struct error err;

    output->offset = channel_send_pending(channel, output->stream);
    if (channel_is_open(channel, output->stream, CHANNEL_SENDS))
        return;
    if (!channel_open_stream(channel, output->stream, CHANNEL_SENDS, &err) ||
        !channel_send_data(channel, output->stream, STR(""), true, &err))
        agent_die(output->program->agent, &err);
}

static void wake_up(struct agent *agent)
{
    struct error err;

    agent->resync.is_paused = false;
    agent->is_welcome = false;
    for (struct program *p = agent->programs; p; p = p->next) {
        renew_output(&p->out[0]);
        renew_output(&p->out[1]);
        if (p->adapter)
            p->adapter->payload_stream = 0;
    }
    if (agent_listen(agent, &err))
        agent_hello(agent);
    else
        agent_die(agent, &err);
}

/* A connection that was open when the guest was saved is dead in the next life; the listener is
 * not. */
static void take_connection(struct agent *agent)
{
    if (!agent->boot || !transport_accept(&agent->boot->transport))
        return;
    agent->channel.fd_in = agent->boot->transport.in;
    agent->channel.fd_out = agent->boot->transport.out;
}

/* By time, not by a watch: after a restore that would tell of nothing. */
static void look(struct agent *agent)
{
    take_connection(agent);
    for (int i = 0; i < READS_PER_TICK && channel_is_resyncing(&agent->channel); i++)
        agent_read(agent);
    if (channel_is_resyncing(&agent->channel))
        agent_again(agent, TICK_MS);
    else if (!agent->is_done)
        wake_up(agent);
}

void resync_settle(struct agent *agent)
{
    struct error err;

    if (agent->resync.is_wanted && !agent->is_done && channel_is_flushed(&agent->channel)) {
        if (send_paused(agent, &err))
            rest(agent);
        else
            agent_die(agent, &err);
    }
    if (agent->resync.is_paused)
        look(agent);
}
