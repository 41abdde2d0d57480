#include "guest/adapter.h"

#include <errno.h>

#include "base/own.h"
#include "guest/reestablish.h"

enum { STREAM_PAYLOAD = 1, STREAM_OUTPUT = 2, NODE_MAJOR = 22, NODE_MINOR = 18 };

struct adapter *adapter_create(struct program *program, int fd, int barrier_fd)
{
    struct adapter *adapter = alloc(sizeof *adapter);

    *adapter = (struct adapter){.program = program, .fd = fd};
    channel_init(&adapter->channel, fd, fd, SIDE_AGENT);
    park_init(&adapter->park, program, barrier_fd);
    return adapter;
}

static void stop_listening(struct adapter *adapter)
{
    loop_remove(adapter->source);
    adapter->source = NULL;
    adapter->watched = 0;
    auto_close(&adapter->fd);
    adapter->fd = -1;
    adapter->has_ended = true;
}

/* The host may still be sending a payload that nobody will take. */
static void refuse_payload(struct adapter *adapter)
{
    struct agent *agent = adapter->program->agent;
    struct error err;

    if (adapter->payload_stream &&
        !channel_reset(&agent->channel, adapter->payload_stream, 0, &err))
        agent_die(agent, &err);
    adapter->payload_left = 0;
}

void adapter_destroy(struct adapter *adapter)
{
    if (!adapter)
        return;
    refuse_payload(adapter);
    stop_listening(adapter);
    channel_finish(&adapter->channel);
    park_finish(&adapter->park);
    free(adapter);
}

static void end_output(struct adapter *adapter)
{
    struct agent *agent = adapter->program->agent;
    struct error err;

    if (adapter->output_stream &&
        !channel_send_data(&agent->channel, adapter->output_stream, STR(""), true, &err))
        agent_die(agent, &err);
}

void adapter_give_up(struct adapter *adapter, const struct error *err)
{
    struct program *program = adapter->program;

    stop_listening(adapter);
    refuse_payload(adapter);
    if (!program->has_answered) {
        program_failed(program, "hello", err->sys, "image_root_invalid", err->text);
    } else if (adapter->state != ADAPTER_OVER) {
        adapter->state = ADAPTER_OVER;
        agent_send(program->agent, MESSAGE_OUTCOME,
                   &(struct message_outcome){
                       .program = program->number,
                       .kind = OUTCOME_FAILED,
                       .error_name = STR("ProtocolError"),
                       .error_message = str_of(err->text),
                   });
    }
    end_output(adapter);
    program_kill(program, 0);
}

/* "v22.18.0" */
static bool node_is_new_enough(struct str version)
{
    unsigned parts[2] = {0};
    size_t at = version.len && version.ptr[0] == 'v';

    for (int i = 0; i < 2; i++, at++) {
        size_t digits = at;
        while (at < version.len && version.ptr[at] >= '0' && version.ptr[at] <= '9' &&
               at - digits < 4)
            parts[i] = parts[i] * 10 + (unsigned)(version.ptr[at++] - '0');
        if (at == digits)
            return false;
    }
    return parts[0] > NODE_MAJOR || (parts[0] == NODE_MAJOR && parts[1] >= NODE_MINOR);
}

static bool take_hello(struct adapter *adapter, const struct message_a_hello *hello,
                       struct error *err)
{
    struct program *program = adapter->program;
    char text[160];

    if (adapter->state != ADAPTER_STARTING)
        return error_set(err, ERR_INVALID, "the adapter said hello twice");
    adapter->state = ADAPTER_WAITING;
    if (node_is_new_enough(hello->node_version)) {
        program_started(program, hello->node_version);
        return true;
    }
    snprintf(text, sizeof text, "the image has Node %.*s, needed is %d.%d or newer",
             (int)hello->node_version.len, hello->node_version.ptr, NODE_MAJOR, NODE_MINOR);
    program_failed(program, "hello", 0, "node_too_old", text);
    return true;
}

static bool take_loaded(struct adapter *adapter, const struct message_a_loaded *loaded,
                        struct error *err)
{
    if (adapter->has_loaded || adapter->state != ADAPTER_RELEASED)
        return error_set(err, ERR_INVALID, "the adapter loaded at the wrong time");
    adapter->has_loaded = true;
    agent_send(adapter->program->agent, MESSAGE_LOADED,
               &(struct message_loaded){
                   .program = adapter->program->number,
                   .accepts_payload = loaded->accepts_payload,
                   .load_ms = loaded->load_ms,
                   .failure = loaded->failure,
                   .message = loaded->message,
                   .file = loaded->file,
                   .line = loaded->line,
                   .stack = loaded->stack,
               });
    return true;
}

