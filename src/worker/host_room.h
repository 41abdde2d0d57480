/* What this host can give: the settings, or what the kernel says there is. */
#pragma once

#include "worker/capacity.h"
#include "worker/settings.h"

bool host_room(const struct worker_settings *settings, struct room *room,
               struct error *err) MUST_USE;
