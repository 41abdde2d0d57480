/* Apart from the other tests of the agent, because the agent waits fifteen seconds. */
#include "base/own.h"
#include "base/test.h"
#include "guest/harness.h"

static bool start_orphans(struct harness *harness)
{
    static const char *const argv[] = {"probe", "orphans", NULL};
    struct message_setup setup = harness_setup(harness);

    return harness_send(harness, MESSAGE_SETUP, &setup) &&
           harness_until(harness, &harness->has_setup) &&
           harness_launch(harness, 1, PROGRAM_STEP, argv, NULL, "") &&
           harness_until_text(harness, "ready\n");
}

static void fall_silent(enum harness_engine engine, enum setup_layout layout)
{
    AUTO(harness_finish) struct harness harness = {.fd = -1, .process = {.pidfd = -1}};
    struct error err = {0};

    if (harness_obstacle(engine))
        SKIP(harness_obstacle(engine));
    if (!harness_prepare(&harness, engine, layout, &err) || !harness_start(&harness, &err))
        printf("# %s\n", err.text);
    CHECK(!err.text[0]);
    CHECK(start_orphans(&harness));
    CHECK(harness_send(&harness, MESSAGE_PING, &(struct message_ping){1, 50}));

    /* The program wrote every few milliseconds. Turns of 100 ms without a byte are its freeze. */
    int quiet = 0;
    while (quiet < 10 && !harness.is_closed) {
        size_t before = harness.out.len;
        CHECK(harness_step(&harness));
        quiet = harness.out.len == before ? quiet + 1 : 0;
    }
    size_t frozen_at = harness.out.len;
    CHECK(quiet == 10);
    CHECK(harness_until(&harness, &harness.is_closed));
    CHECK(harness.out.len == frozen_at && !harness.has_quiesced);
}

TEST(a_silent_host_freezes_and_ends_the_sandbox_on_linux)
{
    fall_silent(ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST(a_silent_host_freezes_and_ends_the_sandbox_on_gvisor)
{
    fall_silent(ON_GVISOR, SETUP_LAYOUT_AGENT);
}

TEST_MAIN()
