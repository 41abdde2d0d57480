/* `helmr workspace create|list|get|update|archive|delete|open|materialize|stop`. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

enum { METADATA_MAX = 64 * 1024, BODY_MAX = 4 * METADATA_MAX };

static const struct field workspace_columns[] = {
    {"ID",              "id",                 NULL},
    {"STATE",           "state",              NULL},
    {"SANDBOX",         "sandbox_id",         NULL},
    {"CURRENT VERSION", "current_version_id", NULL},
};

static struct str show_mount(struct str workspace, struct arena *arena)
{
    struct str state = output_value(workspace, "mount.state", arena);
    struct str id = output_value(workspace, "mount.id", arena);

    if (id.len == 0)
        return STR("");
    return str_of(arena_printf(arena, "%.*s %.*s", (int)state.len, state.ptr, (int)id.len, id.ptr));
}

static const struct field workspace_labels[] = {
    {"Workspace",       "id",                 NULL      },
    {"State",           "state",              NULL      },
    {"Sandbox",         "sandbox_id",         NULL      },
    {"Deployment",      "deployment_id",      NULL      },
    {"External id",     "external_id",        NULL      },
    {"Current version", "current_version_id", NULL      },
    {"Mount",           NULL,                 show_mount},
    {"Forked from",     "forked_from",        NULL      },
    {"Metadata",        "metadata",           NULL      },
    {"Tags",            "tags",               NULL      },
    {"Created",         "created_at",         NULL      },
    {"Updated",         "updated_at",         NULL      },
};

static const struct field state_fields[] = {
    {"id",    "id",    NULL},
    {"state", "state", NULL},
};

static const char *one(struct api *api, const struct invocation *invocation, const char *rest)
{
    return api_path(api, "/workspaces/%s%s", api_part(api, invocation->args[0]), rest);
}

/* Checked here, so that a forgotten quote is said in words of the command line. */
static bool write_metadata(const struct invocation *invocation, struct json_writer *json,
                           struct error *err)
{
    AUTO(buf_finish) struct buf value = {.max = METADATA_MAX};
    const char *text = invocation_value(invocation, "metadata-json");

    if (!text)
        return true;
    if (!json_canonical(str_of(text), METADATA_MAX, &value, err))
        return error_wrap(err, "--metadata-json");
    json_raw(json, "metadata", buf_str(&value));
    return true;
}

static void write_tags(const struct invocation *invocation, struct json_writer *json)
{
    if (!invocation_has(invocation, "tag"))
        return;
    json_open_list(json, "tags");
    for (size_t i = 0; invocation_nth(invocation, "tag", i); i++)
        json_string(json, NULL, invocation_nth(invocation, "tag", i));
    json_close_list(json);
}

/* Options that are fields of the body by another name. */
static void write_texts(const struct invocation *invocation, struct json_writer *json)
{
    static const struct api_flag parts[] = {
        {"sandbox",             "sandbox_id"         },
        {"deployment",          "deployment_id"      },
        {"from-version",        "from_version_id"    },
        {"external-id",         "external_id"        },
        {"idempotency-key",     "idempotency_key"    },
        {"idempotency-key-ttl", "idempotency_key_ttl"},
    };

    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (invocation_has(invocation, parts[i].option))
            json_string(json, parts[i].parameter, invocation_value(invocation, parts[i].option));
}

static bool send(struct api *api, const struct invocation *invocation, const char *method,
                 const char *path, const char *state, struct str *answer, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);

    json_open(&json, NULL);
    write_texts(invocation, &json);
    if (!write_metadata(invocation, &json, err))
        return false;
    write_tags(invocation, &json);
    if (state)
        json_string(&json, "state", state);
    json_close(&json);
    return json_end(&json, err) && api_send(api, method, path, buf_str(&body), answer, err);
}

bool workspace_create_command(const struct invocation *invocation, int *exit_code,
                              struct error *err)
{
    static const struct field labels[] = {
        {"workspace_id", "workspace.id",         NULL},
        {"state",        "workspace.state",      NULL},
        {"sandbox_id",   "workspace.sandbox_id", NULL},
    };
    AUTO(api_finish) struct api api = {0};
    struct str answer;

