/* The host as engines see it, opened by the operator's settings. */
#pragma once

#include "worker/settings.h"

/* Below this work directory, for so many sandboxes at a time. */
bool host_open(const struct worker_settings *settings, const char *work_dir, int slots,
               struct engine_host **host, struct error *err) MUST_USE;
