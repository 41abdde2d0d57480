#include "cli/steps.h"

#include <stdio.h>

#include "base/own.h"
#include "base/test.h"

/* Takes in one event given as the inside of its attributes. */
static struct step *tell(struct steps *steps, const char *kind, const char *attributes)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct build_event event;
    char json[1024];

    snprintf(json, sizeof json, "{\"kind\":\"deployment.%s\",\"attributes\":{%s}}", kind,
             attributes);
    if (!build_event_read(str_of(json), &arena, &event))
        return NULL;
    if (strcmp(kind, "build.log") != 0)
        return steps_take(steps, &event, 1000);

    struct step *step = steps_of_output(steps, &event);

    if (step)
        step_add_line(step, event.facts.text);
    return step;
}

static struct step *tell_step(struct steps *steps, const char *image, int index, const char *status)
{
    char text[256];

    snprintf(text, sizeof text,
             "\"phase\":\"image\",\"image\":\"%s\",\"index\":%d,\"total\":3,\"name\":\"RUN %d\","
             "\"status\":\"%s\"",
             image, index, index, status);
    return tell(steps, "build.step", text);
}

/* The labels, one a line. */
static const char *labels(const struct steps *steps, struct arena *arena)
{
    const char *all = "";

    for (size_t i = 0; i < steps->n; i++)
        all = arena_printf(arena, "%s%s\n", all, step_label(steps->items[i], arena));
    return all;
}

TEST(steps_of_one_image_stand_together)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(arena_finish) struct arena arena = {0};

    tell(&steps, "build.step", "\"phase\":\"image\",\"status\":\"started\"");
    tell_step(&steps, "agent", 1, "started");
    tell_step(&steps, "tools", 1, "started");
    tell_step(&steps, "agent", 1, "done");
    tell_step(&steps, "agent", 2, "started");
    tell(&steps, "build.step", "\"phase\":\"load\",\"status\":\"started\"");
    CHECK_STR(labels(&steps, &arena),
              "image\nagent 1/3 RUN 1\nagent 2/3 RUN 2\ntools 1/3 RUN 1\nload\n");
    CHECK(steps.n_images == 2);
}

TEST(an_end_belongs_to_the_step_that_runs)
{
    AUTO(steps_finish) struct steps steps = {0};
    struct step *step = tell_step(&steps, "a", 1, "started");

    CHECK(step && step->state == STEP_RUNNING);
    CHECK(tell(&steps, "build.step",
               "\"phase\":\"image\",\"image\":\"a\",\"index\":1,\"total\":3,\"status\":\"done\","
               "\"ms\":4100") == step);
    CHECK(step->state == STEP_DONE && step->ms == 4100);
    CHECK(tell_step(&steps, "a", 2, "cached")->state == STEP_CACHED);
    CHECK(steps.n == 2);
}

TEST(without_image_names_the_steps_of_the_second_are_not_those_of_the_first)
{
    AUTO(steps_finish) struct steps steps = {0};
    struct step *first = tell_step(&steps, "", 1, "started");

    tell_step(&steps, "", 1, "done");
    CHECK(tell_step(&steps, "", 1, "started") != first);
    CHECK(steps.n == 2 && first->state == STEP_DONE);
}

TEST(output_goes_to_the_step_of_its_image)
{
    AUTO(steps_finish) struct steps steps = {0};
    struct step *phase = tell(&steps, "build.step", "\"phase\":\"image\",\"status\":\"started\"");
    struct step *agent = tell_step(&steps, "agent", 1, "started");
    struct step *tools = tell_step(&steps, "tools", 1, "started");

    CHECK(tell(&steps, "build.log", "\"phase\":\"image\",\"image\":\"agent\",\"text\":\"a\"") ==
          agent);
    CHECK(tell(&steps, "build.log", "\"phase\":\"image\",\"name\":\"tools\",\"text\":\"t\"") ==
          tools);
    CHECK(tell(&steps, "build.log", "\"phase\":\"image\",\"text\":\"p\"") == phase);
    CHECK(tell(&steps, "build.log", "\"phase\":\"seal\",\"text\":\"s\"") == NULL);
    CHECK_STR(step_last_line(agent), "a");
    CHECK_STR(step_last_line(tools), "t");
}

TEST(only_the_last_forty_lines_are_kept)
{
    AUTO(steps_finish) struct steps steps = {0};
    struct step *step = tell_step(&steps, "a", 1, "started");
    char text[32];

    for (int i = 0; i < 45; i++) {
        snprintf(text, sizeof text, "line %d", i);
        step_add_line(step, str_of(text));
    }
    CHECK_STR(step_last_line(step), "line 44");
    CHECK_STR(step->lines[step->next], "line 5");
}