    *exit_code = 0;
    if (!invocation_has(invocation, "sandbox"))
        return error_set(err, ERR_INVALID,
                         "--sandbox is required; helmr sandbox list says which there are");
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !send(&api, invocation, "POST", api_path(&api, "/workspaces"), NULL, &answer, err) ||
        !output_object(&api, invocation, answer, labels, COUNT_OF(labels), err))
        return false;
    struct str id = output_value(answer, "workspace.id", &api.arena);
    if (!invocation_has(invocation, "json"))
        output_label(stdout, "console_url",
                     str_of(arena_printf(&api.arena, "%s/workspaces/%.*s", api.url, (int)id.len,
                                         id.ptr)));
    return true;
}

bool workspace_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    static const struct api_flag flags[] = {
        {"state",       "state"      },
        {"external-id", "external_id"},
        {"tag",         "tag"        },
        {NULL,          NULL         },
    };
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const struct listing listing = {
        .path = api_path(&api, "/workspaces%s", api_query(&api, invocation, flags, "")),
        .field = "workspaces",
        .columns = workspace_columns,
        .n_columns = COUNT_OF(workspace_columns),
    };
    return output_list(&api, invocation, &listing, err);
}

bool workspace_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str workspace;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "GET", one(&api, invocation, ""), (struct str){0}, &workspace, err))
        return false;
    output_console(&api, "workspaces", output_value(workspace, "id", &api.arena));
    return output_object(&api, invocation, workspace, workspace_labels, COUNT_OF(workspace_labels),
                         err);
}

bool workspace_update_command(const struct invocation *invocation, int *exit_code,
                              struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str workspace;

    *exit_code = 0;
    if (!invocation_has(invocation, "metadata-json") && !invocation_has(invocation, "tag"))
        return error_set(err, ERR_INVALID, "say what to change: --metadata-json or --tag");
    return api_open(invocation, API_ANY, NULL, &api, err) &&
           send(&api, invocation, "PATCH", one(&api, invocation, ""), NULL, &workspace, err) &&
           output_object(&api, invocation, workspace, workspace_labels, COUNT_OF(workspace_labels),
                         err);
}

bool workspace_archive_command(const struct invocation *invocation, int *exit_code,
                               struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const char *state = invocation_has(invocation, "undo") ? "active" : "archived";
    struct str workspace;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !send(&api, invocation, "PATCH", one(&api, invocation, ""), state, &workspace, err))
        return false;
    output_row(&api, invocation, workspace, state_fields, COUNT_OF(state_fields));
    return true;
}

bool workspace_delete_command(const struct invocation *invocation, int *exit_code,
                              struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    char question[256];
    bool agreed;

    *exit_code = 0;
    snprintf(question, sizeof question,
             "Delete the workspace %s and all its versions? Its runs stay.", invocation->args[0]);
    if (!invocation_confirm(invocation, question, &agreed, err))
        return false;
    if (!agreed) {
        *exit_code = 1;
        return true;
    }
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "DELETE", one(&api, invocation, ""), (struct str){0}, NULL, err))
        return false;
    output_deleted(invocation, "workspace", invocation->args[0]);
    return true;
}

bool workspace_open_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str workspace;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "GET", one(&api, invocation, ""), (struct str){0}, &workspace, err))
        return false;
    struct str id = output_value(workspace, "id", &api.arena);
    const char *url = arena_printf(&api.arena, "%s/workspaces/%.*s", api.url, (int)id.len, id.ptr);
    output_line(invocation_has(invocation, "json")
                    ? str_of(arena_printf(&api.arena, "{\"console_url\":\"%s\"}", url))
                    : str_of(url));
    return true;
}

bool workspace_materialize_command(const struct invocation *invocation, int *exit_code,
                                   struct error *err)
{
    static const struct field fields[] = {
        {"id",           "id",           NULL},
        {"workspace_id", "workspace_id", NULL},
        {"state",        "state",        NULL},
    };
    AUTO(api_finish) struct api api = {0};
    struct str mount;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "POST", one(&api, invocation, "/materialize"), STR("{}"), &mount, err))
        return false;
    output_row(&api, invocation, mount, fields, COUNT_OF(fields));
    return true;
}

bool workspace_stop_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str workspace;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err) ||
        !send(&api, invocation, "POST", one(&api, invocation, "/stop"), NULL, &workspace, err))
        return false;
    output_row(&api, invocation, workspace, state_fields, COUNT_OF(state_fields));
    return true;
}
