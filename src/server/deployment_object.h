/* Deployments, tasks and sandboxes as the API shows them. */
#pragma once

#include "base/json.h"
#include "store/store.h"

/* Columns DEPLOYMENT_GET_*; reads tasks, sandboxes and queues in the transaction. */
bool deployment_object_write(struct tx *tx, struct arena *arena, struct json_writer *json,
                             const char *name, const struct rows *rows, size_t row,
                             struct error *err) MUST_USE;

/* Columns TASK_GET_*. */
void task_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                       size_t row);
/* One alone, with what is too large for lists. */
void task_object_write_whole(struct json_writer *json, const struct rows *task,
                             const struct rows *schema);

/* Columns SANDBOX_GET_*. */
void sandbox_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row);
