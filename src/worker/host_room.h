/* What this host can give: the settings, or what the kernel says there is. */
#pragma once

#include "worker/capacity.h"
#include "worker/settings.h"

bool host_room(const struct worker_settings *settings, struct room *room,
               struct error *err) MUST_USE;

/* What the program of a machine takes besides the guest's own memory; 0 for what is no machine. */
int64_t host_room_overhead_mib(const char *engine, bool accelerated);

/* Keeps that much memory of every slot back, and slots that would leave nothing to give out. What
 * the operator set is given out as it was set. */
bool host_room_keep_back(const struct worker_settings *settings, int64_t overhead_mib,
                         struct room *room, struct error *err) MUST_USE;
