#include "guest/stream.h"

#include <errno.h>

#include "base/own.h"

enum { PIECE = 32768, PIECES_PER_TURN = 8, LEFTOVERS_MAX = 128 };

/* The pipe of a program that is over, kept for what it left running. */
struct leftover {
    struct leftover *next;
    struct agent *agent;
    int fd;
    struct loop_source *source;
};

void output_init(struct program_output *output, struct program *program, int fd, uint16_t stream)
{
    *output = (struct program_output){.program = program, .fd = fd, .stream = stream};
    if (fd < 0)
        output_finish(output);
}

void output_expect(struct program_output *output, struct program *program, uint16_t stream)
{
    *output = (struct program_output){.program = program, .fd = -1, .stream = stream};
}

void output_begin(struct program_output *output, int fd)
{
    output->fd = fd;
}

static void leftover_drop(struct leftover *leftover)
{
    struct leftover **link = &leftover->agent->leftovers;

    while (*link != leftover)
        link = &(*link)->next;
    *link = leftover->next;
    leftover->agent->n_leftovers--;
    loop_remove(leftover->source);
    close(leftover->fd);
    free(leftover);
}

void leftovers_drop(struct agent *agent)
{
    while (agent->leftovers)
        leftover_drop(agent->leftovers);
}

static void leftover_ready(void *arg, unsigned events UNUSED)
{
    struct leftover *leftover = arg;
    char bytes[PIECE];
    ssize_t got = read(leftover->fd, bytes, sizeof bytes);

    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        leftover_drop(leftover);
}

/* Takes the descriptor when there is room for one more. */
static void leave_over(struct agent *agent, int *fd)
{
    struct error ignored;

    if (agent->n_leftovers == LEFTOVERS_MAX)
        return;
    struct leftover *leftover = alloc(sizeof *leftover);
    *leftover = (struct leftover){.next = agent->leftovers, .agent = agent, .fd = take_fd(fd)};
    agent->leftovers = leftover;
    agent->n_leftovers++;
    if (!loop_add(agent->loop, leftover->fd, LOOP_READ, leftover_ready, leftover, &leftover->source,
                  &ignored))
        leftover_drop(leftover);
}

static void output_pause(struct program_output *output)
{
    loop_remove(output->source);
    output->source = NULL;
}

void output_finish(struct program_output *output)
{
    struct agent *agent = output->program->agent;
    struct error err;

    output_pause(output);
    auto_close(&output->fd);
    output->fd = -1;
    if (!channel_send_data(&agent->channel, output->stream, STR(""), true, &err))
        agent_die(agent, &err);
}

/* A host that reset the stream wants no output: it is then read and dropped. */
static bool has_room(const struct program_output *output)
{
    const struct channel *channel = &output->program->agent->channel;

    return !channel_is_open(channel, output->stream, CHANNEL_SENDS) ||
           channel_send_room(channel, output->stream) >= PIECE;
}

/* A terminal is closed: that hangs up on whoever still has it. */
static void abandon(struct program_output *output)
{
    output_pause(output);
    if (output->program->kind != PROGRAM_PTY)
        leave_over(output->program->agent, &output->fd);
    output_finish(output);
}

static void output_ready(void *arg, unsigned events UNUSED)
{
    struct program_output *output = arg;
    struct agent *agent = output->program->agent;
    char bytes[PIECE];
    struct error err;

    for (int i = 0; i < PIECES_PER_TURN && has_room(output); i++) {
        ssize_t got = read(output->fd, bytes, sizeof bytes);
        if (got < 0 && errno == EAGAIN && output->is_cut) {
            abandon(output);
            return;
        }
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0) {
            output_finish(output);
            return;
        }
        output->offset += (uint64_t)got;
        if (!channel_send_data(&agent->channel, output->stream, (struct str){bytes, (size_t)got},
                               false, &err)) {
            agent_die(agent, &err);
            return;
        }
    }
    if (!has_room(output))
        output_pause(output);
}

void output_echo(struct program_output *output, char character)
{
    const char text[] = {'^', (char)(character ^ 0x40)};
    struct agent *agent = output->program->agent;
    struct error err;

    if (!has_room(output))
        return;
    output->offset += sizeof text;
    if (!channel_send_data(&agent->channel, output->stream, (struct str){text, sizeof text}, false,
                           &err))
        agent_die(agent, &err);
}

/* A paused pipe is not watched at all: its hang-up would wake the loop again and again. */
void output_settle(struct program_output *output)
{
    struct agent *agent = output->program->agent;
    struct error err;

    if (output->fd < 0 || output->source || !has_room(output))
        return;
    /* A pipe that is empty already would never be ready. */
    if (output->is_cut) {
        output_ready(output, LOOP_READ);
        if (output->fd < 0)
            return;
    }
    if (!loop_add(agent->loop, output->fd, LOOP_READ, output_ready, output, &output->source, &err))
        agent_die(agent, &err);
}

void output_cut(struct program_output *output)
{
    output->is_cut = true;
    if (output->fd >= 0)
        output_ready(output, LOOP_READ);
    else if (!output_is_sent(output))
        output_finish(output);
}

bool output_is_sent(const struct program_output *output)
{
    return output->fd < 0 &&
           !channel_is_open(&output->program->agent->channel, output->stream, CHANNEL_SENDS);
}

void input_init(struct program_input *input, struct program *program, int fd, uint16_t stream)
{
    *input = (struct program_input){.program = program,
                                    .fd = fd,
                                    .stream = stream,
                                    .pending = {.max = CHANNEL_WINDOW}};
}

/* The host may still be sending: it is told that nobody reads any more. */
void input_finish(struct program_input *input)
{
    struct agent *agent = input->program->agent;
    struct error err;

    loop_remove(input->source);
    input->source = NULL;
    auto_close(&input->fd);
    input->fd = -1;
    input->is_awaited = false;
    buf_finish(&input->pending);
    if (input->stream && !channel_reset(&agent->channel, input->stream, 0, &err))
        agent_die(agent, &err);
}

bool input_take(struct program_input *input, struct str bytes, bool is_end, struct error *err)
{
    if (input->fd < 0 && !input->is_awaited)
        return true;
    input->is_ending = is_end;
    return buf_append(&input->pending, bytes, err);
}

static void input_ready(void *arg UNUSED, unsigned events UNUSED)
{
}

static bool input_write(struct program_input *input, struct error *err)
{
    while (input->pending.len) {
        ssize_t put = write(input->fd, input->pending.bytes, input->pending.len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno == EAGAIN || error_errno(err, "writing to the program");
        buf_consume(&input->pending, (size_t)put);
        if (!channel_consumed(&input->program->agent->channel, input->stream, (size_t)put, err))
            return false;
    }
    return true;
}

void input_settle(struct program_input *input)
{
    struct error err;

    if (input->fd < 0)
        return;
    if (!input_write(input, &err) || (input->is_ending && input->pending.len == 0)) {
        input_finish(input);
        return;
    }
    if (input->pending.len && !input->source) {
        if (!loop_add(input->program->agent->loop, input->fd, LOOP_WRITE, input_ready, input,
                      &input->source, &err))
            agent_die(input->program->agent, &err);
    } else if (!input->pending.len) {
        loop_remove(input->source);
        input->source = NULL;
    }
}
