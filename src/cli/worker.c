/* `helmr worker list`, `worker status` and `worker drain`: the fleet, and this host's part in it,
 * as the server sees them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/time.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "model/duration.h"

enum { IDLE_POLL_MS = 250 };

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

/* This host's worker, found by its name. */
static bool own_worker(const struct invocation *invocation, struct api *api, struct str *worker,
                       struct error *err)
{
    char host[HOST_NAME_MAX + 1] = "";
    const char *name = getenv("HELMR_WORKER_RESOURCE_ID");

    if (!name || !*name)
        name = host;
    if (gethostname(host, sizeof host - 1) != 0)
        return error_errno(err, "gethostname");
    return api_open(invocation, API_LOGIN, NULL, api, err) && find_worker(api, name, worker, err);
}

static bool worker_status_command(const struct invocation *invocation, int *exit_code,
                                  struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str worker = {0};

    if (!own_worker(invocation, &api, &worker, err) ||
        !output_object(&api, invocation, worker, worker_labels, COUNT_OF(worker_labels), err))
        return false;
    *exit_code = str_equal(output_value(worker, "state", &api.arena), STR("active")) ? 0 : 1;
    return true;
}

/* Runs that wait are parked meanwhile; the others are let go on. */
static bool wait_until_idle(struct api *api, const char *path, int64_t deadline_ms,
                            struct str *worker, struct error *err)
{
    for (;;) {
        int64_t active = 0;

        if (!api_send(api, "GET", path, (struct str){0}, worker, err))
            return false;
        if (json_find_int(*worker, "active_leases", &active) && active == 0)
            return true;
        if (time_boot_ms() >= deadline_ms)
            return error_set(err, ERR_TIMEOUT,
                             "%lld leases are left; the worker still takes nothing new: ask again, "
                             "or use --undo",
                             (long long)active);
        nanosleep(&(struct timespec){.tv_nsec = IDLE_POLL_MS * 1000000L}, NULL);
    }
}

static bool worker_drain_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    bool is_undone = invocation_has(invocation, "undo");
    const char *timeout = invocation_value(invocation, "timeout");
    struct str worker = {0}, id;
    int64_t ms;

    *exit_code = 0;
    if (!duration_parse(str_of(timeout ? timeout : "30m"), &ms, err))
        return error_wrap(err, "--timeout");
    int64_t deadline_ms = time_boot_ms() + ms;
    if (!own_worker(invocation, &api, &worker, err))
        return false;
    id = output_value(worker, "id", &api.arena);
    const char *path = arena_printf(&api.arena, "/api/workers/%.*s", (int)id.len, id.ptr);
    const char *verb = arena_printf(&api.arena, "%s/%s", path, is_undone ? "undrain" : "drain");
    bool drains = str_equal(output_value(worker, "state", &api.arena), STR("draining"));
    /* One that drains already is only waited for. */
    if (((is_undone || !drains) && !api_send(&api, "POST", verb, STR("{}"), &worker, err)) ||
        (!is_undone && !wait_until_idle(&api, path, deadline_ms, &worker, err)))
        return false;
    return output_object(&api, invocation, worker, worker_labels, COUNT_OF(worker_labels), err);
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

static const struct option drain_options[] = {
    {"timeout", 0, OPTION_VALUE, "DURATION", "Give up waiting then (30m); it goes on draining."},
    {"undo", 0, OPTION_FLAG, NULL, "Let it take work again."},
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
    {
     .name = "worker drain",
     .summary = "give this host's worker nothing new, and wait until it has nothing left",
     .help =
            "Runs that wait are parked in time, the others go on to their end. Exit code 1 when\n"
            "something is left after the timeout.\n\n  helmr worker drain --timeout 10m\n"
            "  helmr worker drain --undo", .options = drain_options,
     .common = common,
     .run = worker_drain_command,
     },
};

const size_t n_fleet_commands = COUNT_OF(fleet_commands);
