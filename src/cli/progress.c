#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/glyph.h"
#include "base/own.h"
#include "base/table.h"
#include "base/time.h"
#include "model/grade.h"

enum { BAR_WIDTH = 30, BAR_ROOM = 60, SHORT_LABEL = 60 };

#define DIM   "\033[2m"
#define RED   "\033[31m"
#define RESET "\033[0m"

void progress_init(struct progress *progress, bool as_json)
{
    *progress = (struct progress){.as_json = as_json, .percent = -1};
    screen_start(&progress->screen, &progress->steps, !as_json && screen_is_usable());
}

void progress_finish(struct progress *progress)
{
    screen_stop(&progress->screen);
    if (progress->has_bar)
        putc('\n', stderr);
    steps_finish(&progress->steps);
}

/* A line that is printed stands above what is drawn. */
static void begin_line(struct progress *progress)
{
    screen_clear(&progress->screen);
    if (progress->has_bar)
        putc('\n', stderr);
    progress->has_bar = false;
}

static const char *colour(const struct progress *progress, const char *code)
{
    return progress->screen.has_colour ? code : "";
}

void progress_note(struct progress *progress, const char *fmt, ...)
{
    va_list args;

    if (progress->as_json)
        return;
    screen_lock(&progress->screen);
    begin_line(progress);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    putc('\n', stderr);
    screen_unlock(&progress->screen);
}

void progress_farewell(struct progress *progress, const char *fmt, ...)
{
    struct screen *screen = &progress->screen;
    va_list args;

    screen_lock(screen);
    va_start(args, fmt);
    vsnprintf(screen->farewell, sizeof screen->farewell, fmt, args);
    va_end(args);
    screen_unlock(screen);
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
    size_t columns = screen_columns();

    if (!progress->screen.is_live || percent == progress->percent || total < MIB(1) ||
        (columns > 0 && columns < BAR_ROOM))
        return;
    screen_lock(&progress->screen);
    progress->percent = percent;
    progress->has_bar = percent < 100;
    fprintf(stderr, "\r  [%.*s%*s] %3d%% of %.1f MiB%s", full, "##############################",
            BAR_WIDTH - full, "", percent, (double)total / (1024 * 1024),
            percent == 100 ? "\n" : "");
    fflush(stderr);
    screen_unlock(&progress->screen);
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

static bool is_plain(const struct progress *progress)
{
    return !progress->as_json && !progress->screen.is_live;
}

/* Of several images each line says whose it is. */
static void print_line(const struct progress *progress, const struct step *step, const char *line)
{
    bool has_name = progress->steps.n_images > 1 && step->total > 0 && step->image[0];

    fprintf(stderr, "%s  %s%s%s%s\n", colour(progress, DIM), has_name ? step->image : "",
            has_name ? ": " : "", line, colour(progress, RESET));
}

static void on_output(struct progress *progress, const struct build_event *event)
{
    struct step *step = steps_of_output(&progress->steps, event);
    struct str text = event->facts.text, line;

    while (step && text.len > 0 && str_split(&text, '\n', &line)) {
        const char *kept = step_add_line(step, line);

        if (is_plain(progress))
            print_line(progress, step, kept);
    }
}

static const char *short_label(const struct step *step, struct arena *arena)
{
    const char *label = step_label(step, arena);
    struct str cut = glyph_cut(str_of(label), SHORT_LABEL);

    if (cut.len == strlen(label))
        return label;
    return arena_printf(arena, "%.*s...", (int)cut.len, cut.ptr);
}

static void print_step(struct progress *progress, const struct step *step, struct arena *arena)
{
    const char *label = short_label(step, arena);

    switch (step->state) {
    case STEP_RUNNING: fprintf(stderr, "%s\n", step_label(step, arena)); break;
    case STEP_CACHED: fprintf(stderr, "%s cached\n", label); break;
    case STEP_DONE: fprintf(stderr, "%s done in %s\n", label, live_time(step->ms, arena)); break;
    case STEP_FAILED:
        fprintf(stderr, "%s%s failed after %s%s\n", colour(progress, RED), label,
                live_time(step->ms, arena), colour(progress, RESET));
        break;
    case STEP_STOPPED: break;
    }
}

/* What has no line of its own among the steps. */
static const struct {
    struct str kind;
    const char *note;
    bool also_live;
} notes[] = {
    {STR("deployment.building"),       "Building",                                 false},
    {STR("deployment.build.requeued"), "The build starts again on another worker", true },
};

static void print_note(struct progress *progress, const struct build_event *event)
{
    enum engine_kind engine;

    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        if (!str_equal(event->kind, notes[i].kind))
            continue;
        if (is_plain(progress) || (progress->screen.is_live && notes[i].also_live)) {
            begin_line(progress);
            fprintf(stderr, "%s", notes[i].note);
            if (engine_kind_parse(event->facts.engine, &engine))
                fprintf(stderr, " with %s (%s)", engine_kind_name(engine),
                        grade_name(grade_of_engine(engine)));
            fputc('\n', stderr);
        }
    }
}

void progress_event(struct progress *progress, struct str event)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct build_event read;

    progress_object(progress, "deployment_event", NULL, "event", event);
    if (!build_event_read(event, &arena, &read))
        return;
    screen_lock(&progress->screen);
    if (str_equal(read.kind, STR("deployment.build.log"))) {
        on_output(progress, &read);
    } else {
        const struct step *step = steps_take(&progress->steps, &read, time_boot_ms());

        print_note(progress, &read);
        if (step && is_plain(progress))
            print_step(progress, step, &arena);
    }
    screen_unlock(&progress->screen);
}

/* With one image, in plain lines, they stand right above. */
static bool has_to_be_told(const struct progress *progress, bool was_plain)
{
    return !was_plain || progress->steps.n_images > 1;
}

static void print_tail(const struct progress *progress, const struct step *step)
{
    AUTO(arena_finish) struct arena arena = {0};

    if (!step_last_line(step))
        return;
    fprintf(stderr, "The last lines of %s:\n", step_place(step, &arena));
    for (size_t i = 0; i < STEP_LINES; i++) {
        const char *line = step->lines[(step->next + i) % STEP_LINES];

        if (line)
            fprintf(stderr, "%s  %s%s\n", colour(progress, DIM), line, colour(progress, RESET));
    }
}

void progress_end(struct progress *progress)
{
    const struct step *failed = steps_failed(&progress->steps);
    bool was_plain = is_plain(progress);

    screen_lock(&progress->screen);
    progress->screen.farewell[0] = '\0';
    screen_settle(&progress->screen);
    if (failed && has_to_be_told(progress, was_plain))
        print_tail(progress, failed);
    screen_unlock(&progress->screen);
}
