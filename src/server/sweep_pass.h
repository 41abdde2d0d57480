/* One pass of the sweeper, for the files that hold its jobs. */
#pragma once

#include "server/context.h"

enum { SWEEP_BATCH = 100 };

struct pass {
    struct server *server;
    struct arena arena;
    int64_t now, last; /* last: when the pass before this one looked */
};

/* One subject of a job in a transaction of its own: one that fails holds up no other. `detail` is
 * the query's second column, or "". */
typedef bool sweep_one(struct pass *pass, struct tx *tx, const char *id, const char *detail,
                       struct wakes *wakes, struct error *err);

/* Does `one` for every row of the query; how many there were. */
size_t sweep_each(struct pass *pass, const char *job, const struct query *query,
                  const struct value *params, size_t n, sweep_one *one);

#define SWEEP(pass, job, query, one, ...)                             \
    sweep_each(pass, job, query, (const struct value[]){__VA_ARGS__}, \
               sizeof((const struct value[]){__VA_ARGS__}) / sizeof(struct value), one)

/* Whether this pass is the first of its period, for jobs that need not run in every one. */
bool sweep_is_time(const struct pass *pass, int64_t period_ms);

/* Timers that are due, waits and tokens whose time is over. */
void sweep_waits(struct pass *pass);

/* Sessions whose time is over, and those that are to go on. */
void sweep_sessions(struct pass *pass);

/* Workspaces that are being deleted, and versions that are kept no longer. */
void sweep_workspaces(struct pass *pass);

/* Mounts and programs whose time is over, and programs that are to be signalled. */
void sweep_mounts(struct pass *pass);

/* What lost workers left, what is to be parked, what is kept no longer. */
void sweep_checkpoints(struct pass *pass);
