/* `helmr env …`: the environments of a project, which only a person may manage. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static const struct field env_columns[] = {
    {"ID",    "id",        NULL},
    {"SLUG",  "slug",      NULL},
    {"NAME",  "name",      NULL},
    {"COLOR", "color_hex", NULL},
};

enum { LIST_COLUMNS = 3 }; /* a list has no colour */

static const struct field env_labels[] = {
    {"Environment",   "id",                   NULL},
    {"Project",       "project_id",           NULL},
    {"Slug",          "slug",                 NULL},
    {"Name",          "name",                 NULL},
    {"Color",         "color_hex",            NULL},
    {"Default",       "is_default",           NULL},
    {"Worker group",  "worker_group",         NULL},
    {"Least grade",   "min_grade",            NULL},
    {"Workspaces",    "limits.workspaces",    NULL},
    {"Storage bytes", "limits.storage_bytes", NULL},
    {"Created",       "created_at",           NULL},
    {"Updated",       "updated_at",           NULL},
};

/* Options and the members they set. */
static const struct {
    const char *option, *member;
} settings[] = {
    {"slug",         "slug"        },
    {"name",         "name"        },
    {"color",        "color_hex"   },
    {"worker-group", "worker_group"},
    {"min-grade",    "min_grade"   },
};

/* The path of the environment that is named, or with none of the list. */
static bool env_path(struct api *api, const char *name, const char **path, struct error *err)
{
    const char *project;

    if (!api_project(api, &project, err))
        return false;
    *path = arena_printf(&api->arena, "%s/environments%s%s", project, name ? "/" : "",
                         name ? api_part(api, name) : "");
    return true;
}

bool env_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct listing listing = {
        .field = "environments",
        .columns = env_columns,
        .n_columns = LIST_COLUMNS,
    };

    *exit_code = 0;
    return api_open(invocation, API_LOGIN, NULL, &api, err) &&
           env_path(&api, NULL, &listing.path, err) && output_list(&api, invocation, &listing, err);
}

bool env_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *path;
    struct str environment;

    *exit_code = 0;
    return api_open(invocation, API_LOGIN, NULL, &api, err) &&
           env_path(&api, invocation->args[0], &path, err) &&
           api_send(&api, "GET", path, (struct str){0}, &environment, err) &&
           output_object(&api, invocation, environment, env_labels, COUNT_OF(env_labels), err);
}

static bool send_body(const struct invocation *invocation, const char *method, const char *title,
                      const char *name, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    struct json_writer json = json_begin(&body);
    const char *path;
    struct str environment;

    json_open(&json, NULL);
    if (title)
        json_string(&json, "name", title);
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if (invocation_has(invocation, settings[i].option))
            json_string(&json, settings[i].member,
                        invocation_value(invocation, settings[i].option));
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_LOGIN, NULL, &api, err) ||
        !env_path(&api, name, &path, err) ||
        !api_send(&api, method, path, buf_str(&body), &environment, err))
        return false;
    output_row(&api, invocation, environment, env_columns, COUNT_OF(env_columns));
    return true;
}

bool env_create_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return send_body(invocation, "POST", invocation->args[0], NULL, err);
}

bool env_update_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    bool changes = false;

    *exit_code = 0;
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        changes = changes || invocation_has(invocation, settings[i].option);
    if (!changes)
        return error_set(err, ERR_INVALID, "say what changes: see `helmr env update --help`");
    return send_body(invocation, "PATCH", NULL, invocation->args[0], err);
}

bool env_delete_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *path;
    char question[160];
    bool agreed;

    *exit_code = 0;
    snprintf(question, sizeof question,
             "Delete the environment %.64s with its deployments, runs, secrets and keys?",
             invocation->args[0]);
    if (!invocation_confirm(invocation, question, &agreed, err))
        return false;
    if (!agreed) {
        *exit_code = 1;
        return true;
    }
    if (!api_open(invocation, API_LOGIN, NULL, &api, err) ||
        !env_path(&api, invocation->args[0], &path, err) ||
        !api_send(&api, "DELETE", path, (struct str){0}, NULL, err))
        return false;
    output_deleted(invocation, "environment", invocation->args[0]);
    return true;
}
