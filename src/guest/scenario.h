/* For tests: a scenario on every engine and layout that an agent is used with, and what most
 * scenarios do in it.
 */
#pragma once

#include "base/own.h"
#include "base/test.h"
#include "guest/harness.h"

#define ON_EVERY_ENGINE(name)                               \
    static void name(struct harness *harness);              \
    TEST(name##_on_linux_direct)                            \
    {                                                       \
        run_scenario(name, ON_LINUX, SETUP_LAYOUT_DIRECT);  \
    }                                                       \
    TEST(name##_on_linux_layered)                           \
    {                                                       \
        run_scenario(name, ON_LINUX, SETUP_LAYOUT_AGENT);   \
    }                                                       \
    TEST(name##_on_gvisor_direct)                           \
    {                                                       \
        run_scenario(name, ON_GVISOR, SETUP_LAYOUT_DIRECT); \
    }                                                       \
    TEST(name##_on_gvisor_layered)                          \
    {                                                       \
        run_scenario(name, ON_GVISOR, SETUP_LAYOUT_AGENT);  \
    }                                                       \
    TEST(name##_on_runc_direct)                             \
    {                                                       \
        run_scenario(name, ON_RUNC, SETUP_LAYOUT_DIRECT);   \
    }                                                       \
    static void name(struct harness *harness)

static inline void run_scenario(void (*scenario)(struct harness *), enum harness_engine engine,
                                enum setup_layout layout)
{
    AUTO(harness_finish) struct harness harness = {.fd = -1, .process = {.pidfd = -1}};
    struct error err = {0};

    if (harness_obstacle(engine))
        SKIP(harness_obstacle(engine));
    if (!harness_prepare(&harness, engine, layout, &err) || !harness_start(&harness, &err))
        printf("# %s\n", err.text);
    CHECK(!err.text[0]);
    scenario(&harness);
}

static inline bool set_up(struct harness *harness)
{
    struct message_setup setup = harness_setup(harness);

    return harness_send(harness, MESSAGE_SETUP, &setup) &&
           harness_until(harness, &harness->has_setup);
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Runs a command to its end and leaves its output in harness->out as text. */
static inline bool run_command(struct harness *harness, const char *const *argv, const char *user)
{
    struct error err;

    return harness_launch(harness, 1, PROGRAM_STEP, argv, NULL, user) &&
           harness_until(harness, &harness->has_quiesced) &&
           buf_append(&harness->out, (struct str){"", 1}, &err);
}

static inline bool has(const struct harness *harness, const char *text)
{
    if (strstr(harness->out.bytes, text))
        return true;
    printf("# not in the output: %s\n# the output: %.2000s\n# failure %s %s\n", text,
           harness->out.bytes, harness->failure, harness->text);
    return false;
}

static inline bool is_in_image(const struct harness *harness, const char *path)
{
    char full[512];

    snprintf(full, sizeof full, "%s/image/%s", harness->folder, path);
    return access(full, F_OK) == 0;
}
