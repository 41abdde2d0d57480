/* A session as the API shows it. */
#pragma once

#include "base/json.h"
#include "store/queries.h"
#include "store/store.h"

/* One row of the session_objects view, columns SESSION_GET_*. */
void session_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row, int64_t now);
