/* Execs and terminals, for real: on Linux, in gVisor and in runc. */
#include "base/own.h"
#include "base/time.h"
#include "guest/scenario.h"

/* Runs an exec as program 1 to its end; its output is then text. */
static bool run_exec(struct harness *harness, const char *const *argv)
{
    struct error err;

    harness->has_quiesced = harness->has_exited = harness->has_started = false;
    harness->out.len = 0;
    return harness_launch(harness, 1, PROGRAM_EXEC, argv, NULL, "") &&
           channel_send_data(&harness->channel, 7, STR(""), true, &err) &&
           harness_until(harness, &harness->has_quiesced) &&
           buf_append(&harness->out, (struct str){"", 1}, &err);
}

static bool end_room(struct harness *harness, uint64_t grace_ms)
{
    harness->has_room_ended = false;
    return harness_send(harness, MESSAGE_KILL, &(struct message_kill){9, 0, grace_ms}) &&
           harness_until(harness, &harness->has_room_ended);
}

ON_EVERY_ENGINE(an_exec_has_what_a_program_has)
{
    CHECK(set_up(harness));
    CHECK(run_exec(harness, ARGV("probe", "show")));
    CHECK(has(harness, "uid=1000 gid=1001 groups= 70\n"));
    CHECK(has(harness, "cwd=/workspace\n"));
    CHECK(has(harness, "env COLOUR=blue\n"));
    CHECK(has(harness, "env HOME=/home/ann\n"));
    CHECK(!strstr(harness->out.bytes, "HELMR_"));
    CHECK(harness->has_started && harness->has_exited && harness->exit_code == 0);
    CHECK(run_exec(harness, ARGV("probe", "exit", "3")));
    CHECK(harness->exit_code == 3 && harness->signal == 0);
}

ON_EVERY_ENGINE(execs_see_each_other)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 2, PROGRAM_EXEC, ARGV("probe", "signal"), NULL, ""));
    while (harness->other_out.len == 0)
        CHECK(harness_step(harness));
    CHECK(run_exec(harness, ARGV("probe", "processes")));
    CHECK(has(harness, "processes=3\n"));
    CHECK(harness_send(harness, MESSAGE_SIGNAL, &(struct message_signal){9, 2, 12}));
    CHECK(harness_until(harness, &harness->has_other_quiesced));
    CHECK(run_exec(harness, ARGV("probe", "processes")));
    CHECK(has(harness, "processes=2\n"));
}

ON_EVERY_ENGINE(what_an_exec_leaves_behind_stays_until_the_room_ends)
{
    CHECK(set_up(harness));
    CHECK(run_exec(harness, ARGV("probe", "leave")));
    CHECK(has(harness, "left\n") && harness->exit_code == 5);
    CHECK(run_exec(harness, ARGV("probe", "processes")));
    CHECK(has(harness, "processes=3\n"));
    CHECK(end_room(harness, 5000));
    CHECK(run_exec(harness, ARGV("probe", "processes")));
    CHECK(has(harness, "processes=2\n"));
}

ON_EVERY_ENGINE(the_end_of_the_room_ends_its_programs)
{
    CHECK(set_up(harness));
    CHECK(end_room(harness, 0));
    CHECK(harness_launch(harness, 1, PROGRAM_EXEC, ARGV("probe", "orphans"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(end_room(harness, 100));
    CHECK(harness->has_quiesced && harness->has_exited && harness->signal == 1);
}

/* Its init knows who is there when it is told, and not who was there last. */
ON_EVERY_ENGINE(a_room_ends_with_those_who_are_in_it)
{
    CHECK(set_up(harness));
    CHECK(run_exec(harness, ARGV("probe", "exit", "1")));
    harness->has_quiesced = harness->has_exited = false;
    CHECK(harness_launch(harness, 1, PROGRAM_EXEC, ARGV("probe", "orphans"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(end_room(harness, 5000));
    CHECK(harness->has_exited && harness->signal == 1);
}

ON_EVERY_ENGINE(a_kill_ends_the_session_of_one_exec)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 2, PROGRAM_EXEC, ARGV("probe", "signal"), NULL, ""));
    CHECK(harness_launch(harness, 1, PROGRAM_EXEC, ARGV("probe", "signal"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(harness_send(harness, MESSAGE_KILL, &(struct message_kill){9, 1, 20000}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->signal == 15 && !harness->has_other_quiesced);
}

ON_EVERY_ENGINE(an_exec_that_cannot_be_says_why)
{
    CHECK(set_up(harness));
    CHECK(run_exec(harness, ARGV("missing")));
    CHECK(harness->has_failed && !harness->has_started && !harness->has_exited);
    CHECK_STR(harness->stage, "exec");
    CHECK_STR(harness->failure, "launch_failed");
    CHECK_STR(harness->text, "missing: No such file or directory");
    /* Nothing of it comes back to haunt the agent. */
    for (int64_t until = time_boot_ms() + 500; time_boot_ms() < until;)
        CHECK(harness_step(harness));
    CHECK(run_exec(harness, ARGV("probe", "exit", "4")));
    CHECK(harness->exit_code == 4);
}

ON_EVERY_ENGINE(a_hundred_execs_leave_nothing)
{
    CHECK(set_up(harness));
    for (int i = 0; i < 100; i++) {
        CHECK(run_exec(harness, ARGV("probe", "exit", "1")));
        CHECK(harness->exit_code == 1);
    }
    CHECK(run_exec(harness, ARGV("probe", "processes")));
    CHECK(has(harness, "processes=2\n"));
}

static bool type(struct harness *harness, const char *text)
{
    struct error err;

    return channel_send_data(&harness->channel, 7, str_of(text), false, &err);
}

ON_EVERY_ENGINE(a_terminal_is_one)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_PTY, ARGV("probe", "terminal"), NULL, ""));
    CHECK(harness_until_text(harness, " leader 1 foreground 1 owner 1000"));
    CHECK(type(harness, "hello\r"));
    CHECK(harness_until_text(harness, "heard hello\r\n"));
    CHECK(type(harness, "\x03"));
    CHECK(harness_until_text(harness, "^Csignal 2 size 80x24"));
    CHECK(harness_send(harness, MESSAGE_RESIZE, &(struct message_resize){9, 1, 100, 40}));
    CHECK(harness_until_text(harness, "signal 28 size 100x40"));
    /* Its terminals know no end of input but in a program that reads single characters. */
    if (harness->engine == ON_GVISOR)
        return;
    CHECK(type(harness, "\x04"));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->exit_code == 3 && harness->stdout_end == harness->out.len);
}

/* The first one waits for its room to be made. */
ON_EVERY_ENGINE(what_is_typed_before_a_terminal_is_there_reaches_it)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_PTY, ARGV("probe", "terminal"), NULL, ""));
    CHECK(type(harness, "early\r"));
    CHECK(harness_until_text(harness, "heard early\r\n"));
}

ON_EVERY_ENGINE(a_terminal_that_is_closed_hangs_up)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_PTY, ARGV("probe", "terminal"), NULL, ""));
    CHECK(harness_until_text(harness, "terminal 1"));
    CHECK(harness_send(harness, MESSAGE_SIGNAL, &(struct message_signal){9, 1, 2}));
    CHECK(harness_until_text(harness, "signal 2"));
    CHECK(harness_send(harness, MESSAGE_KILL, &(struct message_kill){9, 1, 20000}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->exit_code == 9);
}

TEST_MAIN()
