/* `helmr project …`: the projects of the organization, which only a person may manage. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static const struct field project_columns[] = {
    {"ID",   "id",   NULL},
    {"SLUG", "slug", NULL},
    {"NAME", "name", NULL},
};

static struct str show_environments(struct str project, struct arena *arena)
{
    const char *text = "";
    struct str slug;

    for (size_t i = 0;
         json_find_text(project, arena_printf(arena, "environments.%zu.slug", i), arena, &slug);
         i++)
        text = arena_printf(arena, "%s%s%.*s", text, *text ? " " : "", (int)slug.len, slug.ptr);
    return str_of(text);
}

static const struct field project_labels[] = {
    {"Project",      "id",         NULL             },
    {"Slug",         "slug",       NULL             },
    {"Name",         "name",       NULL             },
    {"Default",      "is_default", NULL             },
    {"Environments", NULL,         show_environments},
    {"Created",      "created_at", NULL             },
    {"Updated",      "updated_at", NULL             },
};

bool project_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const struct listing listing = {
        .path = "/api/projects",
        .field = "projects",
        .columns = project_columns,
        .n_columns = COUNT_OF(project_columns),
    };

    *exit_code = 0;
    return api_open(invocation, API_LOGIN, NULL, &api, err) &&
           output_list(&api, invocation, &listing, err);
}

static const char *project_path(struct api *api, const struct invocation *invocation)
{
    return arena_printf(&api->arena, "/api/projects/%s", api_part(api, invocation->args[0]));
}

bool project_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str project;

    *exit_code = 0;
    return api_open(invocation, API_LOGIN, NULL, &api, err) &&
           api_send(&api, "GET", project_path(&api, invocation), (struct str){0}, &project, err) &&
           output_object(&api, invocation, project, project_labels, COUNT_OF(project_labels), err);
}

static bool send_body(const struct invocation *invocation, const char *method, const char *name,
                      struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    struct json_writer json = json_begin(&body);
    const char *slug = invocation_value(invocation, "slug");
    bool is_new = strcmp(method, "POST") == 0;
    struct str project;

    json_open(&json, NULL);
    if (name)
        json_string(&json, "name", name);
    if (slug)
        json_string(&json, "slug", slug);
    if (invocation_has(invocation, "default"))
        json_bool(&json, "is_default", true);
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_LOGIN, NULL, &api, err) ||
        !api_send(&api, method, is_new ? "/api/projects" : project_path(&api, invocation),
                  buf_str(&body), &project, err))
        return false;
    output_row(&api, invocation, project, project_columns, COUNT_OF(project_columns));
    return true;
}

bool project_create_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return send_body(invocation, "POST", invocation->args[0], err);
}

bool project_update_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    if (!invocation_has(invocation, "name") && !invocation_has(invocation, "slug") &&
        !invocation_has(invocation, "default"))
        return error_set(err, ERR_INVALID, "say what changes: --name, --slug or --default");
    return send_body(invocation, "PATCH", invocation_value(invocation, "name"), err);
}

bool project_delete_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    char question[160];
    bool agreed;

    *exit_code = 0;
    snprintf(question, sizeof question,
             "Delete the project %.64s with its deployments, runs, secrets and keys?",
             invocation->args[0]);
    if (!invocation_confirm(invocation, question, &agreed, err))
        return false;
    if (!agreed) {
        *exit_code = 1;
        return true;
    }
    if (!api_open(invocation, API_LOGIN, NULL, &api, err) ||
        !api_send(&api, "DELETE", project_path(&api, invocation), (struct str){0}, NULL, err))
        return false;
    output_deleted(invocation, "project", invocation->args[0]);
    return true;
}
