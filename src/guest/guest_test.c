#include "base/hash.h"
#include "base/own.h"
#include "guest/scenario.h"

ON_EVERY_ENGINE(a_command_runs_and_its_end_is_told)
{
    CHECK(set_up(harness));
    CHECK(harness->uid == 1000 && harness->gid == 1001);
    CHECK_STR(harness->home, "/home/ann");
    CHECK(run_command(harness, ARGV("probe", "exit", "3"), ""));
    CHECK(harness->has_started && harness->has_exited);
    CHECK(harness->exit_code == 3 && harness->signal == 0);
    CHECK(harness->stdout_end == 0 && harness->stderr_end == 0);
}

ON_EVERY_ENGINE(a_program_sees_its_user_environment_and_directory)
{
    CHECK(set_up(harness));
    CHECK(run_command(harness, ARGV("probe", "show"), ""));
    CHECK(has(harness, "uid=1000 gid=1001 groups= 70\n"));
    CHECK(has(harness, "cwd=/workspace\n"));
    CHECK(has(harness, "host=helmr-sandbox\n"));
    CHECK(has(harness, "pid=2\n"));
    CHECK(has(harness, "env COLOUR=blue\n"));
    CHECK(has(harness, "env PATH=/usr/local/bin:/usr/bin:/bin\n"));
    CHECK(has(harness, "env HOME=/home/ann\n"));
    CHECK(has(harness, "env USER=ann\n"));
    CHECK(has(harness, "env PWD=/workspace\n"));
    CHECK(!strstr(harness->out.bytes, "LD_PRELOAD"));
    CHECK(!strstr(harness->out.bytes, "HELMR_"));
}

ON_EVERY_ENGINE(a_launch_may_name_another_user)
{
    CHECK(set_up(harness));
    CHECK(run_command(harness, ARGV("probe", "show"), "7:wheel"));
    CHECK(has(harness, "uid=7 gid=70 groups=\n"));
}

static bool reads(struct harness *harness, const char *path, const char *text)
{
    harness->has_quiesced = false;
    harness->out.len = 0;
    return run_command(harness, ARGV("probe", "cat", path), "root") && has(harness, text);
}

ON_EVERY_ENGINE(the_files_of_the_contract_are_there)
{
    CHECK(set_up(harness));
    CHECK(reads(harness, "/etc/hostname", "helmr-sandbox\n"));
    CHECK(reads(harness, "/etc/hosts", "127.0.0.1 localhost\n"));
    CHECK(reads(harness, "/etc/hosts", "helmr-sandbox\n"));
    CHECK(reads(harness, "/etc/resolv.conf", "nameserver 198.18.0.1\n"));
    CHECK(reads(harness, "/etc/machine-id", "0123456789abcdef0123456789abcdef\n"));
    CHECK(reads(harness, "/opt/helmr/task/task.js", "the task\n"));
    CHECK(reads(harness, "/workspace/from-image", "below\n"));
    CHECK(reads(harness, "/proc/self/status", "Name:"));
}

ON_EVERY_ENGINE(dev_holds_what_programs_expect)
{
    static const char *const names[] = {"null 20666",    "zero 20666",    "full 20666",
                                        "random 20666",  "urandom 20666", "tty 20666",
                                        "fd 120777",     "stdin 120777",  "stdout 120777",
                                        "stderr 120777", "ptmx 120777",   "pts 40",
                                        "shm 41777"};

    CHECK(set_up(harness));
    CHECK(run_command(harness, ARGV("probe", "list", "/dev"), ""));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK(has(harness, names[i]));
}

ON_EVERY_ENGINE(only_what_is_the_users_can_be_written)
{
    CHECK(set_up(harness));
    CHECK(run_command(harness,
                      ARGV("probe", "write", "/workspace/new", "/tmp/new", "/dev/null",
                           "/dev/shm/new", "/etc/new", "/opt/helmr/task/new",
                           "/opt/helmr/adapter/new"),
                      ""));
    CHECK(has(harness, "/workspace/new written\n"));
    CHECK(has(harness, "/tmp/new written\n"));
    CHECK(has(harness, "/dev/null written\n"));
    CHECK(has(harness, "/dev/shm/new written\n"));
    CHECK(has(harness, "/etc/new refused\n"));
    CHECK(has(harness, "/opt/helmr/task/new refused\n"));
    CHECK(has(harness, "/opt/helmr/adapter/new refused\n"));
}

