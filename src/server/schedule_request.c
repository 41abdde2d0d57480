#include "server/schedule_request.h"

#include "base/json.h"
#include "model/name.h"
#include "server/page.h"

enum { OPTIONS_MAX = 8 * 1024, BINDINGS_MAX = 64, BINDINGS_TEXT_MAX = 64 * 1024 };

struct body {
    struct str key, task, cron, timezone, external_id, status, options;
    struct json_map secret_bindings;
    bool has_bindings;
};

#define AT(member) offsetof(struct body, member)

#define FIELDS_BESIDE_KEY                                                                          \
    {"task", JSON_TEXT, AT(task), REQUIRED, .max = 128},                                           \
        {"cron", JSON_TEXT, AT(cron), REQUIRED, .max = CRON_TEXT_MAX},                             \
        {"timezone", JSON_TEXT, AT(timezone), OPTIONAL, .max = ZONE_NAME_MAX},                     \
        {"external_id", JSON_TEXT, AT(external_id), OPTIONAL, .max = 512},                         \
        {"status", JSON_TEXT, AT(status), OPTIONAL, .max = 16},                                    \
        {"secret_bindings",          JSON_MAP, AT(secret_bindings), OPTIONAL, .max = BINDINGS_MAX, \
         .present = AT(has_bindings)},                                                             \
        {"options", JSON_RAW, AT(options), OPTIONAL, .max = OPTIONS_MAX}, {0}

static const struct json_field post_fields[] = {
    {"deduplication_key", JSON_TEXT, AT(key), REQUIRED, .max = 128},
    FIELDS_BESIDE_KEY,
};

static const struct json_field put_fields[] = {FIELDS_BESIDE_KEY};

/* The options of a start that a schedule may carry; their values are checked as those of a start.
 */
struct options {
    struct str deployment_id, queue, concurrency_key, priority, ttl, max_duration_seconds;
};

static const struct json_field options_fields[] = {
    {"deployment_id", JSON_RAW, offsetof(struct options, deployment_id), OPTIONAL},
    {"queue", JSON_RAW, offsetof(struct options, queue), OPTIONAL},
    {"concurrency_key", JSON_RAW, offsetof(struct options, concurrency_key), OPTIONAL},
    {"priority", JSON_RAW, offsetof(struct options, priority), OPTIONAL},
    {"ttl", JSON_RAW, offsetof(struct options, ttl), OPTIONAL},
    {"max_duration_seconds", JSON_RAW, offsetof(struct options, max_duration_seconds), OPTIONAL},
    {0},
};

static bool is_given(struct str raw)
{
    return raw.ptr && !str_equal(raw, STR("null"));
}

static bool read_options(struct str raw, struct arena *arena, struct schedule_request *request,
                         struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = OPTIONS_MAX};
    struct options options;

    request->options = STR("{}");
    if (!is_given(raw))
        return true;
    if (!json_read(raw, options_fields, &options, sizeof options, arena, err))
        return error_wrap(err, "/options");
    if (!json_canonical(raw, OPTIONS_MAX, &text, err))
        return false;
    request->options = arena_str(arena, buf_str(&text));
    request->is_pinned = is_given(options.deployment_id);
    return true;
}

static bool read_bindings(const struct json_map *map, struct arena *arena,
                          struct schedule_request *request, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = BINDINGS_TEXT_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    for (size_t i = 0; i < map->n; i++)
        json_text(&json, arena_text(arena, map->pairs[i].name), map->pairs[i].value);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    request->secret_bindings = arena_str(arena, buf_str(&text));
    return true;
}

static bool read_wish(struct str status, enum schedule_wish *wish, struct error *err)
{
    *wish = !status.ptr                          ? WISH_NONE
            : str_equal(status, STR("inactive")) ? WISH_INACTIVE
                                                 : WISH_ACTIVE;
    return *wish != WISH_ACTIVE || str_equal(status, STR("active")) ||
           error_set(err, ERR_INVALID, "/status must be active or inactive");
}

bool schedule_request_read(struct call *call, bool has_key, struct schedule_request *request,
                           struct error *err)
{
    struct body body;

    if (!call_body(call, has_key ? post_fields : put_fields, &body, sizeof body, err))
        return false;
    *request = (struct schedule_request){
        .key = body.key,
        .task_id = body.task,
        .cron = body.cron,
        .timezone = body.timezone.ptr ? body.timezone : STR("UTC"),
        .external_id = body.external_id,
    };
    return (!has_key || name_check(NAME_ID, "/deduplication_key", body.key, err)) &&
           name_check(NAME_ID, "/task", body.task, err) &&
           (!body.external_id.ptr ||
            name_check(NAME_EXTERNAL, "/external_id", body.external_id, err)) &&
           read_wish(body.status, &request->wish, err) &&
           read_options(body.options, call->arena, request, err) &&
           (!body.has_bindings || read_bindings(&body.secret_bindings, call->arena, request, err));
}

bool schedule_request_apply(const struct schedule_request *request, struct server *server,
                            struct tx *tx, bool is_new, int64_t now, struct arena *arena,
                            struct schedule *schedule, struct error *err)
{
    /* A slot that is due at this moment is not lost by a change of something else. */
    bool keeps_slot = !is_new && schedule->state == SCHEDULE_ACTIVE &&
                      str_equal(schedule->cron, request->cron) &&
                      str_equal(schedule->timezone, request->timezone);
    bool stays_off = request->wish == WISH_INACTIVE ||
                     (request->wish == WISH_NONE && schedule->state == SCHEDULE_INACTIVE);
    struct schedule_times times;

    schedule->task_id = request->task_id;
    schedule->cron = request->cron;
    schedule->timezone = request->timezone;
    schedule->external_id = request->external_id;
    schedule->options = request->options;
    schedule->secret_bindings = request->secret_bindings;
    schedule->is_pinned = request->is_pinned;
    if (!schedule_times(schedule, arena, &times, err) ||
        !schedule_check_task(tx, schedule, arena, now, err))
        return false;
    /* Also what shall be off must be able to fire. */
    return (keeps_slot || schedule_arm(server, schedule, &times, now, err)) &&
           (!stays_off || schedule_switch_off(schedule, err));
}
