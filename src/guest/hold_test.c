/* A sandbox that is held for a moment: everything in it stands still, is read, and goes on. */
#include "base/time.h"
#include "guest/park_scenario.h"
#include "protocol/tree.h"

enum { LONG_MS = 60000, SHORT_MS = 300 };

static bool ask_hold(struct harness *harness, uint64_t ms)
{
    harness->is_held = false;
    return harness_send(harness, MESSAGE_HOLD, &(struct message_hold){80, ms});
}

static bool hold(struct harness *harness, uint64_t ms)
{
    return ask_hold(harness, ms) && harness_until(harness, &harness->is_held);
}

static bool let_go(struct harness *harness)
{
    harness->has_gone_on = false;
    return harness_send(harness, MESSAGE_LET_GO, &(struct message_let_go){81}) &&
           harness_until(harness, &harness->has_gone_on);
}

static bool ask_capture(struct harness *harness)
{
    struct error err;

    harness->has_captured = false;
    harness->tree.len = 0;
    return (channel_is_open(&harness->channel, 21, CHANNEL_RECEIVES) ||
            channel_open_tree(&harness->channel, 21, CHANNEL_RECEIVES, &err)) &&
           harness_send(harness, MESSAGE_CAPTURE, &(struct message_capture){60, 21, 7});
}

static bool capture(struct harness *harness)
{
    return ask_capture(harness) && harness_until(harness, &harness->has_captured);
}

static bool start_ticking(struct harness *harness)
{
    return set_up(harness) &&
           harness_launch(harness, 1, PROGRAM_EXEC, ARGV("probe", "tick"), NULL, "") &&
           harness_until_text(harness, "tick T\n");
}

/* What is in the pipe already may come; then nothing more does. */
static bool is_silent(struct harness *harness)
{
    size_t len = harness->out.len;

    for (int quiet = 0; quiet < 3; len = harness->out.len) {
        if (!harness_step(harness))
            return false;
        quiet = harness->out.len == len ? quiet + 1 : 0;
        if (harness->out.len > len + 65536)
            return false;
    }
    return true;
}

static bool goes_on(struct harness *harness)
{
    size_t len = harness->out.len;
    int64_t until = time_boot_ms() + 30000;

    while (harness->out.len == len && time_boot_ms() < until)
        if (!harness_step(harness))
            return false;
    return harness->out.len > len;
}

ON_EVERY_ENGINE(programs_of_a_room_stand_still_and_go_on)
{
    CHECK(start_ticking(harness));
    for (int round = 0; round < 2; round++) {
        CHECK(hold(harness, LONG_MS));
        CHECK(harness->held.processes == 2);
        CHECK(is_silent(harness));
        CHECK(let_go(harness) && goes_on(harness));
    }
    /* The child was stopped by somebody else, before: it still is. */
    harness->out.len = 0;
    CHECK(harness_until_text(harness, "tick T\ntick T\n"));
}

TEST(programs_of_a_room_stand_still_and_go_on_in_a_machine)
{
    run_scenario(programs_of_a_room_stand_still_and_go_on, ON_MACHINE, SETUP_LAYOUT_AGENT);
}

static void capture_room(struct harness *harness)
{
    CHECK(start_ticking(harness));
    CHECK(ask_capture(harness) && is_refused(harness, "invalid_request"));
    CHECK(hold(harness, LONG_MS) && capture(harness));
    uint64_t bytes = harness->captured.bytes;
    CHECK(harness->captured.entries == 1 && bytes > 0);
    /* Whatever time passes, it is the same. */
    CHECK(is_silent(harness) && capture(harness));
    CHECK(harness->captured.bytes == bytes);
    CHECK(let_go(harness) && goes_on(harness));
    CHECK(hold(harness, LONG_MS) && capture(harness));
    CHECK(harness->captured.bytes > bytes);
    CHECK(let_go(harness) && goes_on(harness));
}

