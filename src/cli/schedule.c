/* `helmr schedule …`: runs that start by the clock. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static const struct option create_options[] = {
    {"key", 0, OPTION_VALUE, "KEY", "The same key again updates the same schedule."},
    {"task", 0, OPTION_VALUE, "TASK", "The task to start."},
    {"cron", 0, OPTION_VALUE, "CRON", "Five fields: minute hour day month weekday."},
    {"timezone", 0, OPTION_VALUE, "ZONE", "IANA name of a time zone (UTC)."},
    {"external-id", 0, OPTION_VALUE, "ID", "An id of yours, which the task gets."},
    {"inactive", 0, OPTION_FLAG, NULL, "Fire nothing until it is activated."},
    {0},
};

static const struct option list_options[] = {
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

static const struct option delete_options[] = {
    {"yes", 'y', OPTION_FLAG, NULL, "Do not ask."},
    {0},
};

static const struct field schedule_columns[] = {
    {"ID",       "id",           NULL},
    {"TASK",     "task",         NULL},
    {"CRON",     "cron",         NULL},
    {"TIMEZONE", "timezone",     NULL},
    {"STATUS",   "status",       NULL},
    {"NEXT",     "next_fire_at", NULL},
};

static const struct field schedule_labels[] = {
    {"Schedule", "id",                NULL},
    {"Type",     "type",              NULL},
    {"Key",      "deduplication_key", NULL},
    {"Task",     "task",              NULL},
    {"Cron",     "cron",              NULL},
    {"Timezone", "timezone",          NULL},
    {"External", "external_id",       NULL},
    {"Status",   "status",            NULL},
    {"Error",    "last_error",        NULL},
    {"Options",  "options",           NULL},
    {"Secrets",  "secret_bindings",   NULL},
    {"Next",     "next_fire_at",      NULL},
    {"Last",     "last_fire_at",      NULL},
    {"Upcoming", "upcoming",          NULL},
    {"Created",  "created_at",        NULL},
    {"Updated",  "updated_at",        NULL},
};

static bool list(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const struct listing listing = {
        .path = api_path(&api, "/schedules"),
        .field = "schedules",
        .columns = schedule_columns,
        .n_columns = COUNT_OF(schedule_columns),
    };
    return output_list(&api, invocation, &listing, err);
}

/* `verb` is "" or one that begins with a slash. */
static bool ask(struct api *api, const struct invocation *invocation, const char *method,
                const char *verb, struct str *answer, struct error *err)
{
    const char *path = api_path(api, "/schedules/%s%s", api_part(api, invocation->args[0]), verb);

    return api_send(api, method, path, (struct str){0}, answer, err);
}

static bool get(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str schedule;

    *exit_code = 0;
    return api_open(invocation, API_ANY, NULL, &api, err) &&
           ask(&api, invocation, "GET", "", &schedule, err) &&
           output_object(&api, invocation, schedule, schedule_labels, COUNT_OF(schedule_labels),
                         err);
}

/* Prints `<id> <status>`. */
static bool change(const struct invocation *invocation, const char *verb, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str schedule;

    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !ask(&api, invocation, "POST", verb, &schedule, err))
        return false;
    if (invocation_has(invocation, "json")) {
        output_line(schedule);
        return true;
    }
    struct str id = output_value(schedule, "id", &api.arena);
    struct str status = output_value(schedule, "status", &api.arena);
    output_line(str_of(
        arena_printf(&api.arena, "%.*s %.*s", (int)id.len, id.ptr, (int)status.len, status.ptr)));
    return true;
}

static bool activate(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return change(invocation, "/activate", err);
}

static bool deactivate(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return change(invocation, "/deactivate", err);
}

static bool delete_one(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    char question[256];
    bool agreed;

    *exit_code = 0;
    snprintf(question, sizeof question, "Delete the schedule %s? Its runs stay.",
             invocation->args[0]);
    if (!invocation_confirm(invocation, question, &agreed, err))
        return false;
    if (!agreed) {
        *exit_code = 1;
        return true;
    }
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !ask(&api, invocation, "DELETE", "", NULL, err))
        return false;
    output_deleted(invocation, "schedule", invocation->args[0]);
    return true;
}

static bool write_request(const struct invocation *invocation, struct json_writer *json,
                          struct error *err)
{
    static const struct {
        const char *option, *field;
        bool is_required;
    } parts[] = {
        {"key",         "deduplication_key", true },
        {"task",        "task",              true },
        {"cron",        "cron",              true },
        {"timezone",    "timezone",          false},
        {"external-id", "external_id",       false},
    };

    json_open(json, NULL);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        const char *value = invocation_value(invocation, parts[i].option);

        if (!value && parts[i].is_required)
            return error_set(err, ERR_INVALID, "--%s is required", parts[i].option);
        if (value)
            json_string(json, parts[i].field, value);
    }
    if (invocation_has(invocation, "inactive"))
        json_string(json, "status", "inactive");
    json_close(json);
    return json_end(json, err);
}

static bool create(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    struct json_writer json = json_begin(&body);
    struct str schedule;

    *exit_code = 0;
    if (!write_request(invocation, &json, err) || !api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "POST", api_path(&api, "/schedules"), buf_str(&body), &schedule, err))
        return false;
    output_line(invocation_has(invocation, "json") ? schedule
                                                   : output_value(schedule, "id", &api.arena));
    return true;
}

const struct command schedule_commands[] = {
    {
     .name = "schedule list",
     .summary = "list schedules, newest first",
     .help = "Columns: ID, TASK, CRON, TIMEZONE, STATUS, NEXT.\n\n  helmr schedule list",
     .options = list_options,
     .common = cli_scope_options,
     .run = list,
     },
    {
     .name = "schedule get",
     .args = "SCHEDULE",
     .summary = "show one schedule and when it fires next",
     .help = "  helmr schedule get 01981f4e-…",
     .common = cli_scope_options,
     .run = get,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "schedule create",
     .summary = "start a task by the clock",
     .help =
            "Prints the schedule's id. The same --key again updates the same schedule.\n\n"
            "  helmr schedule create --key nightly --task report --cron '0 3 * * *'\n"
            "  helmr schedule create --key work --task report --cron '*/15 9-17 * * MON-FRI' \\\n"
            "    --timezone Europe/Berlin", .options = create_options,
     .common = cli_scope_options,
     .run = create,
     },
    {
     .name = "schedule activate",
     .args = "SCHEDULE",
     .summary = "let a schedule fire",
     .help = "It begins with its next time; what was missed is not made up for.\n\n"
                "  helmr schedule activate 01981f4e-…", .common = cli_scope_options,
     .run = activate,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "schedule deactivate",
     .args = "SCHEDULE",
     .summary = "let a schedule fire no more",
     .help = "Runs that it started go on.\n\n  helmr schedule deactivate 01981f4e-…",
     .common = cli_scope_options,
     .run = deactivate,
     .min_args = 1,
     .max_args = 1,
     },
    {
     .name = "schedule delete",
     .args = "SCHEDULE",
     .summary = "delete a schedule",
     .help = "One that a task declares in its source is changed there.\n\n"
                "  helmr schedule delete 01981f4e-… --yes", .options = delete_options,
     .common = cli_scope_options,
     .run = delete_one,
     .min_args = 1,
     .max_args = 1,
     },
};

const size_t n_schedule_commands = COUNT_OF(schedule_commands);
