/* Slots that are due, and the runs they start.
 *
 * A slot, its run and the next slot are written in one transaction, and the slot is entered in
 * schedule_fires, so it starts one run, whichever server gets to it and however often. Many are
 * done in one transaction; when that fails each is tried alone, so that one holds up no other.
 */
#include "base/json.h"
#include "base/log.h"
#include "server/audit.h"
#include "server/run_start.h"
#include "server/schedule_store.h"
#include "store/queries.h"

enum {
    BATCH = 50,
    BATCHES_MAX = 100, /* of one pass: others in the sweeper have their turn, too */
    ATTEMPTS_MAX = 10,
    BACKOFF_MS = 1000,
    BACKOFF_MAX_MS = 5 * 60 * 1000,
    PAYLOAD_MAX = 8 * 1024,
};

struct fired {
    char run_id[ID_TEXT], schedule_id[ID_TEXT], environment_id[ID_TEXT];
    const char *project_id;
};

/* One transaction of the scheduler. */
struct firing {
    struct server *server;
    struct tx *tx;
    struct arena arena;
    int64_t now;
    struct wakes wakes;
    struct fired fired[BATCH];
    size_t n_fired;
};

static void firing_finish(struct firing *firing)
{
    store_rollback(&firing->tx);
    arena_finish(&firing->arena);
}

/* In the order of canonical JSON, as the task gets it. */
static bool write_payload(const struct schedule *schedule, const struct schedule_times *times,
                          int64_t slot, struct buf *out, struct error *err)
{
    int64_t upcoming[SCHEDULE_UPCOMING];
    size_t n = schedule_upcoming(times, slot, upcoming);
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    if (schedule->external_id.ptr)
        json_text(&json, "externalId", schedule->external_id);
    if (schedule->last_fire_ms)
        json_time(&json, "lastTimestamp", schedule->last_fire_ms);
    json_string(&json, "scheduleId", schedule->id);
    json_string(&json, "scheduleType", schedule->is_declarative ? "declarative" : "imperative");
    json_time(&json, "timestamp", slot);
    json_text(&json, "timezone", schedule->timezone);
    json_open_list(&json, "upcoming");
    for (size_t i = 0; i < n; i++)
        json_time(&json, NULL, upcoming[i]);
    json_close_list(&json);
    json_close(&json);
    return json_end(&json, err);
}

static bool write_cause(const struct schedule *schedule, int64_t slot, struct buf *out,
                        struct error *err)
{
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "kind", "schedule");
    json_string(&json, "schedule_id", schedule->id);
    json_time(&json, "fire_at", slot);
    json_close(&json);
    return json_end(&json, err);
}

static void remember(struct firing *firing, const struct schedule *schedule,
                     const struct run_start *start)
{
    struct fired *fired = &firing->fired[firing->n_fired++];

    memcpy(fired->run_id, start->run_id, ID_TEXT);
    memcpy(fired->schedule_id, schedule->id, ID_TEXT);
    memcpy(fired->environment_id, schedule->environment_id, ID_TEXT);
    fired->project_id = row_text(&start->found, 0, RUN_START_FIND_PROJECT_ID);
}

/* Starts the run of a slot, unless that was done. */
static bool start_run(struct firing *firing, const struct schedule *schedule, int64_t slot,
                      const struct run_spec *spec, struct error *err)
{
    AUTO(buf_finish) struct buf cause = {.max = PAYLOAD_MAX};
    struct run_start start = {.tx = firing->tx,
                              .arena = &firing->arena,
                              .environment_id = schedule->environment_id,
                              .spec = spec,
                              .reason = "schedule",
                              .source = "scheduler",
                              .drops_payload = true,
                              .now = firing->now};
    struct rows rows;

    run_start_make_ids(&start);
    if (!write_cause(schedule, slot, &cause, err) || !run_start_prepare(&start, err) ||
        !STORE(firing->tx, &schedule_fire_insert, &firing->arena, &rows, err, V_TEXT(schedule->id),
               V_INT(schedule->generation), V_INT(slot), V_TEXT(start.run_id), V_INT(firing->now)))
        return false;
    if (rows.n_changed == 0)
        return true;
    start.cause = buf_str(&cause);
    remember(firing, schedule, &start);
    return run_start_insert(&start, &firing->wakes, err);
}

