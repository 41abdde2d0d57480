#include "worker/commands.h"

#include "base/log.h"
#include "engine/guard.h"
#include "worker/worker.h"

static const struct option data_dir[] = {
    {"data-dir", 0, OPTION_VALUE, "DIR", "everything local (HELMR_DATA_DIR, /var/lib/helmr)"},
    {0},
};

static const struct option worker_options[] = {
    {"engine", 0, OPTION_VALUE, "NAME",
     "auto, firecracker, qemu, gvisor or container (HELMR_ENGINE)", "auto firecracker qemu gvisor container"},
    {"roles", 0, OPTION_VALUE, "LIST", "run, build or both (HELMR_WORKER_ROLES)",
     "run build run,build"},
    {0},
};

static const struct option bootstrap_options[] = {
    {"from", 0, OPTION_VALUE, "FILE", "take it from an OCI archive: no network is needed"},
    {"force", 0, OPTION_FLAG, NULL, "make it again even if it is there"},
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {0},
};

static const struct option list_options[] = {
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {"jsonl", 0, OPTION_FLAG, NULL, "one object per line"},
    {0},
};

static const struct option json_options[] = {
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {0},
};

static const struct option push_options[] = {
    {"gzip", 0, OPTION_FLAG, NULL, "gzip layers, for what reads no zstd; another digest"},
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {0},
};

static const struct option export_options[] = {
    {"gzip", 0, OPTION_FLAG, NULL, "gzip layers, for what reads no zstd; another digest"},
    {0},
};

static const struct option rm_options[] = {
    {"yes", 0, OPTION_FLAG, NULL, "do not ask"},
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {0},
};

static const struct option prune_options[] = {
    {"all", 0, OPTION_FLAG, NULL, "finished build steps of no image here too"},
    {"yes", 0, OPTION_FLAG, NULL, "do not ask"},
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {0},
};

static const struct option verify_options[] = {
    {"repair", 0, OPTION_FLAG, NULL, "take damaged parts out, to be fetched or made again"},
    {"json", 0, OPTION_FLAG, NULL, "one JSON document"},
    {0},
};

const struct command worker_commands[] = {
    {"worker",          NULL,       "run a worker: take leases, run sandboxes",
     "Runs until SIGTERM. Enrols with HELMR_WORKER_BOOTSTRAP_TOKEN at its first contact with the\n"
     "server at HELMR_CONTROL_URL; afterwards its own credential is used.\n\n"
     "  HELMR_CONTROL_URL=https://helmr.example.com helmr worker --data-dir /var/lib/helmr\n",                                 worker_options,    data_dir, worker_command,          false, 0, 0},
    {"image bootstrap", "[REF]",    "make a base image locally, without a registry",
     "Makes node:VERSION-bookworm-slim or debian:bookworm-slim from distribution packages and "
     "keeps\n"
     "it in the local image store under that name. Does nothing when it is there already.\n\n"
     "  helmr image bootstrap node:24-bookworm-slim\n"
     "  helmr image bootstrap node:24-bookworm-slim --from node.tar\n",                                                        bootstrap_options, data_dir, image_bootstrap_command, false, 0, 1},
    {"image list",      NULL,       "list the images of the local store",
     "Reference, digest, size, and the deployments that are built on it (project/image:version).\n"
     "Names that begin with helmr.local/ are the images of deployments.\n\n"
     "  helmr image list\n"
     "  helmr image list --json | jq -r '.images[] | select(.used_by == []).reference'\n",                                     list_options,      data_dir, image_list_command,      false, 0, 0},
    {"image show",      "REF",      "show an image: configuration, layers, what made them",
     "REF is a name as in `helmr image list`, or a digest. Of variables only the names are "
     "shown.\n\n"
     "  helmr image show node:24-bookworm-slim\n"
     "  helmr image show helmr.local/demo/agent:20261115.1 --json\n",                                                          json_options,      data_dir, image_show_command,      false, 1, 1},
    {"image pull",      "REF",      "bring an image from a registry",
     "Asks the mirrors of HELMR_REGISTRY_MIRRORS, then the registry. Nothing is used before its\n"
     "digest was checked; what is here already is not fetched again.\n\n"
     "  helmr image pull node:24-bookworm-slim\n"
     "  helmr image pull ghcr.io/acme/tools:2\n",                                                                              json_options,      data_dir, image_pull_command,      false, 1, 1},
    {"image push",      "REF DEST", "send an image to a registry",
     "DEST is host/repository:tag. Credentials come from HELMR_REGISTRY_AUTH_FILE, which is\n"
     "Docker's config.json.\n\n"
     "  helmr image push helmr.local/demo/agent:20261115.1 registry.example.com/demo/agent:1\n",                               push_options,      data_dir, image_push_command,      false, 2, 2},
    {"image export",    "REF FILE", "write an image as an OCI archive",
     "FILE - is standard output. The same image gives the same bytes.\n\n"
     "  helmr image export node:24-bookworm-slim node.tar\n"
     "  skopeo copy oci-archive:node.tar dir:node\n"
     "  helmr image export helmr.local/demo/agent:20261115.1 - | podman load\n"
     "  helmr image export --gzip node:24-bookworm-slim node.tar\n",                                                           export_options,    data_dir, image_export_command,    false, 2, 2},
    {"image rm",        "REF",      "remove a name, and what only it needs",
     "The next build that starts from REF asks the registry again. The image of a deployment is\n"
     "not removed, and layers that a deployment or a run uses stay.\n\n"
     "  helmr image rm node:24-bookworm-slim --yes\n",                                                                         rm_options,        data_dir, image_rm_command,        false, 1, 1},
    {"image prune",     NULL,       "remove what no image and no build step needs",
     "Says what it would free, asks, and removes it. What a deployment or a run needs stays.\n"
     "With --all finished build steps go too, unless an image has them: the next build is "
     "slower.\n\n"
     "  helmr image prune\n"
     "  helmr image prune --all --yes\n",                                                                                      prune_options,     data_dir, image_prune_command,     false, 0, 0},
    {"image verify",    NULL,       "read every byte of the local store back",
     "Checks every digest, that every name leads to a whole image, and what layers unpack to.\n"
     "Exit code 1 when something is damaged; each line then says what, why and the cure.\n\n"
     "  helmr image verify\n"
     "  helmr image verify --repair\n",                                                                                        verify_options,    data_dir, image_verify_command,    false, 0, 0},
    {"guard",           "WHAT…",    "kill the sandboxes of a dead worker",                  "Started by the worker itself.\n",
     NULL,                                                                                                                                        NULL,     guard_command,           true,  0, 8},
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
