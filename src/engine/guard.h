/* The guard: a process that outlives its worker just long enough to kill its sandboxes.
 *
 * It holds the worker's pidfd as descriptor 3 and a lock as descriptor 4, so that a new
 * worker of the same directory can wait for it before making groups of the same tag. It finds
 * them by their control groups, or where there are none by the folders they have open.
 */
#pragma once

#include "base/process.h"
#include "engine/cgroup.h"

/* `helmr guard groups PARENT TAG` or `helmr guard folder PATH`: argv[0] is "guard". Returns the
 * exit code. */
int engine_guard_main(int argc, char **argv);

/* `what` are the words after "guard", ended by NULL. */
bool guard_start(const char *work_dir, const char *const what[], struct process *guard,
                 struct error *err) MUST_USE;

/* Waits until the guard of a dead predecessor has done its work. */
bool guard_wait(const char *work_dir, int timeout_ms, struct error *err) MUST_USE;
