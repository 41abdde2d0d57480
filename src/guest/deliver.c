#include "guest/deliver.h"

#include "base/own.h"
#include "guest/adapter.h"
#include "guest/sharing.h"

static void refuse(struct agent *agent, uint64_t id, const struct error *err)
{
    agent_refuse(agent, id, "secrets",
                 err->code == ERR_FORBIDDEN ? "unsafe_path" : "invalid_request", err);
}

static bool was_paused(const struct program *program)
{
    return program && program->secrets && program->secrets->is_zero;
}

static bool take(struct agent *agent, const struct message_secret *secret, struct error *err)
{
    const struct secrets_grouping grouping = {agent->sandbox.mount};
    struct program *program = program_find(agent, secret->program);
    bool is_variable = secret->placement == SECRET_IN_ENVIRONMENT;

    if (!agent->sandbox.is_ready)
        return error_set(err, ERR_INVALID, "the sandbox is not ready");
    if (was_paused(program))
        return secrets_rewrite(program->secrets, secret, err);
    if (program &&
        (program->secrets || !program->adapter || program->adapter->state != ADAPTER_WAITING))
        return error_set(err, ERR_INVALID, "program %u takes no secrets now", secret->program);
    if (is_variable && !program)
        return error_set(err, ERR_INVALID, "a variable is for a task that waits");
    if (!secrets_add(&agent->secrets, secret, program ? &grouping : NULL, err))
        return false;
    if (is_variable)
        adapter_variable(program->adapter, secret->target, secret->value);
    return true;
}

void deliver_secret(struct agent *agent, const struct message_secret *secret)
{
    struct error err = {0};

    if (!take(agent, secret, &err))
        refuse(agent, secret->id, &err);
}

static bool hand_over(struct program *program, struct error *err)
{
    struct agent *agent = program->agent;
    AUTO_FD int mounts = -1;

    if (!secrets_take(&agent->secrets, program->number, &program->secrets, err))
        return false;
    if (!program->secrets->files)
        return true;
    if (!agent->sandbox.shares_mounts && !sharing_take_mounts(program->mounts_fd, &mounts, err))
        return false;
    const struct secrets_program place = {mounts, program->root, &program->user};
    return secrets_place(program->secrets, &program->user, err) &&
           secrets_attach(program->secrets, &place, err);
}

/* Nothing is made looser for a user that cannot read: the program ends before it began. */
static void give_up(struct program *program, uint64_t id, const struct error *err)
{
    agent_send(program->agent, MESSAGE_LAUNCH_FAILED,
               &(struct message_launch_failed){
                   .id = id,
                   .program = program->number,
                   .stage = STR("secrets"),
                   .sys = (uint32_t)err->sys,
                   .failure =
                       err->code == ERR_FORBIDDEN ? STR("unsafe_path") : STR("secret_unreadable"),
                   .text = str_of(err->text),
               });
    program_kill(program, 0);
}

void deliver_end(struct agent *agent, const struct message_secrets_end *end)
{
    const struct message_secrets_ready ready = {end->id, end->program, end->count};
    struct program *program = program_find(agent, end->program);
    struct error err = {0};

    const struct program *paused = was_paused(program) ? program : NULL;
    bool is_complete = paused ? secrets_rewritten(paused->secrets, end, &err)
                              : secrets_complete(agent->secrets, end, &err);
    if (!is_complete)
        refuse(agent, end->id, &err);
    else if (!program || paused)
        agent_send(agent, MESSAGE_SECRETS_READY, &ready);
    else if (!hand_over(program, &err))
        give_up(program, end->id, &err);
    else
        adapter_owe(program->adapter, &ready);
}

void deliver_drop(struct agent *agent)
{
    while (agent->secrets) {
        struct secrets *set = agent->secrets;
        agent->secrets = set->next;
        secrets_destroy(set, NULL);
    }
}

bool deliver_zero(struct agent *agent, struct error *err)
{
    for (struct program *program = agent->programs; program; program = program->next) {
        if (!secrets_zero(program->secrets, err))
            return false;
    }
    deliver_drop(agent);
    return true;
}

bool deliver_is_whole(const struct program *program)
{
    return !was_paused(program);
}

void deliver_variables(struct program *program, secrets_take_variable *take_variable, void *arg)
{
    secrets_variables(program->secrets, take_variable, arg);
}
