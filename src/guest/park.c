#include "guest/park.h"

#include <poll.h>

#include "base/own.h"
#include "guest/adapter.h"
#include "guest/capture.h"
#include "guest/deliver.h"
#include "guest/init.h"
#include "guest/stream.h"

enum { ASK_MAX_MS = 5000, STOP_MS = 5000, DRAIN_MS = 15000, RESUME_MS = 30000, WIRE_MS = 5 };

static struct agent *agent_of(const struct park *park)
{
    return park->program->agent;
}

static void enter(struct park *park, enum park_state state, int64_t limit_ms);

/* The request that waits has its answer: ERROR. */
static void refuse(struct park *park, const char *stage, const char *code, const char *text)
{
    struct error err = {.code = ERR_CONFLICT};

    snprintf(err.text, sizeof err.text, "%s", text);
    agent_refuse(agent_of(park), park->id, stage, code, &err);
}

static void thaw_adapter(struct park *park)
{
    barrier_send(&park->barrier, MESSAGE_A_THAW, &(struct message_a_thaw){.number = park->number});
}

/* Back to running; the adapter may be at the barrier already or still on its way there. */
static void give_up_freeze(struct park *park, const char *code, const char *text)
{
    if (park->state != PARK_ASKED)
        program_order(park->program, INIT_CONT, 0);
    thaw_adapter(park);
    enter(park, PARK_NONE, 0);
    refuse(park, "freeze", code, text);
}

/* Processes run, but the adapter has not left the barrier: all stand still again. */
static void give_up_resume(struct park *park, const char *code, const char *text)
{
    arena_finish(&park->arena);
    program_order(park->program, INIT_STOP, 0);
    enter(park, PARK_FROZEN, 0);
    refuse(park, "resume", code, text);
}

static void time_is_up(void *arg)
{
    struct park *park = arg;

    park->timer = NULL;
    switch (park->state) {
    case PARK_ASKED:
        give_up_freeze(park, "adapter_busy", "the task did not come to rest in time");
        break;
    case PARK_STOPPING:
        give_up_freeze(park, "freeze_failed", "the processes did not stop in time");
        break;
    case PARK_DRAINING:
        give_up_freeze(park, "freeze_failed", "the output was not taken in time");
        break;
    case PARK_RESEEDING:
    case PARK_RESUMING:
        give_up_resume(park, "adapter_busy", "the adapter did not answer in time");
        break;
    case PARK_NONE:
    case PARK_FROZEN: break;
    }
}

static void enter(struct park *park, enum park_state state, int64_t limit_ms)
{
    loop_cancel(park->timer);
    park->timer = limit_ms ? loop_after(agent_of(park)->loop, limit_ms, time_is_up, park) : NULL;
    park->state = state;
}

static void take_parked(struct park *park, const struct message_a_parked *parked)
{
    if (park->state != PARK_ASKED || parked->number != park->number)
        return;
    enter(park, PARK_STOPPING, STOP_MS);
    program_order(park->program, INIT_STOP, 0);
}

static void pass_variable(void *arg, struct str name, struct str value)
{
    struct park *park = arg;

    barrier_send(&park->barrier, MESSAGE_A_ENV,
                 &(struct message_a_env){.name = name, .value = value});
}

static void take_reseeded(struct park *park, const struct message_a_reseeded *reseeded)
{
    if (park->state != PARK_RESEEDING)
        return;
    if (!reseeded->ok) {
        give_up_resume(park, "reseed_failed", "the adapter has no new random numbers");
        return;
    }
    deliver_variables(park->program, pass_variable, park);
    barrier_send(&park->barrier, MESSAGE_A_RESUME, &park->answer);
    enter(park, PARK_RESUMING, RESUME_MS);
}