static bool break_schedule(struct firing *firing, const struct schedule *schedule, const char *why,
                           struct error *err)
{
    log_warn("schedule errored", LOG_STR("schedule", schedule->id), LOG_STR("why", why));
    return STORE(firing->tx, &schedule_break, NULL, NULL, err, V_TEXT(schedule->id), V_TEXT(why),
                 V_INT(firing->now));
}

static bool go_on(struct firing *firing, const struct schedule *schedule,
                  const struct schedule_times *times, int64_t slot, struct error *err)
{
    int64_t next;

    if (!slot_next(&times->cron, &times->zone, slot, &next))
        return break_schedule(firing, schedule, "the cron expression matches no time to come", err);
    return STORE(firing->tx, &schedule_fired, NULL, NULL, err, V_TEXT(schedule->id), V_INT(slot),
                 V_INT(next), V_INT(next + schedule_jitter(firing->server, schedule->id)));
}

/* Only a promotion or an update helps against these. */
static bool is_lasting(enum error_code code)
{
    static const enum error_code lasting[] = {
        ERR_NO_CURRENT_DEPLOYMENT,
        ERR_TASK_NOT_FOUND,
        ERR_TASK_NOT_DEPLOYED,
        ERR_TASK_ARCHIVED,
        ERR_QUEUE_NOT_DECLARED,
        ERR_NOT_DEPLOYED,
        ERR_NOT_FOUND,
        ERR_CRON,
        ERR_TIMEZONE,
        ERR_INVALID,
    };

    for (size_t i = 0; i < COUNT_OF(lasting); i++)
        if (code == lasting[i])
            return true;
    return false;
}

static int64_t backoff(int64_t failures)
{
    int64_t delay = (int64_t)BACKOFF_MS << (failures - 1);

    return delay < BACKOFF_MAX_MS ? delay : BACKOFF_MAX_MS;
}

/* Later, or, after the last attempt, not at all: then the next slot has its turn. */
static bool postpone(struct firing *firing, const struct schedule *schedule,
                     const struct schedule_times *times, int64_t slot, const char *why,
                     struct error *err)
{
    int64_t failures = (slot == schedule->next_ms ? schedule->failures : 0) + 1;
    int64_t due = firing->now + backoff(failures);

    if (failures >= ATTEMPTS_MAX) {
        log_warn("schedule skips a slot", LOG_STR("schedule", schedule->id), LOG_STR("why", why));
        if (!slot_next(&times->cron, &times->zone, slot, &slot))
            return break_schedule(firing, schedule, why, err);
        failures = 0;
        due = slot + schedule_jitter(firing->server, schedule->id);
    }
    return STORE(firing->tx, &schedule_postpone, NULL, NULL, err, V_TEXT(schedule->id), V_INT(slot),
                 V_INT(due), V_INT(failures), V_TEXT(why));
}

/* The slot to fire: the latest that has come with the schedule's own offset. What was missed
 * before it is not made up for. */
static int64_t slot_due(const struct firing *firing, const struct schedule *schedule,
                        const struct schedule_times *times)
{
    return slot_latest(&times->cron, &times->zone, schedule->next_ms,
                       firing->now - schedule_jitter(firing->server, schedule->id));
}

static bool fire(struct firing *firing, const struct schedule *schedule, struct error *err)
{
    AUTO(buf_finish) struct buf payload = {.max = PAYLOAD_MAX};
    struct schedule_times times;
    struct run_spec spec;
    struct error why;

    if (!schedule_times(schedule, &firing->arena, &times, &why))
        return break_schedule(firing, schedule, why.text, err);
    int64_t slot = slot_due(firing, schedule, &times);
    if (write_payload(schedule, &times, slot, &payload, &why) &&
        schedule_spec(schedule, buf_str(&payload), &firing->arena, &spec, &why) &&
        start_run(firing, schedule, slot, &spec, &why))
        return go_on(firing, schedule, &times, slot, err);
    if (is_lasting(why.code))
        return break_schedule(firing, schedule, why.text, err);
    if (why.code == ERR_SECRET_MISSING)
        return postpone(firing, schedule, &times, slot, why.text, err);
    *err = why;
    return false;
}

