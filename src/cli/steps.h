/* The steps of a deployment's build as its events tell of them: the phases, and the steps of each
 * image, several of which may be under way at once.
 *
 * Steps of one image stand together, in the order in which they began. All text kept here is
 * clean: without control characters and without the codes terminals act upon.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

enum { STEP_LINES = 40, STEP_LINE_MAX = 2000, STEPS_MAX = 10000 };

enum step_state { STEP_RUNNING, STEP_DONE, STEP_CACHED, STEP_FAILED, STEP_STOPPED };

struct step {
    enum step_state state;
    char *phase, *image, *text; /* image and text are "" for a phase itself */
    int64_t index, total;       /* 0 for a phase itself */
    int64_t begun_ms, ms;       /* ms: how long it took, once it has ended */
    char *lines[STEP_LINES];    /* a ring of its last output: the newest is before `next` */
    size_t next;
};

struct steps {
    struct step **items;
    size_t n, n_images;
    int64_t waiting_ms; /* since when nobody has taken the build; 0: somebody has */
};

/* What an event says, as far as anybody here wants to know. */
struct build_event {
    struct str kind;
    struct build_facts {
        struct str phase, name, image, status, text;
        struct str engine; /* of who builds */
        int64_t index, total, ms;
        bool cached, has_ms;
    } facts;
};

void steps_finish(struct steps *steps);

/* False when it is not an event. The texts live in the arena. */
bool build_event_read(struct str json, struct arena *arena, struct build_event *event);

/* Takes in an event that is not output. The step that it began or ended, or NULL. */
struct step *steps_take(struct steps *steps, const struct build_event *event, int64_t now_ms);

/* The step that output belongs to, or NULL. */
struct step *steps_of_output(const struct steps *steps, const struct build_event *event);

/* Remembers one line, clean, and returns it: borrowed until STEP_LINES more have come. */
const char *step_add_line(struct step *step, struct str raw);
const char *step_last_line(const struct step *step); /* NULL: none */

/* "agent 3/7" and "agent 3/7 RUN npm install", or "install" for a phase. */
const char *step_place(const struct step *step, struct arena *arena);
const char *step_label(const struct step *step, struct arena *arena);

/* The one to blame when the build failed, or NULL. */
const struct step *steps_failed(const struct steps *steps);
