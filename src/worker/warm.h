/* What this worker has ready because it used it lately: names that the server compares with what a
 * run needs, newest first. Any thread.
 */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "protocol/worker_api.h"

enum { WARM_NAMES = 32, WARM_NAME = 80 };

enum warm_kind { WARM_TEMPLATES, WARM_CHECKPOINTS, WARM_DRIVES, WARM_KINDS };

struct warm {
    pthread_mutex_t lock;
    char names[WARM_KINDS][WARM_NAMES][WARM_NAME]; /* "": free */
};

void warm_init(struct warm *warm);
void warm_finish(struct warm *warm);

/* Puts the name first; the oldest goes when there are too many. */
void warm_note(struct warm *warm, enum warm_kind kind, struct str name);

struct wire_warm warm_list(struct warm *warm, struct arena *arena);
