/* From a LAUNCH message to a program: streams, user, environment, descriptors, init. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/own.h"
#include "guest/adapter.h"
#include "guest/environment.h"
#include "guest/program.h"
#include "guest/room.h"
#include "guest/spares.h"
#include "guest/stream.h"

/* Both ends of everything between agent and program; the program's are closed here after the
 * init has its copies. */
struct plumbing {
    int in[2], out[2], err[2], report[2], control[2], adapter[2], barrier[2], mounts[2];
};

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        auto_close(&pair[i]);
        pair[i] = -1;
    }
}

static void plumbing_finish(struct plumbing *plumbing)
{
    close_pair(plumbing->in);
    close_pair(plumbing->out);
    close_pair(plumbing->err);
    close_pair(plumbing->report);
    close_pair(plumbing->control);
    close_pair(plumbing->adapter);
    close_pair(plumbing->barrier);
    close_pair(plumbing->mounts);
}

static bool make_sockets(int pair[2], struct error *err)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 ||
        fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0)
        return error_errno(err, "making a socket pair");
    return true;
}

static bool has_adapter(uint32_t kind)
{
    return kind == PROGRAM_TASK || kind == PROGRAM_CHECK;
}

/* A program in the room has less: its init is there already, and a terminal comes from there. */
static bool plumbing_make(struct agent *agent, struct plumbing *plumbing,
                          const struct message_launch *launch, struct error *err)
{
    bool has_stdin = launch->stdin_stream != 0, is_task = has_adapter(launch->kind);

    *plumbing = (struct plumbing){
        {-1, -1},
        {-1, -1},
        {-1, -1},
        {-1, -1},
        {-1, -1},
        {-1, -1},
        {-1, -1},
        {-1, -1}
    };
    if (launch->kind == PROGRAM_PTY)
        return true;
    if (launch->kind == PROGRAM_EXEC && has_stdin)
        return spares_take_pipes(agent, plumbing->in, plumbing->out, plumbing->err, err);
    if ((has_stdin && !spares_make_pipe(plumbing->in, 1, err)) ||
        !spares_make_pipe(plumbing->out, 0, err) || !spares_make_pipe(plumbing->err, 0, err))
        return false;
    return launch->kind == PROGRAM_EXEC ||
           (spares_make_pipe(plumbing->report, 0, err) && make_sockets(plumbing->control, err) &&
            (!is_task ||
             (make_sockets(plumbing->adapter, err) && make_sockets(plumbing->barrier, err) &&
              make_sockets(plumbing->mounts, err))));
}

static bool open_streams(struct agent *agent, const struct message_launch *launch,
                         struct error *err)
{
    uint32_t numbers[] = {launch->stdout_stream, launch->stderr_stream, launch->stdin_stream};

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        if (i == 2 && numbers[i] == 0)
            continue;
        if (numbers[i] > UINT16_MAX || numbers[i] % 2 == 0)
            return error_set(err, ERR_INVALID, "stream %u is not the host's", numbers[i]);
        if (!channel_open_stream(&agent->channel, (uint16_t)numbers[i],
                                 i == 2 ? CHANNEL_RECEIVES : CHANNEL_SENDS, err))
            return false;
    }
    return true;
}

static char **texts(struct arena *arena, struct str_list list)
{
    char **array = arena_array(arena, list.n + 1, sizeof *array);

    for (size_t i = 0; i < list.n; i++)
        array[i] = arena_text(arena, list.items[i]);
    return array;
}

bool program_choose_user(struct program *program, struct str name, struct error *err)
{
    if (name.len)
        return user_resolve(SANDBOX_ROOT, name, &program->user, err);
    program->user = program->agent->sandbox.user;
    return true;
}

/* Under a shared table of mounts two programs would cover each other's /proc: the second one
 * gets a copy of the root. */
static bool choose_root(struct program *program, struct error *err)
{
    const struct agent *agent = program->agent;
    bool is_taken = false;

    for (const struct program *p = agent->programs; p; p = p->next)
        is_taken |= p != program && strcmp(p->root, SANDBOX_ROOT) == 0;
    if (!agent->sandbox.shares_mounts || !is_taken)
        return true;
    program->root = arena_printf(&program->arena, SANDBOX_STATE "/root-%u", program->number);
    return mkdir(program->root, 0755) == 0 || error_errno(err, "making %s", program->root);
}

static bool start_init(struct program *program, const struct message_launch *launch,
                       const struct plumbing *plumbing, struct error *err)
{
    struct arena *arena = &program->arena;
    const struct sandbox *sandbox = &program->agent->sandbox;
    const char *fallback = sandbox->mount ? sandbox->mount : sandbox->workdir;
    const char *cwd = launch->cwd.len ? arena_text(arena, launch->cwd) : fallback;
    const struct user *user = &program->user;
    struct environment env;

    if (!choose_root(program, err) || !program_choose_user(program, launch->user, err) ||
        (program->secrets && !secrets_place(program->secrets, user, err)) ||
        (program->agent->boot && !group_make(&program->group, program->number, err)))
        return false;
    environment_build(&env, arena, sandbox->env, launch->env, user, cwd);
    if (program->adapter)
        environment_put_value(&env, arena, "HELMR_CONTROL_FD", "3");

    struct init_spec spec = {
        .sandbox = sandbox,
        .root = program->root,
        .argv = texts(arena, launch->argv),
        .env = env.block,
        .path = environment_get(&env, "PATH"),
        .cwd = cwd,
        .user = user,
        .secrets = program->secrets,
        .group = &program->group,
        .std = {plumbing->in[0], plumbing->out[1], plumbing->err[1]},
        .adapter_fd = plumbing->adapter[1],
        .barrier_fd = plumbing->barrier[1],
        .self_fd = program->agent->self_fd,
        .control_fd = plumbing->control[1],
        .report_fd = plumbing->report[1],
        .mounts_fd = sandbox->shares_mounts ? -1 : plumbing->mounts[1],
        .mask = program->agent->mask,
    };
    return init_start(&spec, &program->init_pid, err);
}

