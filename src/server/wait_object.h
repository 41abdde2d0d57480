/* A wait as the API shows it. */
#pragma once

#include "base/json.h"
#include "store/queries.h"
#include "store/store.h"

/* One row of wait_list or wait_pending, columns WAIT_LIST_*. */
void wait_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                       size_t row);
