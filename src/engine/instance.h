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
    struct network *network; /* NULL: none */
    struct process process;
    struct ring *log;
    int channel;
};

/* Reserves capacity and a slot, writes the owner, announces every resource; after it the caller
 * makes them. On failure nothing is left. */
bool instance_create(struct engine_host *host, const struct engine *engine,
                     const struct sandbox_spec *spec, struct instance **instance,
                     struct error *err) MUST_USE;

/* The cgroup with its limits, and the directories of the bundle. */
bool instance_make_cgroup(struct instance *instance, const struct cgroup_limits *limits,
                          struct error *err) MUST_USE;
bool instance_make_folder(struct instance *instance, const char *name, struct error *err) MUST_USE;

/* Notes the engine's process once it runs. */
bool instance_started(struct instance *instance, const char *name, struct error *err) MUST_USE;
