/* `helmr workspace versions` and `restore`. */
#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static struct str show_current(struct str version, struct arena *arena)
{
    return str_equal(output_value(version, "is_current", arena), STR("true")) ? STR("current")
                                                                              : STR("");
}

static const struct field version_columns[] = {
    {"ID",      "id",         NULL        },
    {"KIND",    "kind",       NULL        },
    {"STATE",   "state",      NULL        },
    {"SIZE",    "size_bytes", NULL        },
    {"CREATED", "created_at", NULL        },
    {"CURRENT", NULL,         show_current},
};

bool workspace_versions_command(const struct invocation *invocation, int *exit_code,
                                struct error *err)
{
    static const struct api_flag flags[] = {
        {"kind",  "kind" },
        {"limit", "limit"},
        {NULL,    NULL   },
    };
    AUTO(api_finish) struct api api = {0};

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const struct listing listing = {
        .path = api_path(&api, "/workspaces/%s/versions%s", api_part(&api, invocation->args[0]),
                         api_query(&api, invocation, flags, "")),
        .field = "versions",
        .columns = version_columns,
        .n_columns = COUNT_OF(version_columns),
        .one_page = invocation_has(invocation, "limit"),
    };
    return output_list(&api, invocation, &listing, err);
}

bool workspace_restore_command(const struct invocation *invocation, int *exit_code,
                               struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str answer;

    *exit_code = 0;
    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    const char *path =
        api_path(&api, "/workspaces/%s/versions/%s/restore", api_part(&api, invocation->args[0]),
                 api_part(&api, invocation->args[1]));
    if (!api_send(&api, "POST", path, STR("{}"), &answer, err))
        return false;
    output_line(invocation_has(invocation, "json")
                    ? answer
                    : output_value(answer, "version_id", &api.arena));
    return true;
}
