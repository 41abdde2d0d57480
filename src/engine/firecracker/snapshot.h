/* Machines as files: device state and memory, out of Firecracker and into it.
 *
 * A machine that was booted is written whole. One that was loaded is written as what it changed
 * since, which is much less, and put together with what it came from. That Firecracker names every
 * change is checked once, on the first of them: from one that does not, all is written always.
 */
#pragma once

#include "engine/firecracker/api.h"
#include "engine/firecracker/files.h"

/* Names inside the jail of what a machine goes on from. */
#define SNAPSHOT_STATE  "state"
#define SNAPSHOT_MEMORY "mem"

enum snapshot_changes { SNAPSHOT_UNKNOWN, SNAPSHOT_COMPLETE, SNAPSHOT_INCOMPLETE };

/* Loads what is bound under those names; the machine stands still afterwards. */
bool snapshot_load(struct machine_api *api, int64_t deadline_ms, struct error *err) MUST_USE;
bool snapshot_resume(struct machine_api *api, int64_t deadline_ms, struct error *err) MUST_USE;

struct snapshot {
    struct machine_api *api;
    int saves;            /* the machine's folder in memory */
    int base;             /* the memory it goes on from; -1: it was booted */
    int64_t memory_bytes; /* what it must be, to the byte */
    int64_t deadline_ms;
    enum snapshot_changes changes; /* what is known; on return: what is known now */
};

/* Stands the machine still and has it write itself to its folder in memory. */
bool snapshot_create(struct snapshot *snapshot, struct error *err) MUST_USE;

/* Device state and memory, whole, from there to files of another folder. */
bool snapshot_collect(struct snapshot *snapshot, int folder, struct error *err) MUST_USE;