ON_EVERY_ENGINE(two_programs_do_not_see_each_other)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "signal"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(harness_launch(harness, 2, PROGRAM_STEP, ARGV("probe", "zombies", "3"), NULL, "root"));
    CHECK(harness_until(harness, &harness->has_other_quiesced));
    CHECK(str_equal(buf_str(&harness->other_out), STR("left=2\n")));

    /* The first one's /proc is still its own, and so is that of the next. */
    CHECK(harness_send(harness, MESSAGE_SIGNAL, &(struct message_signal){9, 1, 12}));
    CHECK(harness_until_text(harness, "left=2\n"));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(reads(harness, "/proc/2/cmdline", "probe"));
}

ON_EVERY_ENGINE(a_root_that_climbs_out_finds_nothing_of_the_agent)
{
    CHECK(set_up(harness));
    CHECK(run_command(harness, ARGV("probe", "climb"), "root"));
    CHECK(harness->exit_code == 0);
    CHECK(strstr(harness->out.bytes, "processes=0 scratch=0\n") ||
          has(harness, "processes=2 scratch=0\n"));
}

static bool is_pattern(struct str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.ptr[i] != (char)(i % 251))
            return false;
    }
    return true;
}

ON_EVERY_ENGINE(twenty_megabytes_survive_a_host_that_withholds_credit)
{
    CHECK(set_up(harness));
    harness->keeps_credit = true;
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "print", "20000000"), NULL, ""));
    CHECK(harness_until(harness, &harness->has_started));

    /* Another program and the control stream go on while this one is held up. */
    CHECK(harness_launch(harness, 2, PROGRAM_STEP, ARGV("probe", "show"), NULL, ""));
    CHECK(harness_until(harness, &harness->has_other_quiesced));
    CHECK(harness->out.len <= CHANNEL_WINDOW);

    for (int turns = 0; !harness->has_quiesced && turns < 20000; turns++) {
        CHECK(harness_step(harness));
        CHECK(harness->kept <= CHANNEL_WINDOW);
        if (harness->kept == CHANNEL_WINDOW || harness->has_exited)
            CHECK(harness_credit(harness));
    }
    CHECK(harness->stdout_end == 20000000 && harness->out.len == 20000000);
    CHECK(is_pattern(buf_str(&harness->out)));
}

ON_EVERY_ENGINE(a_kill_leaves_nothing_of_orphans_that_ignore_it)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "orphans"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(harness_send(harness, MESSAGE_KILL, &(struct message_kill){9, 1, 100}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->has_exited && harness->signal == 9);
    CHECK(harness->stdout_end == harness->out.len);
}

ON_EVERY_ENGINE(children_left_behind_end_with_the_main_process)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "orphans"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(harness_send(harness, MESSAGE_SIGNAL, &(struct message_signal){9, 1, 9}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->signal == 9 && harness->stdout_end == harness->out.len);
}

ON_EVERY_ENGINE(the_init_reaps_orphans)
{
    CHECK(set_up(harness));
    CHECK(run_command(harness, ARGV("probe", "zombies", "50"), ""));
    CHECK(has(harness, "left=2\n"));
}

ON_EVERY_ENGINE(a_signal_reaches_the_main_process)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "signal"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(harness_send(harness, MESSAGE_SIGNAL, &(struct message_signal){9, 1, 10}));
    CHECK(harness_until_text(harness, "signal 10\n"));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->exit_code == 0 && harness->signal == 0);
}

ON_EVERY_ENGINE(input_arrives_whole_and_ends)
{
    static char much[1 << 20];
    struct error err;

    for (size_t i = 0; i < sizeof much; i++)
        much[i] = (char)(i % 251);
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_EXEC, ARGV("probe", "input"), NULL, ""));
    for (size_t at = 0; at < sizeof much;) {
        size_t room = channel_send_room(&harness->channel, 7), left = sizeof much - at;
        size_t len = left < room ? left : room;
        CHECK(channel_send_data(&harness->channel, 7, (struct str){much + at, len}, len == left,
                                &err));
        at += len;
        CHECK(harness_step(harness));
    }
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->out.len == sizeof much && is_pattern(buf_str(&harness->out)));
}