static bool take_op(struct adapter *adapter, const struct message_a_op *op, struct error *err)
{
    if (adapter->state != ADAPTER_RELEASED || adapter->n_ops >= ADAPTER_OPS_MAX)
        return error_set(err, ERR_INVALID, "an operation at the wrong time, or too many");
    adapter->n_ops++;
    agent_send(adapter->program->agent, MESSAGE_OP,
               &(struct message_op){
                   .program = adapter->program->number,
                   .op = op->op,
                   .kind = op->kind,
                   .body = op->body,
               });
    return true;
}

static bool take_log(struct adapter *adapter, const struct message_a_log *log, struct error *err)
{
    if (adapter->state != ADAPTER_RELEASED || log->level > LEVEL_ERROR)
        return error_set(err, ERR_INVALID, "a log line at the wrong time or of no level");
    agent_send(adapter->program->agent, MESSAGE_LOG,
               &(struct message_log){
                   .program = adapter->program->number,
                   .level = log->level,
                   .message = log->message,
                   .attributes = log->attributes,
                   .at_ms = log->at_ms,
               });
    return true;
}

static bool open_output(struct adapter *adapter, uint64_t len, struct error *err)
{
    struct agent *agent = adapter->program->agent;

    if (len > ADAPTER_BLOB_MAX)
        return error_set(err, ERR_TOO_LARGE, "an output of %llu bytes", (unsigned long long)len);
    if (len == 0)
        return true;
    do {
        agent->next_stream = agent->next_stream >= 65534 ? 2 : agent->next_stream + 2;
    } while (channel_is_open(&agent->channel, agent->next_stream, CHANNEL_SENDS));
    adapter->output_stream = agent->next_stream;
    adapter->output_left = len;
    return channel_open_stream(&agent->channel, adapter->output_stream, CHANNEL_SENDS, err) &&
           channel_open_stream(&adapter->channel, STREAM_OUTPUT, CHANNEL_RECEIVES, err);
}

/* With the outcome whole here the program is over: what is left of it is killed. */
static bool take_outcome(struct adapter *adapter, const struct message_a_outcome *outcome,
                         struct error *err)
{
    if (adapter->state != ADAPTER_RELEASED || outcome->kind < OUTCOME_SUCCEEDED ||
        outcome->kind > OUTCOME_OUTPUT_INVALID)
        return error_set(err, ERR_INVALID, "an outcome at the wrong time or of no kind");
    if (!open_output(adapter, outcome->output_len, err))
        return false;
    adapter->state = ADAPTER_OVER;
    agent_send(adapter->program->agent, MESSAGE_OUTCOME,
               &(struct message_outcome){
                   .program = adapter->program->number,
                   .kind = outcome->kind,
                   .stream = adapter->output_stream,
                   .len = outcome->output_len,
                   .digest = outcome->output_digest,
                   .error_name = outcome->error_name,
                   .error_message = outcome->error_message,
                   .error_stack = outcome->error_stack,
                   .error_details = outcome->error_details,
               });
    if (!adapter->output_stream)
        program_kill(adapter->program, 0);
    return true;
}

static bool take_reseeded(struct adapter *adapter, const struct message_a_reseeded *reseeded,
                          struct error *err)
{
    if (adapter->state != ADAPTER_WAITING)
        return error_set(err, ERR_INVALID, "the adapter reseeded at the wrong time");
    reestablish_reseeded(adapter->program->agent, reseeded->ok);
    return true;
}

static bool take_preloaded(struct adapter *adapter, const struct message_a_preloaded *preloaded,
                           struct error *err)
{
    if (!adapter->preload_id)
        return error_set(err, ERR_INVALID, "the adapter loaded ahead what nobody asked for");
    agent_send(adapter->program->agent, MESSAGE_PRELOADED,
               &(struct message_preloaded){
                   .id = adapter->preload_id,
                   .program = adapter->program->number,
                   .ok = preloaded->ok,
                   .load_ms = preloaded->load_ms,
                   .text = preloaded->text,
               });
    adapter->preload_id = 0;
    return true;
}

