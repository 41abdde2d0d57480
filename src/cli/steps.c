#include "cli/steps.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/glyph.h"
#include "base/json.h"
#include "base/own.h"

enum { ESCAPE = 0x1b, BELL = 0x07, TAB_WIDTH = 8 };

static const struct json_field facts_fields[] = {
    {"phase", JSON_TEXT, offsetof(struct build_facts, phase)},
    {"name", JSON_TEXT, offsetof(struct build_facts, name)},
    {"image", JSON_TEXT, offsetof(struct build_facts, image)},
    {"status", JSON_TEXT, offsetof(struct build_facts, status)},
    {"text", JSON_TEXT, offsetof(struct build_facts, text), .max = MIB(1)},
    {"index", JSON_INTEGER, offsetof(struct build_facts, index)},
    {"total", JSON_INTEGER, offsetof(struct build_facts, total)},
    {"ms", JSON_INTEGER, offsetof(struct build_facts, ms),
     .present = offsetof(struct build_facts, has_ms)},
    {"cached", JSON_BOOL, offsetof(struct build_facts, cached)},
    {"engine", JSON_TEXT, offsetof(struct build_facts, engine)},
    {0},
};

static const struct json_field event_fields[] = {
    {"kind", JSON_TEXT, offsetof(struct build_event, kind)},
    {"attributes", JSON_OBJ, offsetof(struct build_event, facts), .fields = facts_fields},
    {0},
};

bool build_event_read(struct str json, struct arena *arena, struct build_event *event)
{
    struct error err;

    return json_read_loose(json, event_fields, event, sizeof *event, arena, &err);
}

static void forget_lines(struct step *step)
{
    for (size_t i = 0; i < STEP_LINES; i++)
        free(TAKE(step->lines[i]));
}

static void step_destroy(struct step *step)
{
    forget_lines(step);
    free(step->phase);
    free(step->image);
    free(step->text);
    free(step);
}

void steps_finish(struct steps *steps)
{
    for (size_t i = 0; i < steps->n; i++)
        step_destroy(steps->items[i]);
    free(steps->items);
    *steps = (struct steps){0};
}

/* Skips what follows an escape: a sequence up to its final letter, or a string up to its end. */
static void skip_sequence(struct str *rest)
{
    size_t at = rest->len > 0;
    char opener = '\0';

    if (rest->len > 0)
        opener = rest->ptr[0];
    if (opener == '[') {
        while (at < rest->len && (unsigned char)rest->ptr[at] < 0x40)
            at++;
        at += at < rest->len;
    } else if (opener && strchr("]PX^_", opener)) {
        while (at < rest->len && rest->ptr[at] != BELL && rest->ptr[at] != ESCAPE)
            at++;
        at += at < rest->len && rest->ptr[at] == BELL;
    }
    *rest = (struct str){rest->ptr + at, rest->len - at};
}

/* A line that was drawn over itself is what it ended as. */
static struct str last_drawn(struct str raw)
{
    while (raw.len > 0 && raw.ptr[raw.len - 1] == '\r')
        raw.len--;

    const char *over = raw.len ? memrchr(raw.ptr, '\r', raw.len) : NULL;

    if (!over)
        return raw;
    return (struct str){over + 1, raw.len - (size_t)(over + 1 - raw.ptr)};
}

static char *clean(struct str raw, size_t max)
{
    char *out = alloc(max + 1);
    struct str rest = last_drawn(raw);
    struct glyph glyph;
    size_t len = 0;

    while (glyph_next(&rest, &glyph) && len + glyph.bytes.len + TAB_WIDTH <= max) {
        char c = glyph.bytes.ptr[0];

        if (c == ESCAPE) {
            skip_sequence(&rest);
        } else if (c == '\t') {
            do
                out[len++] = ' ';
            while (len % TAB_WIDTH);
        } else if (c == '\n') {
            out[len++] = ' ';
        } else if (glyph.is_harmful) {
            out[len++] = '?';
        } else {
            memcpy(out + len, glyph.bytes.ptr, glyph.bytes.len);
            len += glyph.bytes.len;
        }
    }
    out[len] = '\0';
    return alloc_more(out, len + 1);
}

const char *step_add_line(struct step *step, struct str raw)
{
    char **slot = &step->lines[step->next];

    free(*slot);
    *slot = clean(raw, STEP_LINE_MAX);
    step->next = (step->next + 1) % STEP_LINES;
    return *slot;
}

const char *step_last_line(const struct step *step)
{
    return step->lines[(step->next + STEP_LINES - 1) % STEP_LINES];
}

static struct step *step_create(const struct build_facts *facts, int64_t now_ms)
{
    struct step *step = alloc(sizeof *step);

    *step = (struct step){
        .phase = clean(facts->phase, STEP_LINE_MAX),
        .image = clean(facts->image, STEP_LINE_MAX),
        .text = clean(facts->total > 0 ? facts->name : STR(""), STEP_LINE_MAX),
        .index = facts->total > 0 ? facts->index : 0,
        .total = facts->total > 0 ? facts->total : 0,
        .begun_ms = now_ms,
    };
    return step;
}

static bool is_of(const struct step *step, struct str phase, struct str image)
{
    return str_equal(str_of(step->phase), phase) && str_equal(str_of(step->image), image);
}

/* What an end belongs to; a beginning always makes a new step. */
static struct step *find_running(const struct steps *steps, const struct build_facts *facts)
{
    bool is_step = facts->total > 0;

    for (size_t i = steps->n; i > 0; i--) {
        struct step *step = steps->items[i - 1];

        if (step->state == STEP_RUNNING && is_of(step, facts->phase, facts->image) &&
            step->index == (is_step ? facts->index : 0) && (step->total > 0) == is_step)
            return step;
    }
    return NULL;
}

