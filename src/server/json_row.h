/* Columns of a row as fields of a JSON object. The plain forms write null for a null column;
 * the _if forms leave the field out.
 */
#pragma once

#include "base/json.h"
#include "store/store.h"

void json_row_text(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                   size_t column);
void json_row_int(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                  size_t column);
void json_row_bool(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                   size_t column);
void json_row_raw(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                  size_t column);
void json_row_time(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                   size_t column);

void json_row_text_if(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row, size_t column);
void json_row_int_if(struct json_writer *json, const char *name, const struct rows *rows,
                     size_t row, size_t column);
void json_row_raw_if(struct json_writer *json, const char *name, const struct rows *rows,
                     size_t row, size_t column);
void json_row_time_if(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row, size_t column);
/* Milliseconds as a duration: "1h30m". */
void json_row_duration_if(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row, size_t column);