static bool take_message(void *arg, const struct message *message, struct error *err)
{
    struct adapter *adapter = arg;

    switch ((unsigned)message->type) {
    case MESSAGE_A_HELLO: return take_hello(adapter, &message->a_hello, err);
    case MESSAGE_A_LOADED: return take_loaded(adapter, &message->a_loaded, err);
    case MESSAGE_A_OP: return take_op(adapter, &message->a_op, err);
    case MESSAGE_A_LOG: return take_log(adapter, &message->a_log, err);
    case MESSAGE_A_OUTCOME: return take_outcome(adapter, &message->a_outcome, err);
    case MESSAGE_A_BUSY: park_busy(&adapter->park, &message->a_busy); return true;
    case MESSAGE_A_RESEEDED: return take_reseeded(adapter, &message->a_reseeded, err);
    case MESSAGE_A_PRELOADED: return take_preloaded(adapter, &message->a_preloaded, err);
    default: return error_set(err, ERR_INVALID, "the adapter may not say this");
    }
}

static bool take_data(void *arg, uint16_t stream UNUSED, struct str bytes, bool is_end,
                      struct error *err)
{
    struct adapter *adapter = arg;

    if (bytes.len > adapter->output_left || (is_end && bytes.len != adapter->output_left))
        return error_set(err, ERR_INVALID, "the output has another length than was said");
    adapter->output_left -= bytes.len;
    if (is_end)
        program_kill(adapter->program, 0);
    return channel_send_data(&adapter->program->agent->channel, adapter->output_stream, bytes,
                             is_end, err);
}

static void link_ready(void *arg, unsigned events)
{
    struct adapter *adapter = arg;
    struct error err;

    if (!(events & (LOOP_READ | LOOP_CLOSED)))
        return;
    if (channel_read(&adapter->channel, take_message, take_data, adapter, &err))
        return;
    /* A link that just ends says nothing: the exit code of the process will. */
    if (err.code != ERR_GONE) {
        adapter_give_up(adapter, &err);
        return;
    }
    stop_listening(adapter);
    end_output(adapter);
    refuse_payload(adapter);
}

static void refuse(struct adapter *adapter, uint64_t id, const struct error *err)
{
    agent_refuse(adapter->program->agent, id, "release", "invalid_request", err);
}

/* The blob of RELEASE and what A_START says of it must be one and the same. */
static bool check_release(const struct adapter *adapter, const struct message_release *release,
                          const struct message_a_start *start, struct error *err)
{
    if (adapter->state != ADAPTER_WAITING || adapter->preload_id)
        return error_set(err, ERR_INVALID, "the program does not wait for its release");
    if (release->payload_len != start->payload_len || release->payload_len > ADAPTER_BLOB_MAX)
        return error_set(err, ERR_INVALID, "the payload's length is not what the start says");
    if (release->payload_len &&
        (release->payload_stream > UINT16_MAX || release->payload_stream % 2 == 0))
        return error_set(err, ERR_INVALID, "the payload's stream is not the host's");
    return true;
}

static bool hand_over(struct adapter *adapter, const struct message_release *release,
                      struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct message_a_start start;

    if (!message_decode(MESSAGE_A_START, release->start, &arena, &start, err) ||
        !check_release(adapter, release, &start, err))
        return false;
    if (release->payload_len) {
        uint16_t stream = (uint16_t)release->payload_stream;
        if (!channel_open_stream(&adapter->program->agent->channel, stream, CHANNEL_RECEIVES,
                                 err) ||
            !channel_open_stream(&adapter->channel, STREAM_PAYLOAD, CHANNEL_SENDS, err))
            return false;
        adapter->payload_stream = stream;
        adapter->payload_left = release->payload_len;
    }
    adapter->state = ADAPTER_RELEASED;
    return channel_send(&adapter->channel, MESSAGE_A_START, &start, err);
}

void adapter_release(struct adapter *adapter, const struct message_release *release)
{
    struct error err = {0};

    if (!hand_over(adapter, release, &err))
        refuse(adapter, release->id, &err);
}

/* To a link that has ended nothing can be said; the program is on its way out then. */
static void tell(struct adapter *adapter, enum message_type type, const void *message)
{
    struct error err;

    if (!adapter->has_ended && !channel_send(&adapter->channel, type, message, &err))
        adapter_give_up(adapter, &err);
}

void adapter_cancel(struct adapter *adapter, const struct message_cancel *cancel)
{
    tell(adapter, MESSAGE_A_CANCEL,
         &(struct message_a_cancel){.reason = cancel->reason, .grace_ms = cancel->grace_ms});
}

void adapter_settled(struct adapter *adapter)
{
    if (adapter->n_ops)
        adapter->n_ops--;
}

void adapter_park(struct adapter *adapter, const struct message_a_park *park)
{
    tell(adapter, MESSAGE_A_PARK, park);
}

void adapter_reseed(struct adapter *adapter, struct str entropy)
{
    tell(adapter, MESSAGE_A_RESEED, &(struct message_a_reseed){.entropy = entropy});
}

