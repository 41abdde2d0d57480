/* Which checkpoints this worker can restore: those made by workers of which all of this is equal,
 * and sealed with its key. How many processors and how much memory a sandbox has is no part of it:
 * a run goes on in a sandbox of the size that it was parked in.
 */
#pragma once

#include "worker/worker.h"

/* Fills worker->compat and checkpoint_key_id; after the engine was chosen. */
bool compat_find(struct worker *worker, struct error *err) MUST_USE;

/* The same in words, for people to see what differs. */
struct json_map compat_facts(const struct worker *worker, struct arena *arena);

/* Of the files that the agent comes in: the initramfs of a machine, else the platform's. */
const char *compat_rootfs_digest(const struct worker *worker);
