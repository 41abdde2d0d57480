#include "guest/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/own.h"
#include "guest/adapter.h"
#include "guest/room.h"
#include "guest/sharing.h"
#include "guest/spares.h"
#include "guest/stream.h"
#include "guest/terminal.h"

enum { KILL_BACKUP_MS = 5000 };

struct program *program_find(struct agent *agent, uint32_t number)
{
    struct program *program = agent->programs;

    while (program && program->number != number)
        program = program->next;
    return program;
}

struct program *program_of_stream(struct agent *agent, uint16_t stream)
{
    for (struct program *p = agent->programs; p; p = p->next) {
        if (p->in.stream == stream || (p->adapter && p->adapter->payload_stream == stream))
            return p;
    }
    return NULL;
}

struct program *program_of_pid(struct agent *agent, pid_t pid)
{
    struct program *program = agent->programs;

    while (program && (program->is_reaped || program->init_pid != pid))
        program = program->next;
    return program;
}

void program_started(struct program *program, struct str node_version)
{
    if (program->has_answered)
        return;
    program->has_answered = program->has_started = true;
    agent_send(program->agent, MESSAGE_STARTED,
               &(struct message_started){
                   .id = program->launch_id,
                   .program = program->number,
                   .pid = (uint32_t)(program->room_pid ? program->room_pid : program->init_pid),
                   .node_version = node_version,
               });
}

void program_failed(struct program *program, const char *stage, int sys, const char *failure,
                    const char *text)
{
    if (program->has_answered)
        return;
    program->has_answered = true;
    agent_send(program->agent, MESSAGE_LAUNCH_FAILED,
               &(struct message_launch_failed){
                   .id = program->launch_id,
                   .program = program->number,
                   .stage = str_of(stage),
                   .sys = (uint32_t)sys,
                   .failure = str_of(failure),
                   .text = str_of(text),
               });
    program_kill(program, 0);
}

void program_order(struct program *program, enum init_order order, unsigned char value)
{
    unsigned char bytes[2] = {(unsigned char)order, value};

    if (program_is_in_room(program)) {
        room_order(program, order, value);
        return;
    }
    /* A full socket means an init that is stuck; the backup of program_kill deals with it. */
    if (program->control_fd >= 0)
        (void)!write(program->control_fd, bytes, order == INIT_SIGNAL ? 2 : 1);
}

static void kill_init(void *arg)
{
    struct program *program = arg;

    program->kill_timer = NULL;
    if (!program->is_reaped && program->init_pid > 0)
        kill(program->init_pid, SIGKILL);
}

static void kill_now(void *arg)
{
    struct program *program = arg;

    program->is_killed = true;
    program_order(program, INIT_KILL, 0);
    program->kill_timer = loop_after(program->agent->loop, KILL_BACKUP_MS, kill_init, program);
}

void program_kill(struct program *program, uint64_t grace_ms)
{
    if (program->is_killed || program->is_reaped)
        return;
    loop_cancel(program->kill_timer);
    program->kill_timer = NULL;
    if (grace_ms == 0) {
        kill_now(program);
        return;
    }
    program_order(program, INIT_TERM, 0);
    int64_t delay = grace_ms < INT32_MAX ? (int64_t)grace_ms : INT32_MAX;
    program->kill_timer = loop_after(program->agent->loop, delay, kill_now, program);
}

/* Which layer of the product a failed stage belongs to. */
static const char *failure_of(const struct program *program, const struct init_report *report)
{
    bool is_node = program->adapter && strcmp(program->main_name, "node") == 0;

    if (report->stage == STAGE_EXEC && is_node)
        return "node_missing";
    if (report->stage == STAGE_SECRETS)
        return "secret_unreadable";
    if (report->stage == STAGE_MOUNT || report->stage == STAGE_PIVOT)
        return "mount_failed";
    return report->stage == STAGE_EXEC || report->stage == STAGE_CWD ? "launch_failed"
                                                                     : "agent_unhealthy";
}

static void take_report(struct program *program, const struct init_report *report)
{
    char text[sizeof report->text + 128];

    snprintf(text, sizeof text, "%.*s: %s", (int)sizeof report->text, report->text,
             strerror(report->sys));
    program_failed(program, init_stage_name(report->stage), report->sys,
                   failure_of(program, report), text);
}

/* The pipe ends when both init and main process have become other images. */
static void report_ready(void *arg, unsigned events UNUSED)
{
    struct program *program = arg;
    struct init_report report;
    ssize_t got = read(program->report_fd, &report, sizeof report);

    if (got < 0)
        return;
    if (got == sizeof report)
        take_report(program, &report);
    loop_remove(program->report_source);
    program->report_source = NULL;
    close(take_fd(&program->report_fd));
    program->has_executed = true;
    if (!program->adapter)
        program_started(program, (struct str){0});
}

static void take_news(struct program *program, const struct init_news *news)
{
    if (news->kind == NEWS_EXIT) {
        program->exit = *news;
        program->has_exited = true;
    } else if (!hold_heard(program->agent, &program->held, news->kind == NEWS_STOPPED,
                           news->processes) &&
               program->adapter) {
        park_stopped(&program->adapter->park, news);
    }
}

/* False when there is no more to come now. */
static bool read_news(struct program *program)
{
    struct init_news news;
    ssize_t got = read(program->control_fd, &news, sizeof news);

    if (got == sizeof news)
        take_news(program, &news);
    if (got != sizeof news && got >= 0) {
        loop_remove(program->control_source);
        program->control_source = NULL;
    }
    return got == sizeof news;
}