static void take_consumed(struct park *park, const struct message_a_consumed *consumed)
{
    if (park->state != PARK_RESUMING || consumed->resume_version != park->answer.resume_version)
        return;
    park->consumed_op = park->answer.op;
    arena_finish(&park->arena);
    enter(park, PARK_NONE, 0);
    adapter_settled(park->program->adapter);
    agent_send(agent_of(park), MESSAGE_CONSUMED,
               &(struct message_consumed){.id = park->id,
                                          .resume_version = consumed->resume_version});
}

static bool take_message(void *arg, const struct message *message, struct error *err)
{
    struct park *park = arg;

    switch ((unsigned)message->type) {
    case MESSAGE_A_PARKED: take_parked(park, &message->a_parked); return true;
    case MESSAGE_A_RESEEDED: take_reseeded(park, &message->a_reseeded); return true;
    case MESSAGE_A_CONSUMED: take_consumed(park, &message->a_consumed); return true;
    default: return error_set(err, ERR_INVALID, "the adapter may not say this at the barrier");
    }
}

static void take_fault(void *arg, const struct error *err)
{
    struct park *park = arg;

    adapter_give_up(park->program->adapter, err);
}

void park_init(struct park *park, struct program *program, int fd)
{
    *park = (struct park){.program = program};
    barrier_init(&park->barrier, program->agent->loop, fd, take_message, take_fault, park);
}

void park_finish(struct park *park)
{
    loop_cancel(park->timer);
    park->timer = NULL;
    arena_finish(&park->arena);
    barrier_finish(&park->barrier);
}

static void refuse_request(struct program *program, uint64_t id, const char *stage,
                           const char *text)
{
    struct error err = {.code = ERR_INVALID};

    snprintf(err.text, sizeof err.text, "%s", text);
    agent_refuse(program->agent, id, stage, "invalid_request", &err);
}

void park_freeze(struct program *program, const struct message_freeze *freeze)
{
    struct adapter *adapter = program->adapter;

    if (!adapter || adapter->state != ADAPTER_RELEASED || adapter->has_ended ||
        adapter->park.state != PARK_NONE || program->agent->hold.state != HOLD_NONE) {
        refuse_request(program, freeze->id, "freeze", "the program cannot be frozen now");
        return;
    }
    struct park *park = &adapter->park;
    int64_t limit = freeze->deadline_ms < ASK_MAX_MS ? (int64_t)freeze->deadline_ms : ASK_MAX_MS;
    park->id = freeze->id;
    park->number++;
    park->without_tcp = freeze->without_tcp;
    enter(park, PARK_ASKED, limit ? limit : 1);
    adapter_park(adapter, &(struct message_a_park){.deadline_ms = (uint64_t)limit,
                                                   .number = park->number,
                                                   .without_tcp = park->without_tcp});
}

void park_busy(struct park *park, const struct message_a_busy *busy)
{
    char text[256];

    if (park->state != PARK_ASKED || busy->number != park->number)
        return;
    snprintf(text, sizeof text, "%.*s", (int)busy->reason.len, busy->reason.ptr);
    enter(park, PARK_NONE, 0);
    refuse(park, "freeze", "adapter_busy", text);
}

void park_stopped(struct park *park, const struct init_news *news)
{
    char text[128];

    if (park->state != PARK_STOPPING)
        return;
    if (news->kind != NEWS_STOPPED) {
        give_up_freeze(park, "freeze_failed", "a process would not stop");
        return;
    }
    if (park->without_tcp && news->watcher) {
        snprintf(text, sizeof text, "process %d has TCP sockets open, which cannot be stored",
                 (int)news->watcher);
        give_up_freeze(park, "adapter_busy", text);
        return;
    }
    park->processes = news->processes < UINT32_MAX ? (uint32_t)news->processes : UINT32_MAX;
    enter(park, PARK_DRAINING, DRAIN_MS);
}

