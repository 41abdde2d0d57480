/* Two bytes for the size of a screen, then lines: the event of a step, or what the last step said.
 * Whatever they hold, nothing that a terminal acts upon is drawn, no line wraps, and the lines fit
 * onto the screen. */
#include <stdint.h>
#include <stdlib.h>

#include "base/glyph.h"
#include "base/own.h"
#include "cli/live.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void take(struct steps *steps, struct str line)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct build_event event;

    if (build_event_read(line, &arena, &event))
        steps_take(steps, &event, 1);
    else if (steps->n > 0)
        step_add_line(steps->items[steps->n - 1], line);
}

static void check_line(struct str line, size_t columns)
{
    struct glyph glyph;
    size_t width = 0;

    while (glyph_next(&line, &glyph)) {
        if (glyph.is_harmful)
            abort();
        width += glyph.columns;
    }
    if (width > columns)
        abort();
}

static void check(const struct steps *steps, const struct live_view *view)
{
    AUTO(buf_finish) struct buf out = {.max = MIB(8)};
    struct error err;
    size_t rows = 0;

    if (!live_render(steps, view, &out, &err))
        abort();

    struct str rest = buf_str(&out), line;

    for (; rest.len > 0 && str_split(&rest, '\n', &line); rows++)
        check_line(line, view->columns ? view->columns : 80);
    if (!view->is_last && rows >= (view->rows ? view->rows : 24))
        abort();
    if (rows != live_rows(buf_str(&out), 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    AUTO(steps_finish) struct steps steps = {0};

    if (len < 2 || len > KIB(16))
        return 0;

    struct str rest = {(const char *)bytes + 2, len - 2}, line;
    struct live_view view = {
        .columns = bytes[0],
        .rows = bytes[1],
        .now_ms = 5000,
        .is_utf8 = bytes[0] % 2,
    };

    while (str_split(&rest, '\n', &line))
        take(&steps, line);
    check(&steps, &view);
    view.is_last = true;
    check(&steps, &view);
    return 0;
}
