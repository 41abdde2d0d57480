/* A run as the API shows it. */
#pragma once

#include "base/json.h"
#include "store/queries.h"
#include "store/store.h"

enum { RUN_COLUMNS = RUN_GET_FITTING_WORKERS + 1 };

/* One row of the run_objects view, columns RUN_GET_*. is_cached adds that field. Of a run that
 * cannot be waiting. */
void run_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row, bool is_cached);

/* The same of any run, with the wait it has not got over. */
bool run_object_show(struct tx *tx, struct json_writer *json, const char *name,
                     const struct rows *rows, size_t row, struct arena *arena,
                     struct error *err) MUST_USE;
