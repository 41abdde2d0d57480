/* Schedules as rows: read, judged by what they would start, and written.
 *
 * Every function works in the caller's transaction. Text of a schedule is borrowed: from the rows
 * it was read from, or from the request.
 */
#pragma once

#include "base/arena.h"
#include "base/id.h"
#include "model/schedule_state.h"
#include "model/slot.h"
#include "server/context.h"
#include "server/run_spec.h"
#include "store/store.h"

enum { SCHEDULE_UPCOMING = 5 };

struct schedule {
    char id[ID_TEXT], environment_id[ID_TEXT];
    bool is_declarative;
    struct str key, task_id, cron, timezone;
    struct str external_id;     /* ptr NULL: none */
    struct str options;         /* as of a start, canonical JSON */
    struct str secret_bindings; /* canonical JSON; ptr NULL: none were given */
    bool is_pinned;             /* to a deployment, whatever is promoted */
    enum schedule_state state;
    struct str last_error; /* ptr NULL: none */
    int64_t generation;
    int64_t next_ms, due_ms; /* while active: the slot, and when to look at it */
    int64_t failures;        /* starts of this slot that did not come off */
    int64_t last_fire_ms;    /* 0: never */
};

/* From a row of schedule_get or of a query with the same columns. */
bool schedule_read(const struct rows *rows, size_t row, struct schedule *schedule,
                   struct error *err) MUST_USE;

/* By id, locked; ERR_NOT_FOUND. */
bool schedule_load(struct tx *tx, const char *environment_id, const char *id, struct arena *arena,
                   struct schedule *schedule, struct error *err) MUST_USE;

struct schedule_times {
    struct cron cron;
    struct zone zone;
};

/* ERR_CRON, ERR_TIMEZONE. */
bool schedule_times(const struct schedule *schedule, struct arena *arena,
                    struct schedule_times *times, struct error *err) MUST_USE;

/* Up to five slots after an instant; how many there are. */
size_t schedule_upcoming(const struct schedule_times *times, int64_t after_ms,
                         int64_t slots[SCHEDULE_UPCOMING]);

/* How much later than its slot a schedule is looked at, so that not all of them start at once. */
int64_t schedule_jitter(const struct server *server, const char *id);

/* Active from the first slot after now on, in a new generation; ERR_CRON when none will come. */
bool schedule_arm(const struct server *server, struct schedule *schedule,
                  const struct schedule_times *times, int64_t now, struct error *err) MUST_USE;
/* No slot any more: it cannot fire, or shall not. */
void schedule_break_for(struct schedule *schedule, struct str reason);
bool schedule_switch_off(struct schedule *schedule, struct error *err) MUST_USE;

/* The request that a slot makes. */
bool schedule_spec(const struct schedule *schedule, struct str payload, struct arena *arena,
                   struct run_spec *spec, struct error *err) MUST_USE;

/* Whether the task could be started now, but for its secrets, which may come later. */
bool schedule_check_task(struct tx *tx, const struct schedule *schedule, struct arena *arena,
                         int64_t now, struct error *err) MUST_USE;

/* *is_new is false when there is one with this key already; nothing is written then. */
bool schedule_write_new(struct tx *tx, const struct schedule *schedule, int64_t now, bool *is_new,
                        struct error *err) MUST_USE;
bool schedule_write(struct tx *tx, const struct schedule *schedule, int64_t now,
                    struct error *err) MUST_USE;
bool schedule_remove(struct tx *tx, const char *id, struct error *err) MUST_USE;

/* What a build says that a task declares, by its form: a cron expression that means nothing is
 * found when it is promoted. */
bool schedule_declared_check(struct str text, struct arena *arena, struct error *err) MUST_USE;

/* What a promotion does to the schedules of its environment, in its transaction: declared ones
 * become what the deployment says, others break or are mended by what it has. */
bool schedules_reconcile(struct server *server, struct tx *tx, const char *environment_id,
                         const char *deployment_id, int64_t now, struct arena *arena,
                         struct error *err) MUST_USE;

/* Starts the runs of all slots that are due. */
void schedules_fire(struct server *server, int64_t now);
