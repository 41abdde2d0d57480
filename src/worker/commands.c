#include "worker/commands.h"

#include "base/log.h"
#include "engine/guard.h"
#include "worker/worker.h"

static const struct option data_dir[] = {
    {"data-dir", 0, OPTION_VALUE, "DIR", "everything local (HELMR_DATA_DIR, /var/lib/helmr)"},
    {0},
};

static const struct option worker_options[] = {
    {"engine", 0, OPTION_VALUE, "NAME", "auto, gvisor or container (HELMR_ENGINE)"},
    {"roles", 0, OPTION_VALUE, "LIST", "run, build or both (HELMR_WORKER_ROLES)"},
    {0},
};

static const struct option doctor_options[] = {
    {"json", 0, OPTION_FLAG, NULL, "one JSON document instead of lines"},
    {0},
};

static const struct option bootstrap_options[] = {
    {"force", 0, OPTION_FLAG, NULL, "make it again even if it is there"},
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {0},
};

static const struct option list_options[] = {
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {"jsonl", 0, OPTION_FLAG, NULL, "one object per line"},
    {0},
};

const struct command worker_commands[] = {
    {"worker",          NULL,         "run a worker: take leases, run sandboxes",
     "Runs until SIGTERM. Enrols with HELMR_WORKER_BOOTSTRAP_TOKEN at its first contact with the\n"
     "server at HELMR_CONTROL_URL; afterwards its own credential is used.\n\n"
     "  HELMR_CONTROL_URL=https://helmr.example.com helmr worker --data-dir /var/lib/helmr\n", worker_options,    data_dir, worker_command,          false, 0, 0},
    {"doctor",          NULL,         "check this host: engines, network, disk, images",
     "Every engine is proved by really starting a guest with it. Exit code 1 when a check "
     "fails.\n\n"
     "  helmr doctor\n  helmr doctor --json\n",                                                doctor_options,    data_dir, doctor_command,          false, 0, 0},
    {"image bootstrap", "[REF]",      "make a base image locally, without a registry",
     "Makes node:VERSION-bookworm-slim or debian:bookworm-slim from distribution packages and "
     "keeps\n"
     "it in the local image store under that name. Does nothing when it is there already.\n\n"
     "  helmr image bootstrap node:24-bookworm-slim\n",                                        bootstrap_options, data_dir, image_bootstrap_command, false, 0, 1},
    {"image list",      NULL,         "list the images of the local store",
     "  helmr image list\n  helmr image list --json\n",                                        list_options,      data_dir, image_list_command,
     false,                                                                                                                                                 0, 0},
    {"guard",           "PARENT TAG", "kill the sandboxes of a dead worker",
     "Started by the worker itself.\n",                                                        NULL,              NULL,     guard_command,           true,  0, 8},
};

const size_t n_worker_commands = COUNT_OF(worker_commands);

bool worker_command(const struct invocation *invocation, int *exit_code, struct error *err)
{
    struct worker_settings settings;

    if (!worker_settings_read(invocation, &settings, err))
        return false;
    bool fine = worker_run(&settings, err);
    worker_settings_finish(&settings);
    *exit_code = fine ? 0 : 1;
    return fine;
}

bool guard_command(const struct invocation *invocation, int *exit_code, struct error *err UNUSED)
{
    char *argv[COMMAND_ARGS_MAX + 2] = {(char[]){"guard"}};

    for (size_t i = 0; i < invocation->n_args; i++)
        argv[i + 1] = (char *)(uintptr_t)invocation->args[i];
    *exit_code = engine_guard_main((int)invocation->n_args + 1, argv);
    return true;
}
