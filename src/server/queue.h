/* The queue: what waits for a worker, and what a claim looks at.
 *
 * An item stands in a lane, which a limit counts over, and has a shape, which is what it asks of a
 * worker. The first due item of a lane and shape is their head; the heads of a lane at its limit
 * are closed. A claim compares the open heads of the shapes that fit, however many items stand
 * behind them. Items and heads of a lane change only under the lock of the lane's row.
 */
#pragma once

#include "store/store.h"

struct queue_item {
    const char *kind; /* run, resume, build */
    const char *subject_id, *lane_id, *environment_id;
    int64_t score_ms, not_before_ms;
    int64_t ttl_ms; /* when it must have been started for the first time; 0: no matter */
    int64_t cpu_millis, memory_mib, disk_mib;
    struct str arch, compat, key_id; /* empty: any */
};

/* What a run asks for, in the place of a checkpoint's compat: a worker that can deny networks. */
#define QUEUE_RULES "rules"

/* What a sandbox's network asks of a worker: QUEUE_RULES, or nothing. */
struct str queue_network_needs(struct str network);
/* Whether a worker of these capabilities (JSON) can keep rules of networks. */
bool queue_worker_has_rules(struct str capabilities);

/* A retryable conflict when the lane was collected meanwhile. */
bool queue_put(struct tx *tx, const struct queue_item *item, struct error *err) MUST_USE;

/* A run that comes back, to go on from a checkpoint or, with NULL, from the start. */
bool queue_put_run(struct tx *tx, const char *run_id, int64_t not_before_ms,
                   const char *checkpoint_id, struct error *err) MUST_USE;

/* Takes a subject out, if it is in. */
bool queue_remove(struct tx *tx, const char *subject_id, struct error *err) MUST_USE;

/* The time of an item with a delay has come. */
bool queue_promote(struct tx *tx, const char *subject_id, struct error *err) MUST_USE;

/* Opens or closes a lane after a lease of it began or ended. */
bool queue_recount(struct tx *tx, const char *lane_id, struct error *err) MUST_USE;

/* The same after its limit changed, or went. */
bool queue_relimit(struct tx *tx, const char *lane_id, struct error *err) MUST_USE;

/* Whether an item that was found can be claimed still. The lane is locked after it. */
bool queue_check(struct tx *tx, const char *ready_id, const char *lane_id, bool *is_there,
                 struct error *err) MUST_USE;

/* Removes lanes of concurrency keys and shapes that nothing has needed for a while. */
bool queue_collect(struct tx *tx, int64_t now, struct error *err) MUST_USE;
