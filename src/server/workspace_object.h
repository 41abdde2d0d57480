/* Workspaces and their versions as the API shows them. */
#pragma once

#include "base/json.h"
#include "store/queries.h"
#include "store/store.h"

/* One row of the workspace_objects view, columns WORKSPACE_GET_*. */
void workspace_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                            size_t row);

/* Columns VERSION_GET_*. */
void version_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row);