/* Last, when no other row is to be locked any more. */
static bool audit_fired(struct firing *firing, struct error *err)
{
    for (size_t i = 0; i < firing->n_fired; i++) {
        const struct fired *fired = &firing->fired[i];
        const struct audit_entry entry = {.actor_type = "system",
                                          .actor_id = fired->schedule_id,
                                          .actor_name = "schedule",
                                          .action = "run.create",
                                          .project_id = fired->project_id,
                                          .environment_id = fired->environment_id,
                                          .subject = str_of(fired->run_id)};

        if (!audit_write(firing->tx, firing->server, &entry, err))
            return false;
    }
    return true;
}

static bool fire_rows(struct firing *firing, const struct rows *rows, struct error *err)
{
    for (size_t i = 0; i < rows->n_rows; i++) {
        struct schedule schedule;

        if (!schedule_read(rows, i, &schedule, err) || !fire(firing, &schedule, err))
            return false;
    }
    return audit_fired(firing, err) &&
           hub_commit(&firing->server->hub, &firing->tx, &firing->wakes, err);
}

/* One whose start fails by itself is put off like one that is refused. */
static bool put_off(struct server *server, const char *id, int64_t now, const char *why,
                    struct error *err)
{
    AUTO(firing_finish) struct firing firing = {.server = server, .now = now};
    struct schedule_times times;
    struct schedule schedule;
    struct rows rows;

    if (!store_begin(server->store, &firing.tx, err) ||
        !STORE(firing.tx, &schedule_claim, &firing.arena, &rows, err, V_TEXT(id), V_INT(now)))
        return false;
    return rows.n_rows == 0 ||
           (schedule_read(&rows, 0, &schedule, err) &&
            schedule_times(&schedule, &firing.arena, &times, err) &&
            postpone(&firing, &schedule, &times, slot_due(&firing, &schedule, &times), why, err) &&
            store_commit(&firing.tx, err));
}

static bool try_alone(struct server *server, const char *id, int64_t now, struct error *err)
{
    AUTO(firing_finish) struct firing firing = {.server = server, .now = now};
    struct rows rows;

    return store_begin(server->store, &firing.tx, err) &&
           STORE(firing.tx, &schedule_claim, &firing.arena, &rows, err, V_TEXT(id), V_INT(now)) &&
           fire_rows(&firing, &rows, err);
}

static void fire_alone(struct server *server, const char *id, int64_t now)
{
    struct error err, why;

    if (try_alone(server, id, now, &err) || err.code == ERR_UNAVAILABLE || store_is_retryable(&err))
        return;
    log_warn("schedule cannot start its run", LOG_STR("schedule", id), LOG_ERR(&err));
    if (!put_off(server, id, now, err.text, &why))
        log_warn("schedule cannot be put off", LOG_STR("schedule", id), LOG_ERR(&why));
}

static bool fire_batch(struct firing *firing, struct rows *rows, struct error *err)
{
    return store_begin(firing->server->store, &firing->tx, err) &&
           STORE(firing->tx, &schedules_claim, &firing->arena, rows, err, V_INT(firing->now),
                 V_INT(BATCH)) &&
           (rows->n_rows == 0 || fire_rows(firing, rows, err));
}

/* How many there were. */
static size_t fire_some(struct server *server, int64_t now)
{
    AUTO(firing_finish) struct firing firing = {.server = server, .now = now};
    struct rows rows = {0};
    struct error err;

    if (fire_batch(&firing, &rows, &err))
        return rows.n_rows;
    store_rollback(&firing.tx);
    if (rows.n_rows == 0)
        log_warn("schedules cannot be read", LOG_ERR(&err));
    for (size_t i = 0; i < rows.n_rows; i++)
        fire_alone(server, row_text(&rows, i, SCHEDULES_CLAIM_ID), now);
    return rows.n_rows;
}

/* Most of the time nothing is: then nobody who writes is kept waiting. */
static bool is_any_due(struct server *server, int64_t now)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;

    if (store_begin_read(server->store, &tx, &err) &&
        STORE(tx, &schedules_due, &arena, &rows, &err, V_INT(now)))
        return rows.n_rows > 0;
    log_warn("schedules cannot be read", LOG_ERR(&err));
    return false;
}

void schedules_fire(struct server *server, int64_t now)
{
    if (!is_any_due(server, now))
        return;
    for (int i = 0; i < BATCHES_MAX; i++)
        if (fire_some(server, now) < BATCH)
            return;
}
