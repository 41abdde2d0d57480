/* What `helmr deploy` says while it works: on a terminal the steps of the build as they go on,
 * lines on stderr otherwise, JSON lines on stdout with --json. When a build fails it knows the
 * step and its last words.
 */
#pragma once

#include <stdint.h>

#include "cli/screen.h"

struct progress {
    bool as_json;
    bool has_bar; /* the last line is an unfinished bar */
    int percent;  /* shown last */
    struct steps steps;
    struct screen screen;
};

void progress_init(struct progress *progress, bool as_json);
void progress_finish(struct progress *progress);

/* "Creating archive" */
void progress_step(struct progress *progress, const char *what);
void progress_upload(struct progress *progress, uint64_t sent, uint64_t total);
void progress_note(struct progress *progress, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* What is said when the command is interrupted from now on; a line. */
void progress_farewell(struct progress *progress, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* {"type": type, …, name: raw} with --json, nothing otherwise. `phase` may be NULL. */
void progress_object(struct progress *progress, const char *type, const char *phase,
                     const char *name, struct str raw);

/* One event of the deployment. */
void progress_event(struct progress *progress, struct str event);

/* The build has ended: what was drawn of it stays, and when a step failed its last lines follow,
 * unless they are the last ones on stderr already. */
void progress_end(struct progress *progress);
