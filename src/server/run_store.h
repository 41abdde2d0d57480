/* Moving a run: the model's table decides, the row changes by compare-and-set, the event is
 * written beside it. The API, the workers' reports and the sweeper all come through here.
 *
 * Every function works in the caller's transaction and notes whom to wake.
 */
#pragma once

#include "base/id.h"
#include "model/run_state.h"
#include "server/hub.h"
#include "store/store.h"

struct run_row {
    char id[ID_TEXT], environment_id[ID_TEXT], group_id[ID_TEXT], session_id[ID_TEXT];
    enum run_state state;
    enum run_status status;
    int64_t attempt, dispatches, lease_sequence;
    int64_t started_ms; /* 0: never */
    int64_t active_ms, active_since_ms;
    int64_t active_base_ms; /* of it, before the attempt was last begun from its start */
    int64_t max_duration_seconds;
    bool is_cancelled; /* was asked to end */
    bool cancel_force;
    struct str retry_policy, cancel_reason; /* in the arena */
};

/* ERR_NOT_FOUND when there is none. */
bool run_row_load(struct tx *tx, const char *run_id, struct arena *arena, struct run_row *run,
                  struct error *err) MUST_USE;

/* A move that neither queues nor finishes. ERR_CONFLICT when it is not legal, or when somebody
 * else moved the run meanwhile. *run follows. */
bool run_move(struct tx *tx, struct run_row *run, enum run_event on, struct wakes *wakes,
              struct error *err) MUST_USE;

/* A move back into the queue, to be given out from not_before_ms on. RUN_RETRY begins a new
 * attempt; every other event keeps it. */
bool run_requeue(struct tx *tx, struct run_row *run, enum run_event on, int64_t not_before_ms,
                 struct wakes *wakes, struct error *err) MUST_USE;

/* The same, to go on from a checkpoint: given out to workers that can read it. */
bool run_requeue_from(struct tx *tx, struct run_row *run, enum run_event on, int64_t not_before_ms,
                      const char *checkpoint_id, struct wakes *wakes, struct error *err) MUST_USE;

/* Ends a queued run that no worker started within its ttl. ERR_CONFLICT when one did. */
bool run_expire(struct tx *tx, const char *run_id, const char *source, struct arena *arena,
                struct wakes *wakes, struct error *err) MUST_USE;

/* How much longer the attempt may be active. */
int64_t run_active_left_ms(const struct run_row *run, int64_t now);

struct run_end {
    bool has_exit_code;
    int64_t exit_code;
    struct str output; /* JSON; ptr NULL: none */
    /* of a failure; layer NULL: none */
    const char *layer, *failure_kind;
    struct str message;
    struct str details; /* JSON object; ptr NULL: none */
    const char *source; /* of the event; NULL: control */
};

/* A move that finishes: row, queue, pending operations, an open wait and the last event. What was
 * asked to end ends cancelled, whatever is reported. */
bool run_finish(struct tx *tx, struct run_row *run, enum run_event on, const struct run_end *end,
                struct wakes *wakes, struct error *err) MUST_USE;