static void control_ready(void *arg, unsigned events UNUSED)
{
    (void)!read_news(arg);
}

bool program_watch(struct program *program, struct error *err)
{
    return loop_add(program->agent->loop, program->report_fd, LOOP_READ, report_ready, program,
                    &program->report_source, err) &&
           loop_add(program->agent->loop, program->control_fd, LOOP_READ, control_ready, program,
                    &program->control_source, err);
}

/* An init that could not tell how its main process ended was killed with everything in it. */
void program_reaped(struct program *program, int status UNUSED)
{
    if (program->report_fd >= 0)
        report_ready(program, 0);
    while (program->control_source && read_news(program))
        ;
    if (!program->has_exited)
        program->exit = (struct init_news){.status = SIGKILL};
    if (program->adapter)
        park_end(&program->adapter->park);
    program->has_exited = program->is_reaped = true;
    hold_gone(program->agent, &program->held);
    loop_cancel(program->kill_timer);
    program->kill_timer = NULL;
}

/* What stands for a signal is done as soon as the signal is sent. */
static bool take_input(struct program *program, struct str bytes, bool is_end, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str rest = terminal_filter(program, bytes, &arena);

    return input_take(&program->in, rest, is_end, err) &&
           (rest.len == bytes.len || channel_consumed(&program->agent->channel, program->in.stream,
                                                      bytes.len - rest.len, err));
}

bool program_data(struct program *program, uint16_t stream, struct str bytes, bool is_end,
                  struct error *err)
{
    if (program->in.stream == stream)
        return take_input(program, bytes, is_end, err);
    return adapter_payload(program->adapter, bytes, is_end, err);
}

/* Node says 9 to options it does not know and 127 when its libraries are missing. */
static void fail_before_hello(struct program *program)
{
    int status = program->exit.status;
    char text[128];

    if (WIFEXITED(status))
        snprintf(text, sizeof text, "node ended with exit code %d before it was ready",
                 WEXITSTATUS(status));
    else
        snprintf(text, sizeof text, "node was ended by signal %d before it was ready",
                 WTERMSIG(status));
    const char *failure = "image_root_invalid";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 9)
        failure = "node_too_old";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        failure = "node_missing";
    program_failed(program, "hello", 0, failure, text);
}

static bool has_starved(const struct program *program)
{
    return program_is_in_room(program) ? room_starved(program->agent) > program->starved
                                       : group_starved(&program->group) > 0;
}

static void tell_exit(struct program *program)
{
    int status = program->exit.status;

    program->has_told_exit = true;
    if (!program->has_answered)
        fail_before_hello(program);
    if (!program->has_started)
        return;
    uint32_t exit_code = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
    uint32_t signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0;
    /* A shell passes its child's end on as 128 and the signal. */
    bool was_killed = signal == SIGKILL || exit_code == 128 + SIGKILL;
    agent_send(program->agent, MESSAGE_EXITED,
               &(struct message_exited){
                   .program = program->number,
                   .exit_code = exit_code,
                   .signal = signal,
                   .oom = was_killed && has_starved(program),
                   .cpu_ms = program->exit.cpu_ms,
                   .max_rss_kib = program->exit.max_rss_kib,
               });
}

/* Before QUIESCED: what the host captures then must not have been shown a secret's place. */
static void clear_secrets(struct program *program)
{
    bool do_mounts_stay = program->agent->sandbox.shares_mounts;

    secrets_destroy(TAKE(program->secrets), do_mounts_stay ? program->root : NULL);
}

void program_destroy(struct program *program)
{
    struct program **link = &program->agent->programs;

    while (*link != program)
        link = &(*link)->next;
    *link = program->next;
    loop_cancel(program->kill_timer);
    loop_cancel(program->linger_timer);
    loop_remove(program->report_source);
    loop_remove(program->control_source);
    for (size_t i = 0; i < 2; i++)
        output_finish(&program->out[i]);
    input_finish(&program->in);
    adapter_destroy(program->adapter);
    auto_close(&program->report_fd);
    auto_close(&program->control_fd);
    auto_close(&program->mounts_fd);
    auto_close(&program->watcher_fd);
    clear_secrets(program);
    group_remove(&program->group);
    if (program->agent->sandbox.shares_mounts && !program_is_in_room(program))
        sharing_clear_root(program->root);
    spares_keep_program(program);
}

static bool is_quiet(const struct program *program)
{
    return program->is_reaped && program->has_told_exit && output_is_sent(&program->out[0]) &&
           output_is_sent(&program->out[1]) &&
           (!program->adapter || adapter_is_relayed(program->adapter));
}

bool program_settle(struct program *program)
{
    output_settle(&program->out[0]);
    output_settle(&program->out[1]);
    input_settle(&program->in);
    if (program->adapter)
        adapter_settle(program->adapter);
    if (program->has_exited && !program->has_told_exit && program->has_executed &&
        (!program->adapter || program->adapter->has_ended))
        tell_exit(program);
    if (!is_quiet(program))
        return true;

    clear_secrets(program);
    agent_send(program->agent, MESSAGE_QUIESCED,
               &(struct message_quiesced){
                   .program = program->number,
                   .stdout_end = program->out[0].offset,
                   .stderr_end = program->out[1].offset,
               });
    program_destroy(program);
    return false;
}
