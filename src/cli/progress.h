/* What `helmr deploy` says while it works: lines on stderr for people, JSON lines on stdout with
 * --json. It remembers the last lines of the step that runs, for when it fails.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

enum { PROGRESS_LINES = 40, PROGRESS_LINE_MAX = 2000 };

struct progress {
    bool as_json, is_terminal, has_colour;
    bool in_line;                /* step output has not ended its line */
    bool has_bar;                /* the last line is an unfinished bar */
    char *lines[PROGRESS_LINES]; /* a ring: the newest is before `next` */
    size_t next;
    int percent; /* shown last */
};

void progress_init(struct progress *progress, bool as_json);
void progress_finish(struct progress *progress);

/* "Creating archive" */
void progress_step(struct progress *progress, const char *what);
void progress_upload(struct progress *progress, uint64_t sent, uint64_t total);
void progress_note(struct progress *progress, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* {"type": type, …, name: raw} with --json, nothing otherwise. `phase` may be NULL. */
void progress_object(struct progress *progress, const char *type, const char *phase,
                     const char *name, struct str raw);

/* One event of the deployment. */
void progress_event(struct progress *progress, struct str event);

/* The last lines of the step that ran last, unless they are on the screen already. */
void progress_tail(struct progress *progress);
