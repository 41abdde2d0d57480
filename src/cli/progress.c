#include "cli/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/own.h"
#include "base/table.h"
#include "cli/output.h"

enum { BAR_WIDTH = 30 };

#define DIM   "\033[2m"
#define RED   "\033[31m"
#define RESET "\033[0m"

void progress_init(struct progress *progress, bool as_json)
{
    *progress = (struct progress){
        .as_json = as_json,
        .is_terminal = isatty(STDERR_FILENO),
        .has_colour = colour_is_wanted(stderr),
        .percent = -1,
    };
}

static void forget_lines(struct progress *progress)
{
    for (size_t i = 0; i < PROGRESS_LINES; i++)
        free(TAKE(progress->lines[i]));
    progress->next = 0;
}

void progress_finish(struct progress *progress)
{
    if (progress->in_line || progress->has_bar)
        putc('\n', stderr);
    forget_lines(progress);
}

static const char *colour(const struct progress *progress, const char *code)
{
    return progress->has_colour ? code : "";
}

/* Ends what is unfinished on the line. */
static void fresh_line(struct progress *progress)
{
    if (progress->in_line || progress->has_bar)
        putc('\n', stderr);
    progress->in_line = progress->has_bar = false;
}

void progress_note(struct progress *progress, const char *fmt, ...)
{
    va_list args;

    if (progress->as_json)
        return;
    fresh_line(progress);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    putc('\n', stderr);
}

void progress_step(struct progress *progress, const char *what)
{
    if (progress->as_json) {
        printf("{\"type\":\"step\",\"step\":\"%s\"}\n", what);
        fflush(stdout);
        return;
    }
    progress_note(progress, "%s", what);
}

void progress_upload(struct progress *progress, uint64_t sent, uint64_t total)
{
    int percent = total ? (int)(sent * 100 / total) : 100;
    int full = percent * BAR_WIDTH / 100;

    if (progress->as_json || !progress->is_terminal || percent == progress->percent)
        return;
    progress->percent = percent;
    progress->has_bar = percent < 100;
    fprintf(stderr, "\r  [%.*s%*s] %3d%% of %.1f MiB%s", full, "##############################",
            BAR_WIDTH - full, "", percent, (double)total / (1024 * 1024),
            percent == 100 ? "\n" : "");
    fflush(stderr);
}

void progress_object(struct progress *progress, const char *type, const char *phase,
                     const char *name, struct str raw)
{
    if (!progress->as_json)
        return;
    printf("{\"type\":\"%s\"", type);
    if (phase)
        printf(",\"phase\":\"%s\"", phase);
    printf(",\"%s\":", name);
    fwrite(raw.ptr, 1, raw.len, stdout);
    printf("}\n");
    fflush(stdout);
}

static void remember(struct progress *progress, struct str line)
{
    size_t len = line.len < PROGRESS_LINE_MAX ? line.len : PROGRESS_LINE_MAX;

    free(progress->lines[progress->next]);
    progress->lines[progress->next] = strndup(line.ptr, len);
    progress->next = (progress->next + 1) % PROGRESS_LINES;
}

static void show_line(struct progress *progress, struct str line, bool is_whole)
{
    if (progress->as_json)
        return;
    if (!progress->in_line)
        fprintf(stderr, "%s  ", colour(progress, DIM));
    output_clean(stderr, line);
    if (is_whole)
        fprintf(stderr, "%s\n", colour(progress, RESET));
    progress->in_line = !is_whole;
}

static void on_log(struct progress *progress, struct str event, struct arena *arena)
{
    struct str text = output_value(event, "attributes.text", arena), line;

    while (text.len > 0 && str_split(&text, '\n', &line)) {
        bool is_whole = text.ptr != NULL;

        if (line.len == 0 && !is_whole)
            break;
        remember(progress, line);
        show_line(progress, line, is_whole);
    }
}

/* "image 2/5" */
static const char *step_label(struct str event, struct arena *arena)
{
    struct str phase = output_value(event, "attributes.phase", arena);
    int64_t index, total;

    if (!json_find_int(event, "attributes.index", &index) ||
        !json_find_int(event, "attributes.total", &total))
        return arena_text(arena, phase);
    return arena_printf(arena, "%.*s %" PRId64 "/%" PRId64, (int)phase.len, phase.ptr, index,
                        total);
}

static void on_step(struct progress *progress, struct str event, struct arena *arena)
{
    const char *label = step_label(event, arena);
    struct str status = output_value(event, "attributes.status", arena);
    struct str name = output_value(event, "attributes.name", arena);
    bool is_cached = str_equal(output_value(event, "attributes.cached", arena), STR("true"));
    int64_t ms = 0;

    if (str_equal(status, STR("started"))) {
        forget_lines(progress);
        progress_note(progress, "%s%s%.*s", label, name.len ? ": " : "", (int)name.len, name.ptr);
    } else if (str_equal(status, STR("failed"))) {
        progress_note(progress, "%s%s: failed%s", colour(progress, RED), label,
                      colour(progress, RESET));
    } else if (is_cached) {
        progress_note(progress, "%s: cached", label);
    } else if (json_find_int(event, "attributes.ms", &ms)) {
        progress_note(progress, "%s: done in %.1f s", label, (double)ms / 1000);
    }
}

void progress_event(struct progress *progress, struct str event)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str kind = output_value(event, "kind", &arena);

    progress_object(progress, "deployment_event", NULL, "event", event);
    if (str_equal(kind, STR("deployment.building")))
        progress_note(progress, "Building");
    else if (str_equal(kind, STR("deployment.build.step")))
        on_step(progress, event, &arena);
    else if (str_equal(kind, STR("deployment.build.log")))
        on_log(progress, event, &arena);
    else if (str_equal(kind, STR("deployment.build.requeued")))
        progress_note(progress, "The build starts again on another worker");
}

void progress_tail(struct progress *progress)
{
    fresh_line(progress);
    for (size_t i = 0; progress->as_json && i < PROGRESS_LINES; i++) {
        const char *line = progress->lines[(progress->next + i) % PROGRESS_LINES];

        if (line) {
            fputs("  ", stderr);
            output_clean(stderr, str_of(line));
            putc('\n', stderr);
        }
    }
}