void park_thaw(struct program *program, const struct message_thaw *thaw)
{
    struct park *park = program->adapter ? &program->adapter->park : NULL;

    if (!park || (park->state != PARK_FROZEN && park->state != PARK_NONE)) {
        refuse_request(program, thaw->id, "thaw", "the program is not frozen");
        return;
    }
    if (!deliver_is_whole(program)) {
        refuse_request(program, thaw->id, "thaw", "its secrets have not come again");
        return;
    }
    if (park->state == PARK_FROZEN) {
        capture_cancel(program->agent);
        deliver_variables(program, NULL, NULL);
        program_order(program, INIT_CONT, 0);
        thaw_adapter(park);
        enter(park, PARK_NONE, 0);
    }
    agent_send(program->agent, MESSAGE_THAWED, &(struct message_thawed){.id = thaw->id});
}

static void keep_answer(struct park *park, const struct message_resume *resume)
{
    arena_finish(&park->arena);
    park->answer = (struct message_a_resume){
        .resume_version = resume->resume_version,
        .op = resume->op,
        .status = resume->status,
        .body = arena_str(&park->arena, resume->body),
        .identity = arena_str(&park->arena, resume->identity),
    };
}

/* One that came before is not delivered again; one that is on its way is answered in its time. */
void park_resume(struct program *program, const struct message_resume *resume)
{
    struct park *park = program->adapter ? &program->adapter->park : NULL;

    if (park && resume->op <= park->consumed_op) {
        agent_send(program->agent, MESSAGE_CONSUMED,
                   &(struct message_consumed){resume->id, resume->resume_version});
        return;
    }
    if (park && (park->state == PARK_RESEEDING || park->state == PARK_RESUMING) &&
        resume->resume_version == park->answer.resume_version) {
        park->id = resume->id;
        return;
    }
    if (!park || park->state != PARK_FROZEN || !deliver_is_whole(program)) {
        refuse_request(program, resume->id, "resume", "the program is not ready to go on");
        return;
    }
    capture_cancel(program->agent);
    park->id = resume->id;
    keep_answer(park, resume);
    enter(park, PARK_RESEEDING, RESUME_MS);
    program_order(program, INIT_CONT, 0);
    barrier_send(&park->barrier, MESSAGE_A_RESEED,
                 &(struct message_a_reseed){.entropy = resume->entropy});
}

void park_end(struct park *park)
{
    static const char *const stages[] = {
        [PARK_ASKED] = "freeze",     [PARK_STOPPING] = "freeze", [PARK_DRAINING] = "freeze",
        [PARK_RESEEDING] = "resume", [PARK_RESUMING] = "resume", [PARK_FROZEN] = NULL,
    };
    const char *stage = stages[park->state];

    enter(park, PARK_NONE, 0);
    if (stage)
        refuse(park, stage, "program_gone", "the program has ended");
}

static bool is_read_empty(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return fd < 0 || poll(&ready, 1, 0) == 0;
}

/* Everything the program wrote has left for the host. */
static bool is_drained(const struct program *program)
{
    const struct channel *channel = &program->agent->channel;

    for (size_t i = 0; i < 2; i++) {
        const struct program_output *output = &program->out[i];
        if (!is_read_empty(output->fd) || channel_send_pending(channel, output->stream))
            return false;
    }
    return is_read_empty(program->adapter->fd);
}

void park_settle(struct park *park)
{
    const struct program *program = park->program;

    barrier_settle(&park->barrier);
    if (park->state != PARK_DRAINING)
        return;
    if (!is_drained(program)) {
        agent_again(agent_of(park), WIRE_MS);
        return;
    }
    enter(park, PARK_FROZEN, 0);
    agent_send(agent_of(park), MESSAGE_FROZEN,
               &(struct message_frozen){
                   .id = park->id,
                   .processes = park->processes,
                   .stdout_end = program->out[0].offset,
                   .stderr_end = program->out[1].offset,
               });
}

bool park_is_frozen(const struct program *program)
{
    return program->adapter && program->adapter->park.state == PARK_FROZEN;
}