static bool is_launchable(struct agent *agent, const struct message_launch *launch,
                          struct error *err)
{
    if (program_find(agent, launch->program))
        return error_set(err, ERR_INVALID, "program %u is there already", launch->program);
    if (launch->kind < PROGRAM_TASK || launch->kind > PROGRAM_CHECK || launch->program == 0)
        return error_set(err, ERR_UNSUPPORTED, "a program %u of kind %u cannot be", launch->program,
                         launch->kind);
    if (launch->argv.n == 0 || launch->argv.items[0].len == 0)
        return error_set(err, ERR_INVALID, "a program needs a command");
    return open_streams(agent, launch, err);
}

static struct program *add_program(struct agent *agent, const struct message_launch *launch)
{
    struct program *program = spares_take_program(agent);

    *program = (struct program){
        .next = agent->programs,
        .arena = program->arena,
        .agent = agent,
        .number = launch->program,
        .launch_id = launch->id,
        .kind = (enum program_kind)launch->kind,
        .report_fd = -1,
        .control_fd = -1,
        .mounts_fd = -1,
        .watcher_fd = -1,
        .group = GROUP_NONE,
        .root = SANDBOX_ROOT,
    };
    program->main_name = arena_text(&program->arena, launch->argv.items[0]);
    agent->programs = program;
    return program;
}

/* The program never came to be, but its streams are open: it ends like any other. */
static void bury(struct program *program, const struct error *err)
{
    program->is_reaped = program->has_exited = program->has_executed = true;
    if (program->adapter)
        program->adapter->has_ended = true;
    const char *failure = err->code == ERR_NOT_FOUND   ? "image_root_invalid"
                          : err->code == ERR_FORBIDDEN ? "unsafe_path"
                                                       : "agent_unhealthy";
    program_failed(program, "namespace", err->sys, failure, err->text);
}

/* Where its bytes come from and go to; the pipe of a terminal comes later. */
static void attach_streams(struct program *program, const struct message_launch *launch,
                           struct plumbing *plumbing, bool is_started)
{
    uint16_t out = (uint16_t)launch->stdout_stream;

    if (is_started && program->kind == PROGRAM_PTY)
        output_expect(&program->out[0], program, out);
    else
        output_init(&program->out[0], program, is_started ? take_fd(&plumbing->out[0]) : -1, out);
    output_init(&program->out[1], program, is_started ? take_fd(&plumbing->err[0]) : -1,
                (uint16_t)launch->stderr_stream);
    input_init(&program->in, program, is_started ? take_fd(&plumbing->in[1]) : -1,
               (uint16_t)launch->stdin_stream);
    program->in.is_awaited = is_started && program->kind == PROGRAM_PTY;
}

static bool start_program(struct program *program, const struct message_launch *launch,
                          struct plumbing *plumbing, struct error *err)
{
    const int std[] = {plumbing->in[0], plumbing->out[1], plumbing->err[1]};

    if (program_is_in_room(program))
        return room_launch(program, launch, std, err);
    return secrets_take(&program->agent->secrets, program->number, &program->secrets, err) &&
           start_init(program, launch, plumbing, err);
}

void program_launch(struct agent *agent, const struct message_launch *launch)
{
    struct error err = {0};
    AUTO(plumbing_finish) struct plumbing plumbing;

    bool is_made = plumbing_make(agent, &plumbing, launch, &err);
    if (!is_launchable(agent, launch, &err)) {
        agent_refuse(agent, launch->id, "launch", "invalid_request", &err);
        return;
    }
    struct program *program = add_program(agent, launch);
    if (is_made && has_adapter(program->kind))
        program->adapter =
            adapter_create(program, take_fd(&plumbing.adapter[0]), take_fd(&plumbing.barrier[0]));
    bool is_started = is_made && start_program(program, launch, &plumbing, &err);
    attach_streams(program, launch, &plumbing, is_started);
    if (!is_started)
        bury(program, &err);
    if (!is_started || program_is_in_room(program))
        return;
    program->report_fd = take_fd(&plumbing.report[0]);
    program->control_fd = take_fd(&plumbing.control[0]);
    program->mounts_fd = take_fd(&plumbing.mounts[0]);
    if (!program_watch(program, &err))
        agent_die(agent, &err);
    /* Its Node takes longer to start than this, and then its secrets need not wait. */
    if (program->kind == PROGRAM_TASK)
        secrets_prepare();
}
