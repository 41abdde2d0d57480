/* `helmr worker list` and `worker status`: the fleet, and this host's part in it, as the server
 * sees them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"

static struct str show_grade(struct str worker, struct arena *arena)
{
    struct str grade = output_value(worker, "grade", arena);
    struct str accelerated = output_value(worker, "capabilities.accelerated", arena);

    if (!str_equal(grade, STR("microvm")) || !str_equal(accelerated, STR("false")))
        return grade;
    return STR("microvm, without KVM");
}

static const struct field worker_columns[] = {
    {"WORKER ID", "id",            NULL      },
    {"NAME",      "resource_id",   NULL      },
    {"GROUP",     "group",         NULL      },
    {"STATE",     "state",         NULL      },
    {"ENGINE",    "engine",        NULL      },
    {"GRADE",     NULL,            show_grade},
    {"ACTIVE",    "active_leases", NULL      },
};

static const struct field worker_labels[] = {
    {"worker_id", "id",                           NULL      },
    {"state",     "state",                        NULL      },
    {"group",     "group",                        NULL      },
    {"engine",    "engine",                       NULL      },
    {"grade",     NULL,                           show_grade},
    {"slots",     "capabilities.execution_slots", NULL      },
    {"active",    "active_leases",                NULL      },
    {"epoch",     "epoch",                        NULL      },
};

static bool worker_list_command(const struct invocation *invocation, int *exit_code,
                                struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    const struct listing listing = {
        .path = "/api/workers",
        .field = "workers",
        .columns = worker_columns,
        .n_columns = COUNT_OF(worker_columns),
    };

    *exit_code = 0;
    return api_open(invocation, API_LOGIN, NULL, &api, err) &&
           output_list(&api, invocation, &listing, err);
}

/* By the name that a worker enrols with: the one that was set, else the host's. */
static bool find_worker(struct api *api, const char *name, struct str *worker, struct error *err)
{
    struct str answer, found;
    size_t n;

    if (!api_send(api, "GET", "/api/workers", (struct str){0}, &answer, err))
        return false;
    n = json_count(answer, "workers");
    for (size_t i = 0; i < n; i++) {
        const char *path = arena_printf(&api->arena, "workers.%zu", i);

        if (json_find_text(answer, arena_printf(&api->arena, "%s.resource_id", path), &api->arena,
                           &found) &&
            str_equal(found, str_of(name)) && json_find_raw(answer, path, &api->arena, worker))
            return true;
    }
    return error_set(err, ERR_NOT_FOUND, "the server knows no worker called %s", name);
}

static bool worker_status_command(const struct invocation *invocation, int *exit_code,
                                  struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    char host[HOST_NAME_MAX + 1] = "";
    const char *name = getenv("HELMR_WORKER_RESOURCE_ID");
    struct str worker = {0};

    if (!name || !*name)
        name = host;
    if (gethostname(host, sizeof host - 1) != 0)
        return error_errno(err, "gethostname");
    if (!api_open(invocation, API_LOGIN, NULL, &api, err) ||
        !find_worker(&api, name, &worker, err) ||
        !output_object(&api, invocation, worker, worker_labels, COUNT_OF(worker_labels), err))
        return false;
    *exit_code = str_equal(output_value(worker, "state", &api.arena), STR("active")) ? 0 : 1;
    return true;
}

static const struct option common[] = {
    {"api-url", 'a', OPTION_VALUE, "URL", "The server (HELMR_API_URL, else the saved one)."},
    {"json", 0, OPTION_FLAG, NULL, "Print JSON as the API has it."},
    {0},
};

static const struct option list_options[] = {
    {"jsonl", 0, OPTION_FLAG, NULL, "Print one JSON object per line."},
    {0},
};

const struct command fleet_commands[] = {
    {
     .name = "worker list",
     .summary = "list the workers with their engines",
     .help = "Needs a login.\n\n  helmr worker list",
     .options = list_options,
     .common = common,
     .run = worker_list_command,
     },
    {
     .name = "worker status",
     .summary = "show this host's worker as the server sees it",
     .help = "The one that is called HELMR_WORKER_RESOURCE_ID, else as this host. Exit code 1 "
                "unless it is\nactive.\n\n  helmr worker status", .common = common,
     .run = worker_status_command,
     },
};

const size_t n_fleet_commands = COUNT_OF(fleet_commands);
