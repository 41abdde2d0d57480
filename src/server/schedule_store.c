#include "server/schedule_store.h"

#include "base/hash.h"
#include "base/json.h"
#include "server/run_start.h"
#include "server/zones.h"
#include "store/queries.h"

enum { SPEC_MAX = 512 * 1024 };

bool schedule_read(const struct rows *rows, size_t row, struct schedule *schedule,
                   struct error *err)
{
    *schedule = (struct schedule){
        .is_declarative = str_equal(row_str(rows, row, SCHEDULE_GET_TYPE), STR("declarative")),
        .key = row_str(rows, row, SCHEDULE_GET_DEDUPLICATION_KEY),
        .task_id = row_str(rows, row, SCHEDULE_GET_TASK_ID),
        .cron = row_str(rows, row, SCHEDULE_GET_CRON),
        .timezone = row_str(rows, row, SCHEDULE_GET_TIMEZONE),
        .external_id = row_str(rows, row, SCHEDULE_GET_EXTERNAL_ID),
        .options = row_str(rows, row, SCHEDULE_GET_OPTIONS),
        .secret_bindings = row_str(rows, row, SCHEDULE_GET_SECRET_BINDINGS),
        .is_pinned = row_int(rows, row, SCHEDULE_GET_PINNED),
        .last_error = row_str(rows, row, SCHEDULE_GET_LAST_ERROR),
        .generation = row_int(rows, row, SCHEDULE_GET_GENERATION),
        .next_ms = row_int(rows, row, SCHEDULE_GET_NEXT_FIRE_MS),
        .due_ms = row_int(rows, row, SCHEDULE_GET_DUE_MS),
        .failures = row_int(rows, row, SCHEDULE_GET_FAILURES),
        .last_fire_ms = row_int(rows, row, SCHEDULE_GET_LAST_FIRE_MS),
    };
    row_id(rows, row, SCHEDULE_GET_ID, schedule->id);
    row_id(rows, row, SCHEDULE_GET_ENVIRONMENT_ID, schedule->environment_id);
    return schedule_state_parse(row_str(rows, row, SCHEDULE_GET_STATUS), &schedule->state) ||
           error_set(err, ERR_INTERNAL, "schedule %s is in no known state", schedule->id);
}

bool schedule_load(struct tx *tx, const char *environment_id, const char *id, struct arena *arena,
                   struct schedule *schedule, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &schedule_lock, arena, &rows, err, V_TEXT(environment_id), V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no schedule %s", id);
    return schedule_read(&rows, 0, schedule, err);
}

bool schedule_times(const struct schedule *schedule, struct arena *arena,
                    struct schedule_times *times, struct error *err)
{
    return cron_parse(schedule->cron, &times->cron, err) &&
           zones_find(schedule->timezone, arena, &times->zone, err);
}

size_t schedule_upcoming(const struct schedule_times *times, int64_t after_ms,
                         int64_t slots[SCHEDULE_UPCOMING])
{
    size_t n = 0;

    while (n < SCHEDULE_UPCOMING && slot_next(&times->cron, &times->zone, after_ms, &after_ms))
        slots[n++] = after_ms;
    return n;
}

int64_t schedule_jitter(const struct server *server, const char *id)
{
    const struct str pieces[] = {STR("schedule"), str_of(id)};
    int64_t most = server->config->schedule_jitter_ms;
    uint8_t hash[BLAKE2B_LEN];
    uint32_t number = 0;

    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), hash);
    for (size_t i = 0; i < sizeof number; i++)
        number = number << 8 | hash[i];
    return most > 0 ? number % most : 0;
}

bool schedule_arm(const struct server *server, struct schedule *schedule,
                  const struct schedule_times *times, int64_t now, struct error *err)
{
    int64_t next;

    if (!slot_next(&times->cron, &times->zone, now, &next))
        return error_set(err, ERR_CRON, "the cron expression matches no time to come");
    if (schedule->state != SCHEDULE_ACTIVE &&
        !schedule_state_apply(&schedule->state, schedule->state == SCHEDULE_ERRORED
                                                    ? SCHEDULE_MEND
                                                    : SCHEDULE_ACTIVATE))
        return error_set(err, ERR_CONFLICT, "the schedule cannot become active");
    schedule->next_ms = next;
    schedule->due_ms = next + schedule_jitter(server, schedule->id);
    schedule->last_error = (struct str){0};
    schedule->generation++;
    return true;
}

