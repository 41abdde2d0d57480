#include "cli/live.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/glyph.h"

enum {
    DEFAULT_COLUMNS = 80,
    DEFAULT_ROWS = 24,
    MARGIN = 2,     /* the marker and a space */
    LOG_INDENT = 4, /* of what a step said */
    SPIN_MS = 100,
    MINUTE_MS = 60 * 1000,
};

#define DIM   "\033[2m"
#define RED   "\033[31m"
#define GREEN "\033[32m"
#define RESET "\033[0m"

/* How a state looks. */
static const struct look {
    const char *marker, *ascii, *colour, *text_colour;
} looks[] = {
    [STEP_RUNNING] = {NULL,           NULL, "",    "" },
    [STEP_DONE] = {"\xe2\x9c\x93", "+",  GREEN, "" },
    [STEP_CACHED] = {"\xe2\x9c\x93", "+",  GREEN, "" },
    [STEP_FAILED] = {"\xe2\x9c\x97", "x",  RED,   RED},
    [STEP_STOPPED] = {"-",            "-",  DIM,   DIM},
};

static const char *const spinner[] = {
    "\xe2\xa0\x8b", "\xe2\xa0\x99", "\xe2\xa0\xb9", "\xe2\xa0\xb8", "\xe2\xa0\xbc",
    "\xe2\xa0\xb4", "\xe2\xa0\xa6", "\xe2\xa0\xa7", "\xe2\xa0\x87", "\xe2\xa0\x8f",
};
static const char *const ascii_spinner[] = {"|", "/", "-", "\\"};

/* What of it all is shown. */
struct plan {
    size_t hidden_done, hidden_open;
    bool has_logs;
};

struct page {
    const struct live_view *view;
    size_t columns, rows;
    struct buf *out;
    struct arena arena;
    struct error err;
    bool failed;
};

const char *live_time(int64_t ms, struct arena *arena)
{
    if (ms < MINUTE_MS)
        return arena_printf(arena, "%.1f s", (double)(ms < 0 ? 0 : ms) / 1000);
    return arena_printf(arena, "%" PRId64 " min %02" PRId64 " s", ms / MINUTE_MS,
                        ms % MINUTE_MS / 1000);
}

static bool is_open(const struct step *step)
{
    return step->state != STEP_DONE && step->state != STEP_CACHED;
}

static bool has_log(const struct step *step)
{
    const char *line = step_last_line(step);

    return step->state == STEP_RUNNING && line && *line;
}

static void put(struct page *page, struct str text)
{
    page->failed = page->failed || !buf_append(page->out, text, &page->err);
}

static void put_colour(struct page *page, const char *code)
{
    if (page->view->has_colour && *code)
        put(page, str_of(code));
}

static void put_spaces(struct page *page, size_t n)
{
    while (n-- > 0)
        put(page, STR(" "));
}

/* Cut to the columns, with a mark where something is missing. Returns the columns used. */
static size_t put_cut(struct page *page, struct str text, size_t columns)
{
    bool is_utf8 = page->view->is_utf8;
    size_t dots = is_utf8 ? 1 : 3;

    if (glyph_width(text) <= columns) {
        put(page, text);
        return glyph_width(text);
    }

    struct str kept = glyph_cut(text, columns > dots ? columns - dots : 0);

    put(page, kept);
    if (columns < dots)
        return glyph_width(kept);
    put(page, is_utf8 ? STR("\xe2\x80\xa6") : STR("..."));
    return glyph_width(kept) + dots;
}

static const char *marker_of(const struct page *page, enum step_state state)
{
    const struct live_view *view = page->view;
    uint64_t tick = (uint64_t)view->now_ms / SPIN_MS;

    if (state != STEP_RUNNING)
        return view->is_utf8 ? looks[state].marker : looks[state].ascii;
    if (view->is_last)
        return view->is_utf8 ? "\xe2\x80\xa6" : "*";
    return view->is_utf8 ? spinner[tick % COUNT_OF(spinner)]
                         : ascii_spinner[tick % COUNT_OF(ascii_spinner)];
}

/* "cached", "4.1 s", "failed after 4.1 s" */
static const char *note_of(struct page *page, const struct step *step)
{
    switch (step->state) {
    case STEP_CACHED: return "cached";
    case STEP_STOPPED: return "stopped";
    case STEP_DONE: return live_time(step->ms, &page->arena);
    case STEP_FAILED:
        return arena_printf(&page->arena, "failed after %s", live_time(step->ms, &page->arena));
    case STEP_RUNNING: break;
    }
    return live_time(page->view->now_ms - step->begun_ms, &page->arena);
}