TEST(a_room_that_stands_still_can_be_captured_on_linux)
{
    run_scenario(capture_room, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(a_room_that_stands_still_can_be_captured_on_gvisor)
{
    run_scenario(capture_room, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST(a_room_that_stands_still_can_be_captured_in_a_machine)
{
    run_scenario(capture_room, ON_MACHINE, SETUP_LAYOUT_AGENT);
}

/* A process that an exec left behind belongs to no program any more. */
static void capture_what_was_left(struct harness *harness)
{
    CHECK(set_up(harness));
    CHECK(harness_launch(harness, 1, PROGRAM_EXEC, ARGV("probe", "leave"), NULL, ""));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(ask_capture(harness) && is_refused(harness, "invalid_request"));
    CHECK(hold(harness, LONG_MS));
    CHECK(harness->held.processes == 1);
    CHECK(capture(harness) && let_go(harness));
}

TEST(what_a_command_left_behind_is_held_too)
{
    run_scenario(capture_what_was_left, ON_LINUX, SETUP_LAYOUT_AGENT);
}

ON_EVERY_ENGINE(a_sandbox_that_nobody_lets_go_goes_on_by_itself)
{
    CHECK(start_ticking(harness));
    CHECK(hold(harness, SHORT_MS) && goes_on(harness) && goes_on(harness));
    CHECK(ask_capture(harness) && is_refused(harness, "invalid_request"));
    CHECK(let_go(harness) && goes_on(harness));
}

static void end_capture(struct harness *harness)
{
    CHECK(start_ticking(harness) && hold(harness, LONG_MS));
    CHECK(ask_capture(harness) &&
          harness_send(harness, MESSAGE_LET_GO, &(struct message_let_go){81}));
    CHECK(is_refused(harness, "capture_failed"));
    CHECK(!harness->has_captured && goes_on(harness));
    CHECK(hold(harness, LONG_MS) && capture(harness) && let_go(harness));
}

TEST(a_capture_ends_with_the_hold_it_was_made_under)
{
    run_scenario(end_capture, ON_LINUX, SETUP_LAYOUT_AGENT);
}

ON_EVERY_ENGINE(nothing_begins_in_a_sandbox_that_is_held)
{
    CHECK(start_ticking(harness) && hold(harness, LONG_MS));
    CHECK(ask_hold(harness, LONG_MS) && is_refused(harness, "hold_failed"));
    CHECK(harness_launch(harness, 2, PROGRAM_EXEC, ARGV("probe", "signal"), NULL, ""));
    CHECK(is_refused(harness, "invalid_request"));
    CHECK(is_silent(harness) && let_go(harness) && goes_on(harness));
}

ON_EVERY_ENGINE(the_end_of_a_room_does_not_wait_for_a_hold)
{
    CHECK(start_ticking(harness) && hold(harness, LONG_MS));
    CHECK(harness_send(harness, MESSAGE_KILL, &(struct message_kill){9, 0, 20000}));
    CHECK(harness_until(harness, &harness->has_room_ended));
    CHECK(harness->has_exited && harness->signal > 0);
    CHECK(let_go(harness));
}

ON_EVERY_ENGINE(a_sandbox_without_programs_is_held_at_once)
{
    CHECK(set_up(harness));
    CHECK(hold(harness, LONG_MS));
    CHECK(harness->held.processes == 0);
    CHECK(let_go(harness));
}

/* No barrier: a task that would not come to one is held as well. */
ON_EVERY_ENGINE(a_task_is_held_without_being_asked)
{
    CHECK(start_waiting(harness, "park deaf"));
    CHECK(harness_until_text(harness, "tick\n"));
    CHECK(hold(harness, LONG_MS));
    CHECK(harness->held.processes == 3);
    CHECK(is_silent(harness));
    CHECK(ask_freeze(harness, 5000) && is_refused(harness, "invalid_request"));
    CHECK(let_go(harness) && goes_on(harness));
    CHECK(answer(harness));
    CHECK(has(harness, "result {\"condition\":\"completed\"} stopped=T"));
}

static void capture_task(struct harness *harness)
{
    CHECK(start_waiting(harness, "park write"));
    CHECK(hold(harness, LONG_MS) && capture(harness));
    CHECK(harness->captured.entries == 9 && harness->captured.bytes == 1000006);
    CHECK(let_go(harness) && freeze(harness));
    /* One that is frozen stays so. */
    CHECK(hold(harness, LONG_MS) && capture(harness));
    CHECK(harness->captured.entries == 9);
    CHECK(let_go(harness) && capture(harness));
    CHECK(thaw(harness) && answer(harness));
    CHECK(has(harness, "result "));
}

TEST(a_task_that_is_held_can_be_captured_on_linux)
{
    run_scenario(capture_task, ON_LINUX, SETUP_LAYOUT_AGENT);
}

TEST(a_task_that_is_held_can_be_captured_on_gvisor)
{
    run_scenario(capture_task, ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST_MAIN()
