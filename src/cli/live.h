/* The screen of a build that is under way: one line for each step, and below those that run the
 * last thing they said. Lines end in a newline and never wrap; there are never more of them than
 * fit, because what has finished is counted instead of shown when room gets short.
 */
#pragma once

#include "base/error.h"
#include "cli/steps.h"

enum { LIVE_WIDTH_MAX = 100 };

struct live_view {
    size_t columns, rows; /* 0: unknown */
    int64_t now_ms;
    bool has_colour, is_utf8;
    bool is_last; /* all steps, however many, and no output: what stays on the screen */
};

bool live_render(const struct steps *steps, const struct live_view *view, struct buf *out,
                 struct error *err) MUST_USE;

/* The rows that such lines take on a screen of so many columns, when it got narrower since. */
size_t live_rows(struct str lines, size_t columns);

/* "4.1 s" or "12 min 04 s" */
const char *live_time(int64_t ms, struct arena *arena);