TEST(no_code_of_a_terminal_is_kept)
{
    static const struct {
        struct str raw;
        const char *clean;
    } rows[] = {
        {STR("\033[1;32mgreen\033[0m done"), "green done"},
        {STR("\033]0;title\007text"),        "text"      },
        {STR("\033]8;;http://x\033\\link"),  "link"      },
        {STR("10%\r50%\r100%"),              "100%"      },
        {STR("windows\r"),                   "windows"   },
        {STR("a\tb"),                        "a       b" },
        {STR("bell\007 \xc2\x9b"
             "31m \xff"),
         "bell? ?31m ?"                                  },
        {STR("\xe2\x80\xae"
             "turned"),
         "?turned"                                       },
        {STR("cut off \033["),               "cut off "  },
        {STR("\033"),                        ""          },
    };
    AUTO(steps_finish) struct steps steps = {0};
    struct step *step = tell_step(&steps, "a", 1, "started");

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(step_add_line(step, rows[i].raw), rows[i].clean);
}

TEST(a_long_line_is_cut_at_a_character)
{
    AUTO(steps_finish) struct steps steps = {0};
    struct step *step = tell_step(&steps, "a", 1, "started");
    char text[3 * 2000];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "\xe6\xbc\xa2"[i % 3];

    size_t len = strlen(step_add_line(step, (struct str){text, sizeof text}));

    CHECK(len > STEP_LINE_MAX - 20 && len <= STEP_LINE_MAX && len % 3 == 0);
}

TEST(the_step_that_failed_is_blamed_and_not_a_parallel_one)
{
    AUTO(steps_finish) struct steps steps = {0};

    tell(&steps, "build.step", "\"phase\":\"image\",\"status\":\"started\"");
    struct step *tools = tell_step(&steps, "tools", 1, "started");
    struct step *agent = tell_step(&steps, "agent", 1, "started");
    tell_step(&steps, "agent", 1, "failed");
    tell(&steps, "build.step", "\"phase\":\"image\",\"status\":\"failed\"");
    CHECK(steps_failed(&steps) == agent);
    CHECK(tools->state == STEP_STOPPED);
}

TEST(a_phase_that_failed_blames_the_only_step_that_was_left)
{
    AUTO(steps_finish) struct steps steps = {0};

    tell(&steps, "build.step", "\"phase\":\"image\",\"status\":\"started\"");
    tell_step(&steps, "a", 1, "cached");
    struct step *step = tell_step(&steps, "a", 2, "started");
    tell(&steps, "build.step", "\"phase\":\"image\",\"status\":\"failed\"");
    CHECK(step->state == STEP_FAILED && steps_failed(&steps) == step);
}

TEST(a_phase_without_steps_is_to_blame_itself)
{
    AUTO(steps_finish) struct steps steps = {0};

    tell(&steps, "build.step", "\"phase\":\"install\",\"status\":\"started\"");
    tell(&steps, "build.log", "\"phase\":\"install\",\"text\":\"npm ERR!\"");
    struct step *step = tell(&steps, "build.step", "\"phase\":\"install\",\"status\":\"failed\"");
    CHECK(step && steps_failed(&steps) == step);
    CHECK_STR(step_last_line(step), "npm ERR!");
}

TEST(a_build_that_starts_again_starts_with_nothing)
{
    AUTO(steps_finish) struct steps steps = {0};

    tell(&steps, "queued", "");
    CHECK(steps.waiting_ms == 1000);
    tell(&steps, "building", "");
    CHECK(steps.waiting_ms == 0);
    tell_step(&steps, "a", 1, "started");
    tell(&steps, "build.requeued", "");
    CHECK(steps.n == 0 && steps.waiting_ms == 1000);
}

TEST(what_is_under_way_when_the_build_fails_was_stopped)
{
    AUTO(steps_finish) struct steps steps = {0};
    struct step *step = tell_step(&steps, "a", 1, "started");

    tell(&steps, "failed", "\"layer\":\"deployment_build\"");
    CHECK(step->state == STEP_STOPPED && !steps_failed(&steps));
}

TEST(what_is_no_event_is_left_alone)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct build_event event;

    CHECK(!build_event_read(STR("{"), &arena, &event));
    CHECK(!build_event_read(STR("{\"kind\":1}"), &arena, &event));
    CHECK(build_event_read(STR("{\"kind\":\"x\",\"cursor\":\"1\",\"more\":{}}"), &arena, &event));
}

TEST_MAIN()
