/* Who has a file of a folder open: how a worker without control groups finds its machines.
 *
 * Every machine inherits a file of its instance's folder, and so does the process that is about to
 * become one, from the moment it exists. A user sees the descriptors of its own
 * processes only, and those are all that it can have started.
 */
#pragma once

#include "base/error.h"

/* Kills whoever has something below the folder open, but for this process, until two looks in a row
 * found nobody. ERR_TIMEOUT: somebody survives. The folder itself is the next worker's to open
 * while a guard is still at it. Not while this process starts others: they hold what it holds. */
bool holders_kill(const char *folder, int timeout_ms, struct error *err) MUST_USE;