ON_EVERY_ENGINE(a_command_that_is_not_there_fails_the_launch)
{
    CHECK(set_up(harness));
    CHECK(run_command(harness, ARGV("missing"), ""));
    CHECK(harness->has_failed && !harness->has_started && !harness->has_exited);
    CHECK_STR(harness->stage, "exec");
    CHECK_STR(harness->failure, "launch_failed");
    CHECK_STR(harness->text, "missing: No such file or directory");
    CHECK(harness->out.len == 1 && harness->err.len == 0);
}

ON_EVERY_ENGINE(a_user_the_image_does_not_know_fails_the_launch)
{
    CHECK(set_up(harness));
    CHECK(run_command(harness, ARGV("probe", "show"), "nobody"));
    CHECK(harness->has_failed && !harness->has_started);
    CHECK_STR(harness->failure, "image_root_invalid");
}

/* Launches a task and answers STARTED with its release. */
static bool run_task(struct harness *harness, const char *options, struct str payload)
{
    AUTO(buf_finish) struct buf start = {.max = 65536};
    struct message_a_start fields = {.mode = STR("run"),
                                     .options = str_of(options),
                                     .payload_len = payload.len};
    struct error err;

    if (!harness_launch(harness, 1, PROGRAM_TASK, ARGV("node", "main.js"), NULL, "") ||
        !harness_until(harness, &harness->has_started) ||
        !message_encode(MESSAGE_A_START, &fields, &start, &err))
        return false;
    struct message_release release = {.id = 5,
                                      .program = 1,
                                      .start = buf_str(&start),
                                      .payload_len = payload.len};
    if (payload.len) {
        release.payload_stream = 9;
        if (!channel_open_stream(&harness->channel, 9, CHANNEL_SENDS, &err))
            return false;
    }
    if (!harness_send(harness, MESSAGE_RELEASE, &release))
        return false;
    while (payload.len) {
        size_t room = channel_send_room(&harness->channel, 9);
        size_t len = payload.len < room ? payload.len : room;
        if (!channel_send_data(&harness->channel, 9, (struct str){payload.ptr, len},
                               len == payload.len, &err) ||
            !harness_step(harness))
            return false;
        payload = (struct str){payload.ptr + len, payload.len - len};
    }
    return true;
}

ON_EVERY_ENGINE(a_task_gets_its_payload_and_returns_its_output)
{
    static char payload[3 << 20];

    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (char)(i % 251);
    CHECK(set_up(harness));
    CHECK(run_task(harness, "", (struct str){payload, sizeof payload}));
    CHECK_STR(harness->node_version, "v24.1.0");
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->has_loaded && harness->has_outcome);
    CHECK(harness->outcome_kind == OUTCOME_SUCCEEDED);
    CHECK(str_equal(buf_str(&harness->log), STR("loaded")));
    CHECK(harness->output.len == sizeof payload && is_pattern(buf_str(&harness->output)));
}

