/* For tests: a run on its way to a checkpoint and back, and what is known of it. The sweeper's
 * thread is stopped, so that nothing happens but what the test does.
 */
#pragma once

#include "server/worker_testing.h"

#define COMPAT "c0ffee"
#define KEY_ID "00112233445566aa"

/* A worker that makes checkpoints, and a run that waits. */
struct stage {
    struct test_worker worker;
    const char *key, *run;
    char wait[ID_TEXT];
};

/* Where a worker may die, from the first word to the last. */
enum step { HOT, BEGUN, STAGED, PARKED, ANSWERED, TAKEN, PREPARED, STARTED, RESUMED, STEPS };

bool stage_set(struct service *service, struct stage *stage);

/* Takes what is queued as `kind` and starts it. */
bool stage_start(struct stage *stage, const char *kind);
bool stage_open_wait(struct stage *stage);

/* A new run that waits; that is parked; up to this step. */
bool stage_wait(struct stage *stage);
bool stage_park(struct stage *stage);
bool stage_reach(struct stage *stage, enum step step);

bool stage_settle(struct stage *stage); /* somebody answers */
bool stage_finish(struct stage *stage); /* and that ends it, once */

/* The one text a query of one parameter finds; "" when there is none. */
const char *stage_column(struct service *service, const struct query *query, const char *id);
const char *stage_state(struct stage *stage);
const char *stage_suspension(struct stage *stage);
const char *stage_checkpoint(struct stage *stage, const char *id); /* its state */
const char *stage_refs(struct stage *stage, const char *id);       /* how many objects it keeps */
size_t stage_events(struct stage *stage, const char *kind);

bool stage_takes_nothing(struct test_worker *worker, const char *accept);
/* The one message there is. */
bool stage_hears(struct test_worker *worker, const char *type, const char *wait);

/* Every job about checkpoints, also those that are seldom done. */
void stage_sweep(struct service *service);
