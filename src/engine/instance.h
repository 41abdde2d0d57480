/* Inside of struct instance, for the engines of this folder. */
#pragma once

#include "base/process.h"
#include "engine/engine.h"
#include "engine/host_state.h"
#include "engine/record.h"
#include "engine/ring.h"
#include "engine/slot.h"

struct network;

struct instance {
    struct engine_host *host;
    const struct engine *engine;
    struct record record;
    struct slot slot;
    char launch_group[32];   /* the cgroup that the runtime itself starts in */
    struct network *network; /* NULL: none */
    struct process process;
    struct ring *log;
    int channel;

    /* What a microVM engine keeps of its machine; NULL: nothing. */
    void *machine;
    void (*machine_destroy)(void *machine);
};

/* The user and group that a jailed engine runs as: the slot's own. */
unsigned instance_user(const struct instance *instance);

/* Reserves capacity and a slot, writes the owner, announces every resource; after it the caller
 * makes them. On failure nothing is left. `is_split`: the runtime gets a cgroup beside the
 * sandbox's, because it wants that one empty. */
bool instance_create(struct engine_host *host, const struct engine *engine,
                     const struct sandbox_spec *spec, bool is_split, struct instance **instance,
                     struct error *err) MUST_USE;

/* The cgroups with their limits. */
bool instance_make_cgroups(struct instance *instance, const struct cgroup_limits *limits,
                           struct error *err) MUST_USE;
bool instance_make_folder(struct instance *instance, const char *name, struct error *err) MUST_USE;

/* Notes the engine's process once it runs. */
bool instance_started(struct instance *instance, const char *name, struct error *err) MUST_USE;
