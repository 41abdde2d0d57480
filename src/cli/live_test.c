#include "cli/live.h"

#include <stdio.h>

#include "base/glyph.h"
#include "base/own.h"
#include "base/test.h"

static struct step *tell(struct steps *steps, const char *image, int index, int total,
                         const char *name, const char *status, int64_t now_ms)
{
    const struct build_event event = {
        .kind = STR("deployment.build.step"),
        .facts = {.phase = STR("image"),
                  .image = str_of(image),
                  .name = str_of(name),
                  .status = str_of(status),
                  .index = index,
                  .total = total,
                  .ms = 4100,
                  .has_ms = true},
    };

    return steps_take(steps, &event, now_ms);
}

/* The screen as text, ended by NUL. */
static bool render(const struct steps *steps, const struct live_view *view, struct buf *out)
{
    struct error err;

    out->len = 0;
    return live_render(steps, view, out, &err) && buf_append(out, (struct str){"", 1}, &err);
}

static bool fits(const char *text, size_t columns, size_t rows)
{
    struct str rest = str_of(text), line;
    size_t n = 0;

    for (; rest.len > 0 && str_split(&rest, '\n', &line); n++) {
        if (glyph_width(line) > columns)
            return false;
    }
    return n <= rows;
}

TEST(a_step_shows_its_marker_its_text_and_its_time)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    const struct live_view view = {.columns = 41, .rows = 10, .now_ms = 12300};

    tell(&steps, "agent", 1, 3, "FROM node:24", "cached", 1000);
    tell(&steps, "agent", 2, 3, "RUN npm install", "done", 1000);
    step_add_line(tell(&steps, "agent", 3, 3, "RUN make", "started", 10000), STR("cc main.c"));
    CHECK(render(&steps, &view, &out));
    CHECK(strstr(out.bytes, "+ agent 1/3 FROM node:24          cached\n"));
    CHECK(strstr(out.bytes, "+ agent 2/3 RUN npm install        4.1 s\n"));
    CHECK(strstr(out.bytes, " agent 3/3 RUN make               2.3 s\n    cc main.c\n"));
}

TEST(long_times_are_told_in_minutes)
{
    AUTO(arena_finish) struct arena arena = {0};

    CHECK_STR(live_time(0, &arena), "0.0 s");
    CHECK_STR(live_time(-5, &arena), "0.0 s");
    CHECK_STR(live_time(59949, &arena), "59.9 s");
    CHECK_STR(live_time(724000, &arena), "12 min 04 s");
}

TEST(wide_letters_are_cut_by_their_columns)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    char name[300] = "";

    for (size_t i = 0; i < 90; i++)
        memcpy(name + 3 * i, "\xe6\xbc\xa2", 4);
    step_add_line(tell(&steps, "a", 1, 1, name, "started", 0), str_of(name));
    for (size_t columns = 1; columns <= 120; columns++) {
        const struct live_view view = {.columns = columns, .rows = 10, .is_utf8 = true};

        CHECK(render(&steps, &view, &out));
        CHECK(fits(out.bytes, columns > 1 ? columns - 1 : 1, 9));
    }
}

TEST(twenty_columns_are_enough)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    const struct live_view view = {.columns = 20, .rows = 10, .is_utf8 = true};

    tell(&steps, "agent", 1, 3, "RUN npm install -g bun@1.3.10", "done", 0);
    CHECK(render(&steps, &view, &out));
    CHECK_STR(out.bytes, "\xe2\x9c\x93 agent 1/3 \xe2\x80\xa6 4.1 s\n");
}

TEST(a_screen_that_does_not_say_its_size_is_an_ordinary_one)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    const struct live_view view = {.is_utf8 = true};

    for (int i = 1; i <= 50; i++)
        tell(&steps, "a", i, 50, "RUN a command of no importance whatever", "started", 0);
    CHECK(render(&steps, &view, &out));
    CHECK(fits(out.bytes, 79, 23) && strchr(out.bytes, '\n'));
}