/* Behind the others of its image, else at the end. */
static void insert(struct steps *steps, struct step *step)
{
    size_t at = steps->n;
    bool is_known = false;

    for (size_t i = 0; i < steps->n && step->total > 0; i++) {
        const struct step *other = steps->items[i];

        if (other->total > 0 && is_of(other, str_of(step->phase), str_of(step->image))) {
            at = i + 1;
            is_known = true;
        }
    }
    steps->n_images += step->total > 0 && !is_known;
    steps->items = alloc_more(steps->items, (steps->n + 1) * sizeof *steps->items);
    memmove(steps->items + at + 1, steps->items + at, (steps->n - at) * sizeof *steps->items);
    steps->items[at] = step;
    steps->n++;
}

/* The output of what went well is of no use to anybody. */
static void end_step(struct step *step, enum step_state state, const struct build_facts *facts,
                     int64_t now_ms)
{
    step->ms = facts->has_ms ? facts->ms : now_ms - step->begun_ms;
    step->state = state;
    if (state == STEP_DONE || state == STEP_CACHED)
        forget_lines(step);
}

/* A phase that failed, and the steps in it that nobody has said anything about since: the only
 * one is to blame, of several none can be. */
static void end_phase(struct steps *steps, const struct step *phase, int64_t now_ms)
{
    struct step *open = NULL;
    size_t n = 0;
    bool is_known = false;

    for (size_t i = 0; i < steps->n; i++) {
        struct step *step = steps->items[i];

        if (step == phase || strcmp(step->phase, phase->phase) != 0)
            continue;
        is_known |= step->state == STEP_FAILED;
        if (step->state != STEP_RUNNING)
            continue;
        end_step(step, STEP_STOPPED, &(struct build_facts){0}, now_ms);
        open = step;
        n++;
    }
    if (n == 1 && !is_known)
        open->state = STEP_FAILED;
}

static void stop_all(struct steps *steps, int64_t now_ms)
{
    for (size_t i = 0; i < steps->n; i++) {
        if (steps->items[i]->state == STEP_RUNNING)
            end_step(steps->items[i], STEP_STOPPED, &(struct build_facts){0}, now_ms);
    }
}

static enum step_state state_of(const struct build_facts *facts)
{
    if (str_equal(facts->status, STR("started")))
        return STEP_RUNNING;
    if (str_equal(facts->status, STR("failed")))
        return STEP_FAILED;
    return facts->cached || str_equal(facts->status, STR("cached")) ? STEP_CACHED : STEP_DONE;
}

static struct step *take_step(struct steps *steps, const struct build_facts *facts, int64_t now_ms)
{
    enum step_state state = state_of(facts);
    struct step *step = state == STEP_RUNNING ? NULL : find_running(steps, facts);

    if (!step) {
        if (steps->n == STEPS_MAX)
            return NULL;
        step = step_create(facts, now_ms);
        insert(steps, step);
    }
    if (state != STEP_RUNNING)
        end_step(step, state, facts, now_ms);
    if (state == STEP_FAILED && step->total == 0)
        end_phase(steps, step, now_ms);
    return step;
}

struct step *steps_take(struct steps *steps, const struct build_event *event, int64_t now_ms)
{
    if (str_equal(event->kind, STR("deployment.queued")))
        steps->waiting_ms = now_ms;
    else if (str_equal(event->kind, STR("deployment.building")))
        steps->waiting_ms = 0;
    else if (str_equal(event->kind, STR("deployment.failed")))
        stop_all(steps, now_ms);
    if (str_equal(event->kind, STR("deployment.build.requeued"))) {
        steps_finish(steps);
        steps->waiting_ms = now_ms;
    }
    if (str_equal(event->kind, STR("deployment.build.step")))
        return take_step(steps, &event->facts, now_ms);
    return NULL;
}

/* How sure it is that output is of this step; 0: it is not. */
static int likeness(const struct step *step, const struct build_facts *facts)
{
    struct str image = facts->image.len ? facts->image : facts->name;
    int is_running = step->state == STEP_RUNNING;

    if (!str_equal(str_of(step->phase), facts->phase))
        return 0;
    if (step->total == 0)
        return 1 + is_running;
    if (step->image[0] == '\0')
        return 3 + is_running;
    return str_equal(str_of(step->image), image) ? 5 + is_running : 0;
}

struct step *steps_of_output(const struct steps *steps, const struct build_event *event)
{
    struct step *best = NULL;
    int most = 0;

    for (size_t i = steps->n; i > 0; i--) {
        int like = likeness(steps->items[i - 1], &event->facts);

        if (like > most) {
            best = steps->items[i - 1];
            most = like;
        }
    }
    return best;
}

const char *step_place(const struct step *step, struct arena *arena)
{
    if (step->total == 0)
        return step->phase;
    return arena_printf(arena, "%s %" PRId64 "/%" PRId64,
                        step->image[0] ? step->image : step->phase, step->index, step->total);
}

const char *step_label(const struct step *step, struct arena *arena)
{
    const char *place = step_place(step, arena);

    return step->text[0] ? arena_printf(arena, "%s %s", place, step->text) : place;
}

const struct step *steps_failed(const struct steps *steps)
{
    const struct step *phase = NULL;

    for (size_t i = 0; i < steps->n; i++) {
        const struct step *step = steps->items[i];

        if (step->state == STEP_FAILED && step->total > 0)
            return step;
        if (step->state == STEP_FAILED)
            phase = step;
    }
    return phase;
}