ON_EVERY_ENGINE(a_task_that_throws_is_told_apart)
{
    CHECK(set_up(harness));
    CHECK(run_task(harness, "fail", (struct str){0}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->outcome_kind == OUTCOME_FAILED);
    CHECK_STR(harness->error_name, "TypeError");
}

ON_EVERY_ENGINE(a_task_that_exits_has_an_exit_code_and_no_outcome)
{
    CHECK(set_up(harness));
    CHECK(run_task(harness, "exit", (struct str){0}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(!harness->has_outcome && harness->has_exited && harness->exit_code == 7);
}

ON_EVERY_ENGINE(a_cancel_reaches_the_adapter)
{
    CHECK(set_up(harness));
    CHECK(run_task(harness, "cancel", STR("{}")));
    CHECK(harness_until(harness, &harness->has_loaded));
    struct message_cancel cancel = {.id = 6, .program = 1, .reason = STR("asked"), .grace_ms = 1};
    CHECK(harness_send(harness, MESSAGE_CANCEL, &cancel));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->outcome_kind == OUTCOME_SUCCEEDED && harness->output.len == 2);
}

ON_EVERY_ENGINE(an_adapter_that_breaks_the_protocol_fails_alone)
{
    CHECK(set_up(harness));
    CHECK(run_task(harness, "garbage", (struct str){0}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->outcome_kind == OUTCOME_FAILED);
    CHECK_STR(harness->error_name, "ProtocolError");
    CHECK(!harness->is_closed);
}

static bool fails_to_start(struct harness *harness, const char *const *env)
{
    return harness_launch(harness, 1, PROGRAM_TASK, ARGV("node", "main.js"), env, "") &&
           harness_until(harness, &harness->has_quiesced) && harness->has_failed &&
           !harness->has_started;
}

ON_EVERY_ENGINE(an_image_without_node_is_an_image_failure)
{
    CHECK(set_up(harness));
    CHECK(fails_to_start(harness, ARGV("PATH=/bin")));
    CHECK_STR(harness->failure, "node_missing");
}

ON_EVERY_ENGINE(an_old_node_is_an_image_failure)
{
    CHECK(set_up(harness));
    CHECK(fails_to_start(harness, ARGV("PLAY_VERSION=v22.17.9")));
    CHECK_STR(harness->failure, "node_too_old");
}

ON_EVERY_ENGINE(a_node_too_old_for_our_options_is_an_image_failure)
{
    CHECK(set_up(harness));
    CHECK(fails_to_start(harness, ARGV("PLAY_EXIT=9")));
    CHECK_STR(harness->failure, "node_too_old");
}

ON_EVERY_ENGINE(a_mount_path_through_a_link_is_refused)
{
    struct message_setup setup = harness_setup(harness);
    setup.mount = STR("/link/work");
    CHECK(harness_send(harness, MESSAGE_SETUP, &setup));
    CHECK(harness_until(harness, &harness->has_error));
    CHECK_STR(harness->failure, "unsafe_path");
}

ON_EVERY_ENGINE(a_shutdown_ends_everything)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "orphans"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(harness_send(harness, MESSAGE_SHUTDOWN, &(struct message_shutdown){3, 1000}));
    CHECK(harness_until(harness, &harness->has_done));
    CHECK(harness->has_quiesced);

    struct error err;
    int status;
    CHECK(process_wait(&harness->process, 20000, &status, &err));
    CHECK(status == 0);
}

static void a_layer_keeps_nothing_of_ours(struct harness *harness)
{
    struct message_setup setup = harness_setup(harness);

    setup.is_layer = 1;
    setup.mount = (struct str){0};
    setup.user = STR("root");
    CHECK(harness_send(harness, MESSAGE_SETUP, &setup));
    CHECK(harness_until(harness, &harness->has_setup));
    CHECK(reads(harness, "/etc/resolv.conf", "nameserver 198.18.0.1\n"));
    CHECK(reads(harness, "/opt/helmr/task/task.js", "the task\n"));
    harness->has_quiesced = false;
    CHECK(run_command(harness, ARGV("probe", "write", "/etc/made-by-the-step"), ""));
    CHECK(harness_send(harness, MESSAGE_SHUTDOWN, &(struct message_shutdown){3, 1000}));
    CHECK(harness_until(harness, &harness->has_done));
    CHECK(is_in_image(harness, "etc/made-by-the-step") && is_in_image(harness, "tmp"));
    CHECK(!is_in_image(harness, "etc/hostname") && !is_in_image(harness, "etc/resolv.conf"));
    CHECK(!is_in_image(harness, "proc") && !is_in_image(harness, "dev"));
    CHECK(!is_in_image(harness, "sys") && !is_in_image(harness, "opt"));
    CHECK(!is_in_image(harness, "run"));
}

TEST(a_layer_keeps_nothing_of_ours_on_linux)
{
    run_scenario(a_layer_keeps_nothing_of_ours, ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST(a_layer_keeps_nothing_of_ours_on_gvisor)
{
    run_scenario(a_layer_keeps_nothing_of_ours, ON_GVISOR, SETUP_LAYOUT_DIRECT);
}

TEST_MAIN()