/* Marker, text, and at the right end the note; where that leaves no room the note goes. */
static void put_line(struct page *page, enum step_state state, const char *text, const char *note)
{
    const struct look *look = &looks[state];
    size_t width = page->columns, note_width = strlen(note) + 1;
    bool has_note = *note && width > MARGIN + note_width + 8;
    size_t room = width > MARGIN ? width - MARGIN - (has_note ? note_width : 0) : 0;

    put_colour(page, look->colour);
    put(page, str_of(marker_of(page, state)));
    put_colour(page, *look->colour ? RESET : "");
    if (room > 0) {
        put(page, STR(" "));
        put_colour(page, look->text_colour);
        size_t used = put_cut(page, str_of(text), room);
        if (has_note) {
            put_spaces(page, room - used + 1);
            put(page, str_of(note));
        }
        put_colour(page, *look->text_colour ? RESET : "");
    }
    put(page, STR("\n"));
}

static void put_log(struct page *page, const struct step *step)
{
    if (page->columns <= LOG_INDENT)
        return;
    put_spaces(page, LOG_INDENT);
    put_colour(page, DIM);
    put_cut(page, str_of(step_last_line(step)), page->columns - LOG_INDENT);
    put_colour(page, RESET);
    put(page, STR("\n"));
}

static struct plan make_plan(const struct steps *steps, const struct page *page)
{
    size_t n_open = 0, n_logs = 0, room = page->rows - 1;
    struct plan plan = {.has_logs = !page->view->is_last && page->columns > LOG_INDENT};

    for (size_t i = 0; i < steps->n; i++) {
        n_open += is_open(steps->items[i]);
        n_logs += has_log(steps->items[i]);
    }
    n_logs = plan.has_logs ? n_logs : 0;
    if (page->view->is_last || steps->n + n_logs <= room)
        return plan;

    room -= room > 0; /* the line that counts what is hidden */
    plan.has_logs = plan.has_logs && n_open + n_logs <= room;
    plan.hidden_open = n_open > room ? n_open - room : 0;
    room -= n_open - plan.hidden_open + (plan.has_logs ? n_logs : 0);
    plan.hidden_done = steps->n - n_open > room ? steps->n - n_open - room : 0;
    return plan;
}

static void put_hidden(struct page *page, const struct plan *plan)
{
    char text[64] = "", more[32] = "";

    if (plan->hidden_done == 0 && plan->hidden_open == 0)
        return;
    if (plan->hidden_done > 0)
        snprintf(text, sizeof text, "%zu done", plan->hidden_done);
    if (plan->hidden_open > 0)
        snprintf(more, sizeof more, "%s%zu more", plan->hidden_done ? ", " : "", plan->hidden_open);
    put_line(page, plan->hidden_done ? STEP_DONE : STEP_STOPPED,
             arena_printf(&page->arena, "%s%s", text, more), "");
}

static void put_steps(struct page *page, const struct steps *steps, struct plan plan)
{
    put_hidden(page, &plan);
    for (size_t i = 0; i < steps->n; i++) {
        const struct step *step = steps->items[i];
        size_t *hidden = is_open(step) ? &plan.hidden_open : &plan.hidden_done;

        if (*hidden > 0) {
            (*hidden)--;
            continue;
        }
        put_line(page, step->state, step_label(step, &page->arena), note_of(page, step));
        if (plan.has_logs && has_log(step))
            put_log(page, step);
    }
}

bool live_render(const struct steps *steps, const struct live_view *view, struct buf *out,
                 struct error *err)
{
    /* The last column stays free: a terminal that is about to wrap erases what is in it. */
    size_t columns = (view->columns ? view->columns : DEFAULT_COLUMNS) - 1;
    struct page page = {
        .view = view,
        .columns = columns < LIVE_WIDTH_MAX ? columns : LIVE_WIDTH_MAX,
        .rows = view->rows ? view->rows : DEFAULT_ROWS,
        .out = out,
    };

    if (!view->is_last && page.rows < 2)
        return true;
    put_steps(&page, steps, make_plan(steps, &page));
    if (steps->n == 0 && steps->waiting_ms && !view->is_last)
        put_line(&page, STEP_RUNNING, "waiting for a worker",
                 live_time(view->now_ms - steps->waiting_ms, &page.arena));
    arena_finish(&page.arena);
    if (page.failed)
        *err = page.err;
    return !page.failed;
}

/* Without the colours, which take none. */
static size_t shown_width(struct str line)
{
    struct str piece;
    size_t width = 0;

    for (bool is_first = true; str_split(&line, '\033', &piece); is_first = false) {
        const char *end = is_first ? NULL : memchr(piece.ptr, 'm', piece.len);
        size_t skipped = end ? (size_t)(end + 1 - piece.ptr) : 0;

        width += glyph_width((struct str){piece.ptr + skipped, piece.len - skipped});
    }
    return width;
}

size_t live_rows(struct str lines, size_t columns)
{
    struct str line;
    size_t rows = 0;

    while (lines.len > 0 && str_split(&lines, '\n', &line)) {
        size_t width = columns ? shown_width(line) : 0;

        rows += width > columns ? (width + columns - 1) / columns : 1;
    }
    return rows;
}