void schedule_break_for(struct schedule *schedule, struct str reason)
{
    /* One that is errored stays so, for another reason. */
    (void)schedule_state_apply(&schedule->state, SCHEDULE_BREAK);
    schedule->last_error = reason;
    schedule->next_ms = schedule->due_ms = 0;
}

bool schedule_switch_off(struct schedule *schedule, struct error *err)
{
    if (schedule->state == SCHEDULE_INACTIVE)
        return true;
    if (!schedule_state_apply(&schedule->state, SCHEDULE_DEACTIVATE))
        return error_set(err, ERR_CONFLICT, "a schedule that is %s cannot be deactivated",
                         schedule_state_name(schedule->state));
    schedule->next_ms = schedule->due_ms = 0;
    schedule->generation++;
    return true;
}

bool schedule_spec(const struct schedule *schedule, struct str payload, struct arena *arena,
                   struct run_spec *spec, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = SPEC_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_text(&json, "task_id", schedule->task_id);
    json_raw(&json, "payload", payload);
    if (schedule->secret_bindings.ptr)
        json_raw(&json, "secrets", schedule->secret_bindings);
    json_raw(&json, "options", schedule->options);
    json_close(&json);
    return json_end(&json, err) && run_spec_parse(buf_str(&text), arena, spec, err);
}

bool schedule_check_task(struct tx *tx, const struct schedule *schedule, struct arena *arena,
                         int64_t now, struct error *err)
{
    struct run_spec spec;
    struct run_start start = {.tx = tx,
                              .arena = arena,
                              .environment_id = schedule->environment_id,
                              .spec = &spec,
                              .drops_payload = true,
                              .now = now};

    return schedule_spec(schedule, STR("{}"), arena, &spec, err) &&
           (run_start_prepare(&start, err) || start.secrets.missing.ptr);
}

static struct value moment(int64_t ms)
{
    return ms ? V_INT(ms) : V_NULL;
}

bool schedule_write_new(struct tx *tx, const struct schedule *schedule, int64_t now, bool *is_new,
                        struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &schedule_insert, &arena, &rows, err, V_TEXT(schedule->id),
               V_TEXT(schedule->environment_id),
               V_TEXT(schedule->is_declarative ? "declarative" : "imperative"),
               V_STR(schedule->key), V_STR(schedule->task_id), V_STR(schedule->cron),
               V_STR(schedule->timezone), V_STR_OR_NULL(schedule->external_id),
               V_TEXT(schedule_state_name(schedule->state)), V_STR_OR_NULL(schedule->last_error),
               V_STR(schedule->options), V_STR_OR_NULL(schedule->secret_bindings),
               V_INT(schedule->is_pinned), moment(schedule->next_ms), moment(schedule->due_ms),
               V_INT(now)))
        return false;
    *is_new = rows.n_changed == 1;
    return true;
}

bool schedule_write(struct tx *tx, const struct schedule *schedule, int64_t now, struct error *err)
{
    return STORE(tx, &schedule_update, NULL, NULL, err, V_TEXT(schedule->id),
                 V_STR(schedule->task_id), V_STR(schedule->cron), V_STR(schedule->timezone),
                 V_STR_OR_NULL(schedule->external_id), V_TEXT(schedule_state_name(schedule->state)),
                 V_STR_OR_NULL(schedule->last_error), V_STR(schedule->options),
                 V_STR_OR_NULL(schedule->secret_bindings), V_INT(schedule->is_pinned),
                 V_INT(schedule->generation), moment(schedule->next_ms), moment(schedule->due_ms),
                 V_INT(now));
}

bool schedule_remove(struct tx *tx, const char *id, struct error *err)
{
    return STORE(tx, &schedule_fires_delete, NULL, NULL, err, V_TEXT(id)) &&
           STORE(tx, &schedule_delete, NULL, NULL, err, V_TEXT(id));
}
