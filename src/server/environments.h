/* Environments: a project's own, and their end with everything in them. */
#pragma once

#include "base/json.h"
#include "server/hub.h"
#include "store/store.h"

struct call;

/* "environments": […] of a project. */
bool environments_write(struct call *call, struct tx *tx, struct str project_id,
                        struct json_writer *json, struct error *err) MUST_USE;

/* Deletes every row of the environment and notes who is told. ERR_PROJECT_NOT_EMPTY when it has
 * runs or builds that have not ended, or workspaces. */
bool environment_purge(struct call *call, struct tx *tx, const char *id, struct wakes *wakes,
                       struct error *err) MUST_USE;