TEST(a_hundred_steps_fit_into_ten_rows)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    const struct live_view view = {.columns = 60, .rows = 10};

    for (int i = 1; i <= 97; i++)
        tell(&steps, "a", i, 100, "RUN x", "done", 0);
    for (int i = 98; i <= 100; i++)
        step_add_line(tell(&steps, "a", i, 100, "RUN x", "started", 0), STR("said"));
    CHECK(render(&steps, &view, &out));
    CHECK(fits(out.bytes, 59, 9));
    CHECK(strstr(out.bytes, "+ 95 done\n") == out.bytes);
    CHECK(strstr(out.bytes, "a 97/100") && strstr(out.bytes, "a 98/100"));
    CHECK(strstr(out.bytes, "a 100/100 RUN x") && strstr(out.bytes, "    said\n"));
}

TEST(every_height_is_kept_to)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};

    for (int i = 1; i <= 20; i++)
        step_add_line(tell(&steps, "a", i, 40, "RUN x", i % 2 ? "done" : "started", 0), STR("l"));
    for (size_t rows = 1; rows < 50; rows++) {
        const struct live_view view = {.columns = 60, .rows = rows};

        CHECK(render(&steps, &view, &out));
        CHECK(fits(out.bytes, 59, rows - 1));
        CHECK(rows < 2 || strchr(out.bytes, '\n'));
    }
}

TEST(what_stays_is_everything_without_output)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    const struct live_view view = {.columns = 60, .rows = 5, .is_last = true};

    for (int i = 1; i <= 30; i++)
        tell(&steps, "a", i, 31, "RUN x", "done", 0);
    step_add_line(tell(&steps, "a", 31, 31, "RUN x", "started", 0), STR("said"));
    CHECK(render(&steps, &view, &out));
    CHECK(live_rows(str_of(out.bytes), 60) == 31);
    CHECK(!strstr(out.bytes, "said") && strstr(out.bytes, "* a 31/31"));
}

TEST(a_failure_is_red_only_where_colours_are_wanted)
{
    AUTO(steps_finish) struct steps steps = {0};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    struct live_view view = {.columns = 60, .rows = 5, .has_colour = true};

    tell(&steps, "a", 1, 2, "RUN false", "failed", 0);
    tell(&steps, "b", 1, 2, "RUN true", "started", 0);
    CHECK(render(&steps, &view, &out));
    CHECK(strstr(out.bytes, "\033[31mx\033[0m \033[31ma 1/2 RUN false"));
    CHECK(strstr(out.bytes, "failed after 4.1 s\033[0m\n"));
    CHECK(live_rows(str_of(out.bytes), 60) == 2);
    view.has_colour = false;
    CHECK(render(&steps, &view, &out));
    CHECK(!strchr(out.bytes, '\033') && strstr(out.bytes, "x a 1/2 RUN false"));
}

TEST(lines_fold_when_the_screen_gets_narrower)
{
    CHECK(live_rows(STR(""), 80) == 0);
    CHECK(live_rows(STR("a\nb\n"), 80) == 2);
    CHECK(live_rows(STR("0123456789\nb\n"), 10) == 2);
    CHECK(live_rows(STR("0123456789a\nb\n"), 10) == 3);
    CHECK(live_rows(STR("\033[2m0123456789\033[0m\n\n"), 10) == 2);
    CHECK(live_rows(STR("a\n"), 0) == 1);
}

TEST(a_build_nobody_has_taken_says_that_it_waits)
{
    AUTO(steps_finish) struct steps steps = {.waiting_ms = 1000};
    AUTO(buf_finish) struct buf out = {.max = KIB(64)};
    struct live_view view = {.columns = 40, .rows = 5, .now_ms = 3500};

    CHECK(render(&steps, &view, &out));
    CHECK(strstr(out.bytes, " waiting for a worker            2.5 s\n"));
    view.is_last = true;
    CHECK(render(&steps, &view, &out));
    CHECK_STR(out.bytes, "");
}

TEST_MAIN()
