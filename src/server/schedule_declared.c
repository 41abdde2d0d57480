/* Schedules and the deployment that is current: declared ones follow it, others need their task
 * in it. */
#include "base/json.h"
#include "server/schedule_store.h"
#include "store/queries.h"

struct declared {
    struct str cron, timezone, secret_bindings; /* the bindings: raw */
};

static const struct json_field declared_fields[] = {
    {"cron", JSON_TEXT, offsetof(struct declared, cron), REQUIRED, .max = CRON_TEXT_MAX},
    {"timezone", JSON_TEXT, offsetof(struct declared, timezone), REQUIRED, .max = ZONE_NAME_MAX},
    {"secret_bindings", JSON_RAW, offsetof(struct declared, secret_bindings), OPTIONAL},
    {0},
};

struct list {
    struct json_list schedules;
};

static const struct json_field list_fields[] = {
    {"schedules", JSON_LIST, offsetof(struct list, schedules), REQUIRED, .max = 1,
     .fields = declared_fields, .size = sizeof(struct declared)},
    {0},
};

struct reconcile {
    struct server *server;
    struct tx *tx;
    const char *environment_id;
    int64_t now;
    struct arena *arena;
};

static bool read_list(struct str text, struct arena *arena, struct list *list, struct error *err)
{
    struct str whole = str_of(arena_printf(arena, "{\"schedules\":%.*s}", (int)text.len, text.ptr));

    return json_read(whole, list_fields, list, sizeof *list, arena, err);
}

bool schedule_declared_check(struct str text, struct arena *arena, struct error *err)
{
    struct list list;

    return read_list(text, arena, &list, err);
}

/* Active from its next slot on, or errored, which is no reason to refuse the promotion. */
static void settle(const struct reconcile *reconcile, struct schedule *schedule)
{
    struct schedule_times times;
    struct error why;

    if (!schedule_times(schedule, reconcile->arena, &times, &why) ||
        !schedule_check_task(reconcile->tx, schedule, reconcile->arena, reconcile->now, &why) ||
        !schedule_arm(reconcile->server, schedule, &times, reconcile->now, &why))
        schedule_break_for(schedule, str_of(arena_printf(reconcile->arena, "%s", why.text)));
}

static bool is_same(const struct schedule *schedule, const struct declared *declared)
{
    return schedule->state == SCHEDULE_ACTIVE && str_equal(schedule->cron, declared->cron) &&
           str_equal(schedule->timezone, declared->timezone);
}

static bool follow(const struct reconcile *reconcile, const char *id, struct str task_id,
                   const struct declared *declared, struct error *err)
{
    struct schedule schedule = {.is_declarative = true,
                                .key = task_id,
                                .task_id = task_id,
                                .options = STR("{}")};
    bool is_known = id[0] != '\0', is_new;

    if (is_known && !schedule_load(reconcile->tx, reconcile->environment_id, id, reconcile->arena,
                                   &schedule, err))
        return false;
    /* What goes on as it was keeps its next slot, which may be due at this moment. */
    bool keeps_slot = is_known && is_same(&schedule, declared);
    if (!is_known) {
        id_make(schedule.id);
        memcpy(schedule.environment_id, reconcile->environment_id, ID_TEXT);
    }
    schedule.cron = declared->cron;
    schedule.timezone = declared->timezone;
    schedule.secret_bindings = declared->secret_bindings;
    if (!keeps_slot)
        settle(reconcile, &schedule);
    return is_known ? schedule_write(reconcile->tx, &schedule, reconcile->now, err)
                    : schedule_write_new(reconcile->tx, &schedule, reconcile->now, &is_new, err);
}

/* The id of the schedule that a task had before, or "". Found ones are marked. */
static const char *find_known(const struct rows *known, bool *is_kept, struct str task_id)
{
    for (size_t i = 0; i < known->n_rows; i++) {
        if (str_equal(row_str(known, i, SCHEDULES_DECLARED_DEDUPLICATION_KEY), task_id)) {
            is_kept[i] = true;
            return row_text(known, i, SCHEDULES_DECLARED_ID);
        }
    }
    return "";
}

static bool follow_all(const struct reconcile *reconcile, const char *deployment_id,
                       struct error *err)
{
    struct rows known, wanted;

    if (!STORE(reconcile->tx, &schedules_declared, reconcile->arena, &known, err,
               V_TEXT(reconcile->environment_id)) ||
        !STORE(reconcile->tx, &deployment_schedules, reconcile->arena, &wanted, err,
               V_TEXT(deployment_id)))
        return false;
    bool *is_kept = arena_array(reconcile->arena, known.n_rows + 1, sizeof *is_kept);
    for (size_t i = 0; i < wanted.n_rows; i++) {
        struct str task_id = row_str(&wanted, i, DEPLOYMENT_SCHEDULES_TASK_ID);
        struct list list;

        if (!read_list(row_str(&wanted, i, DEPLOYMENT_SCHEDULES_SCHEDULES), reconcile->arena, &list,
                       err) ||
            (list.schedules.n == 1 && !follow(reconcile, find_known(&known, is_kept, task_id),
                                              task_id, list.schedules.items, err)))
            return false;
    }
    for (size_t i = 0; i < known.n_rows; i++)
        if (!is_kept[i] &&
            !schedule_remove(reconcile->tx, row_text(&known, i, SCHEDULES_DECLARED_ID), err))
            return false;
    return true;
}

static bool mend_all(const struct reconcile *reconcile, const char *deployment_id,
                     struct error *err)
{
    struct rows rows;

    if (!STORE(reconcile->tx, &schedules_mendable, reconcile->arena, &rows, err,
               V_TEXT(reconcile->environment_id), V_TEXT(deployment_id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct schedule schedule;

        if (!schedule_load(reconcile->tx, reconcile->environment_id,
                           row_text(&rows, i, SCHEDULES_MENDABLE_ID), reconcile->arena, &schedule,
                           err))
            return false;
        settle(reconcile, &schedule);
        if (!schedule_write(reconcile->tx, &schedule, reconcile->now, err))
            return false;
    }
    return true;
}

bool schedules_reconcile(struct server *server, struct tx *tx, const char *environment_id,
                         const char *deployment_id, int64_t now, struct arena *arena,
                         struct error *err)
{
    const struct reconcile reconcile = {
        .server = server, .tx = tx, .environment_id = environment_id, .now = now, .arena = arena};

    return follow_all(&reconcile, deployment_id, err) &&
           STORE(tx, &schedules_break, NULL, NULL, err, V_TEXT(environment_id),
                 V_TEXT(deployment_id), V_TEXT("the current deployment has no such task"),
                 V_INT(now)) &&
           mend_all(&reconcile, deployment_id, err);
}
