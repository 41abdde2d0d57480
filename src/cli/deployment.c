/* `helmr deployment …`, `helmr task …` and `helmr sandbox …`: what is deployed, and which
 * deployment is current. */
#include <stdio.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static struct str show_error(struct str deployment, struct arena *arena)
{
    struct str layer = output_value(deployment, "error.layer", arena);
    struct str message = output_value(deployment, "error.message", arena);

    if (message.len == 0)
        return STR("");
    layer = output_layer(layer, arena);
    return str_of(arena_printf(arena, "%.*s: %.*s", (int)layer.len, layer.ptr, (int)message.len,
                               message.ptr));
}

static struct str show_payload(struct str task, struct arena *arena)
{
    return str_equal(output_value(task, "accepts_payload", arena), STR("true")) ? STR("yes")
                                                                                : STR("no");
}

/* Whether a run finds the module imported, and what of the module is against it. */
static struct str show_preload(struct str task, struct arena *arena)
{
    struct str reason = output_value(task, "preload_reason", arena);

    if (str_equal(output_value(task, "preload", arena), STR("true")))
        return STR("yes");
    return reason.len ? str_of(arena_printf(arena, "no: %.*s", (int)reason.len, reason.ptr))
                      : STR("no");
}

static const struct field deployment_columns[] = {
    {"ID",      "id",         NULL},
    {"VERSION", "version",    NULL},
    {"STATUS",  "status",     NULL},
    {"CREATED", "created_at", NULL},
    {"CURRENT", "is_current", NULL},
};

static const struct field deployment_labels[] = {
    {"Deployment", "id",         NULL      },
    {"Version",    "version",    NULL      },
    {"Status",     "status",     NULL      },
    {"Current",    "is_current", NULL      },
    {"Created",    "created_at", NULL      },
    {"Error",      NULL,         show_error},
};

static const struct field version_label[] = {
    {"version", "version", NULL},
};

static const struct field task_columns[] = {
    {"TASK ID", "task_id",     NULL},
    {"FILE",    "file_path",   NULL},
    {"EXPORT",  "export_name", NULL},
};

static const struct field task_labels[] = {
    {"Task",    "task_id",     NULL        },
    {"File",    "file_path",   NULL        },
    {"Export",  "export_name", NULL        },
    {"Sandbox", "sandbox_id",  NULL        },
    {"Payload", NULL,          show_payload},
    {"Queue",   "queue",       NULL        },
    {"Preload", NULL,          show_preload},
};

static struct str show_resources(struct str sandbox, struct arena *arena)
{
    struct str cpu = output_value(sandbox, "resources.cpu", arena);
    struct str memory = output_value(sandbox, "resources.memory_mib", arena);
    struct str disk = output_value(sandbox, "resources.disk_mib", arena);

    return str_of(arena_printf(arena, "%.*s vCPU, %.*s MiB memory, %.*s MiB disk", (int)cpu.len,
                               cpu.ptr, (int)memory.len, memory.ptr, (int)disk.len, disk.ptr));
}

static const struct field sandbox_columns[] = {
    {"SANDBOX ID",  "sandbox_id",  NULL},
    {"FINGERPRINT", "fingerprint", NULL},
    {"GUEST ABI",   "guest_abi",   NULL},
    {"MOUNT",       "mount_path",  NULL},
};

static const struct field sandbox_labels[] = {
    {"Sandbox",     "sandbox_id",    NULL          },
    {"Fingerprint", "fingerprint",   NULL          },
    {"Guest ABI",   "guest_abi",     NULL          },
    {"Mount",       "mount_path",    NULL          },
    {"Image",       "image_digest",  NULL          },
    {"Resources",   NULL,            show_resources},
    {"Network",     "network",       NULL          },
    {"Deployment",  "deployment_id", NULL          },
};

static bool print_list(const struct invocation *invocation, const char *kind,
                       const struct field *columns, size_t n, struct error *err)
{
    AUTO(api_finish) struct api api = {0};

    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const struct listing listing = {
        .path = api_path(&api, "/%s", kind),
        .field = kind,
        .columns = columns,
        .n_columns = n,
    };

    return output_list(&api, invocation, &listing, err);
}

static bool print_one(const struct invocation *invocation, const char *kind,
                      const struct field *fields, size_t n, struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str object;

    if (!api_open(invocation, API_ANY, NULL, &api, err))
        return false;

    const char *path = api_path(&api, "/%s/%s", kind, api_part(&api, invocation->args[0]));

    return api_send(&api, "GET", path, (struct str){0}, &object, err) &&
           output_object(&api, invocation, object, fields, n, err);
}

bool deployment_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_list(invocation, "deployments", deployment_columns, COUNT_OF(deployment_columns),
                      err);
}

bool deployment_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_one(invocation, "deployments", deployment_labels, COUNT_OF(deployment_labels),
                     err);
}

static bool post(struct api *api, const struct invocation *invocation, const char *verb,
                 struct str *deployment, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = API_BODY_MAX};
    const char *reason = invocation_value(invocation, "reason");
    struct json_writer json = json_begin(&body);

    json_open(&json, NULL);
    if (reason)
        json_string(&json, "reason", reason);
    json_close(&json);
    if (!json_end(&json, err) || !api_open(invocation, API_ANY, NULL, api, err))
        return false;

    const char *path =
        api_path(api, "/deployments/%s/%s", api_part(api, invocation->args[0]), verb);

    return api_send(api, "POST", path, buf_str(&body), deployment, err);
}

bool deployment_promote_command(const struct invocation *invocation, int *exit_code,
                                struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str deployment;

    *exit_code = 0;
    if (!post(&api, invocation, "promote", &deployment, err))
        return false;
    if (invocation_has(invocation, "json"))
        return output_object(&api, invocation, deployment, version_label, 1, err);
    output_line(output_value(deployment, "version", &api.arena));
    return true;
}

bool deployment_cancel_command(const struct invocation *invocation, int *exit_code,
                               struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str deployment;

    *exit_code = 0;
    return post(&api, invocation, "cancel", &deployment, err) &&
           output_object(&api, invocation, deployment, deployment_labels,
                         COUNT_OF(deployment_labels), err);
}

bool task_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_list(invocation, "tasks", task_columns, COUNT_OF(task_columns), err);
}

bool task_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_one(invocation, "tasks", task_labels, COUNT_OF(task_labels), err);
}

bool sandbox_list_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_list(invocation, "sandboxes", sandbox_columns, COUNT_OF(sandbox_columns), err);
}

bool sandbox_get_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    *exit_code = 0;
    return print_one(invocation, "sandboxes", sandbox_labels, COUNT_OF(sandbox_labels), err);
}
