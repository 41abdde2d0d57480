/* What an adapter is asked to do ahead, while it waits for its release. */
#include "guest/scenario.h"

static bool launch(struct harness *harness)
{
    return set_up(harness) &&
           harness_launch(harness, 1, PROGRAM_TASK, ARGV("node", "main.js"), NULL, "") &&
           harness_until(harness, &harness->has_started);
}

static bool ask(struct harness *harness, const char *module)
{
    struct message_preload message = {.id = 9,
                                      .program = 1,
                                      .module = str_of(module),
                                      .workspace_path = STR("/workspace")};

    harness->has_preloaded = false;
    return harness_send(harness, MESSAGE_PRELOAD, &message);
}

static bool release(struct harness *harness)
{
    AUTO(buf_finish) struct buf start = {.max = 65536};
    struct message_a_start fields = {.mode = STR("run"), .options = STR("exit")};
    struct error err;

    if (!message_encode(MESSAGE_A_START, &fields, &start, &err))
        return false;
    struct message_release message = {.id = 5, .program = 1, .start = buf_str(&start)};
    return harness_send(harness, MESSAGE_RELEASE, &message);
}

static void a_preload_is_answered_and_the_release_follows(struct harness *harness)
{
    CHECK(launch(harness) && ask(harness, "") && harness_until(harness, &harness->has_preloaded));
    CHECK(harness->is_preloaded);
    CHECK_STR(harness->text, "/workspace");

    CHECK(ask(harness, "throws") && harness_until(harness, &harness->has_preloaded));
    CHECK(!harness->is_preloaded && harness->n_preloaded == 2);

    CHECK(release(harness) && harness_until(harness, &harness->has_quiesced));
    CHECK(harness->has_loaded && harness->exit_code == 7);
}

static void a_release_does_not_overtake_a_preload(struct harness *harness)
{
    CHECK(launch(harness) && ask(harness, "never") && release(harness));
    CHECK(harness_until(harness, &harness->has_error));
    CHECK_STR(harness->stage, "release");
    CHECK(!harness->has_loaded);

    harness->has_error = false;
    CHECK(ask(harness, "") && harness_until(harness, &harness->has_error));
    CHECK_STR(harness->stage, "preload");
}

static void a_released_program_is_not_preloaded(struct harness *harness)
{
    CHECK(launch(harness) && release(harness) && ask(harness, ""));
    CHECK(harness_until(harness, &harness->has_error));
    CHECK_STR(harness->stage, "preload");
    harness->has_error = false;
    CHECK(harness_until(harness, &harness->has_quiesced) && harness->n_preloaded == 0);
}

static void an_answer_that_nobody_asked_for_ends_the_program(struct harness *harness)
{
    CHECK(launch(harness) && ask(harness, "twice"));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(harness->n_preloaded == 1 && harness->outcome_kind == OUTCOME_FAILED);
    CHECK_STR(harness->error_name, "ProtocolError");
}

TEST(a_preload_is_answered)
{
    run_scenario(a_preload_is_answered_and_the_release_follows, ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST(a_release_waits_for_the_preload)
{
    run_scenario(a_release_does_not_overtake_a_preload, ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST(after_the_release_there_is_no_preload)
{
    run_scenario(a_released_program_is_not_preloaded, ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST(an_answer_without_a_question_breaks_the_protocol)
{
    run_scenario(an_answer_that_nobody_asked_for_ends_the_program, ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST_MAIN()