void adapter_preload(struct adapter *adapter, const struct message_preload *preload)
{
    struct error err = {0};

    if (adapter->state != ADAPTER_WAITING || adapter->preload_id) {
        error_set(&err, ERR_INVALID, "the program does not wait for its release");
        agent_refuse(adapter->program->agent, preload->id, "preload", "invalid_request", &err);
        return;
    }
    adapter->preload_id = preload->id;
    tell(adapter, MESSAGE_A_PRELOAD,
         &(struct message_a_preload){.module = preload->module,
                                     .workspace_path = preload->workspace_path,
                                     .options = preload->options});
}

void adapter_result(struct adapter *adapter, const struct message_op_result *result)
{
    adapter_settled(adapter);
    tell(adapter, MESSAGE_A_RESULT,
         &(struct message_a_result){.op = result->op,
                                    .status = result->status,
                                    .body = result->body});
}

void adapter_variable(struct adapter *adapter, struct str name, struct str value)
{
    tell(adapter, MESSAGE_A_ENV, &(struct message_a_env){.name = name, .value = value});
}

void adapter_owe(struct adapter *adapter, const struct message_secrets_ready *ready)
{
    adapter->ready = *ready;
    adapter->owes_ready = true;
}

bool adapter_payload(struct adapter *adapter, struct str bytes, bool is_end, struct error *err)
{
    if (adapter->has_ended)
        return true;
    if (bytes.len > adapter->payload_left || (is_end && bytes.len != adapter->payload_left))
        return error_set(err, ERR_INVALID, "the payload has another length than was said");
    adapter->payload_left -= bytes.len;
    adapter->payload_unstored += bytes.len;
    return channel_send_data(&adapter->channel, STREAM_PAYLOAD, bytes, is_end, err);
}

/* What has left the queue towards the adapter is stored as far as the host is concerned. */
static void credit_payload(struct adapter *adapter)
{
    struct agent *agent = adapter->program->agent;
    size_t queued = CHANNEL_WINDOW - channel_send_room(&adapter->channel, STREAM_PAYLOAD);
    struct error err;

    if (!channel_is_open(&adapter->channel, STREAM_PAYLOAD, CHANNEL_SENDS))
        queued = 0;
    if (adapter->payload_unstored <= queued)
        return;
    size_t stored = adapter->payload_unstored - queued;
    adapter->payload_unstored = queued;
    if (!channel_consumed(&agent->channel, adapter->payload_stream, stored, &err))
        agent_die(agent, &err);
}

static bool may_read(const struct adapter *adapter)
{
    const struct channel *channel = &adapter->program->agent->channel;

    if (channel_is_congested(channel))
        return false;
    return !channel_is_open(channel, adapter->output_stream, CHANNEL_SENDS) ||
           channel_send_room(channel, adapter->output_stream) >= CHANNEL_WINDOW / 2;
}

/* A link that is not read is not watched: its hang-up would wake the loop without end. */
static void watch(struct adapter *adapter, unsigned events)
{
    struct agent *agent = adapter->program->agent;
    struct error err;

    if (events == adapter->watched)
        return;
    loop_remove(adapter->source);
    adapter->source = NULL;
    adapter->watched = events;
    if (events &&
        !loop_add(agent->loop, adapter->fd, events, link_ready, adapter, &adapter->source, &err))
        agent_die(agent, &err);
}

void adapter_settle(struct adapter *adapter)
{
    bool wants_write = false;
    struct error err;

    if (!adapter->has_ended && !channel_flush(&adapter->channel, &wants_write, &err)) {
        /* What it said before it went is still to be read. */
        if (err.sys == EPIPE || err.sys == ECONNRESET) {
            adapter->channel.has_failed = false;
            wants_write = false;
        } else {
            adapter_give_up(adapter, &err);
        }
    }
    if (adapter->owes_ready && !adapter->has_ended && !adapter->channel.has_secret) {
        adapter->owes_ready = false;
        agent_send(adapter->program->agent, MESSAGE_SECRETS_READY, &adapter->ready);
    }
    credit_payload(adapter);
    park_settle(&adapter->park);
    if (!adapter->has_ended)
        watch(adapter, (may_read(adapter) ? LOOP_READ : 0u) | (wants_write ? LOOP_WRITE : 0u));
}

bool adapter_is_relayed(const struct adapter *adapter)
{
    return adapter->has_ended && !channel_is_open(&adapter->program->agent->channel,
                                                  adapter->output_stream, CHANNEL_SENDS);
}
