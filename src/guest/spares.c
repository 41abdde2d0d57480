#include "guest/spares.h"

#include <fcntl.h>

#include "base/own.h"

enum { PIPES = 3, PIPE_BYTES = 262144 };

struct spares {
    struct program *program; /* or NULL */
    int pipes[PIPES][2];
    bool has_pipes;
};

bool spares_make_pipe(int pair[2], int ours, struct error *err)
{
    if (pipe2(pair, O_CLOEXEC) != 0 || fcntl(pair[ours], F_SETFL, O_NONBLOCK) != 0)
        return error_errno(err, "making a pipe");
    /* A larger pipe saves turns; where it is not allowed the usual size will do. */
    (void)!fcntl(pair[0], F_SETPIPE_SZ, PIPE_BYTES);
    return true;
}

static void close_pipe(int pair[2])
{
    for (int i = 0; i < 2; i++) {
        auto_close(&pair[i]);
        pair[i] = -1;
    }
}

/* The first is written to by the agent, the others are read. */
static bool make_pipes(int pipes[PIPES][2], struct error *err)
{
    for (int i = 0; i < PIPES; i++)
        pipes[i][0] = pipes[i][1] = -1;
    for (int i = 0; i < PIPES; i++) {
        if (spares_make_pipe(pipes[i], i == 0, err))
            continue;
        for (int made = 0; made <= i; made++)
            close_pipe(pipes[made]);
        return false;
    }
    return true;
}

bool spares_take_pipes(struct agent *agent, int in[2], int out[2], int err_out[2],
                       struct error *err)
{
    struct spares *spares = agent->spares;
    int made[PIPES][2];
    int(*pipes)[2] = made;

    if (spares && spares->has_pipes)
        pipes = spares->pipes;
    else if (!make_pipes(made, err))
        return false;
    memcpy(in, pipes[0], sizeof made[0]);
    memcpy(out, pipes[1], sizeof made[0]);
    memcpy(err_out, pipes[2], sizeof made[0]);
    if (spares)
        spares->has_pipes = false;
    return true;
}

struct program *spares_take_program(struct agent *agent)
{
    struct program *program = agent->spares ? TAKE(agent->spares->program) : NULL;

    if (program)
        return program;
    program = alloc(sizeof *program);
    *program = (struct program){0};
    return program;
}

void spares_keep_program(struct program *program)
{
    struct spares *spares = program->agent->spares;

    if (!spares || spares->program) {
        arena_finish(&program->arena);
        free(program);
        return;
    }
    arena_reset(&program->arena);
    *program = (struct program){.arena = program->arena};
    spares->program = program;
}

void spares_settle(struct agent *agent)
{
    struct spares *spares = agent->spares;
    struct error ignored;

    if (!agent->room || agent->programs || (spares && spares->has_pipes))
        return;
    if (!spares) {
        spares = agent->spares = alloc(sizeof *spares);
        *spares = (struct spares){0};
    }
    spares->has_pipes = make_pipes(spares->pipes, &ignored);
}

void spares_drop(struct agent *agent)
{
    struct spares *spares = TAKE(agent->spares);

    if (!spares)
        return;
    for (int i = 0; i < PIPES && spares->has_pipes; i++)
        close_pipe(spares->pipes[i]);
    if (spares->program)
        arena_finish(&spares->program->arena);
    free(spares->program);
    free(spares);
}
