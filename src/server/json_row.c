#include "server/json_row.h"

#include "model/duration.h"

void json_row_text(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                   size_t column)
{
    if (row_is_null(rows, row, column))
        json_null(json, name);
    else
        json_text(json, name, row_str(rows, row, column));
}

void json_row_int(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                  size_t column)
{
    if (row_is_null(rows, row, column))
        json_null(json, name);
    else
        json_int(json, name, row_int(rows, row, column));
}

void json_row_bool(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                   size_t column)
{
    json_bool(json, name, row_int(rows, row, column) != 0);
}

void json_row_raw(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                  size_t column)
{
    if (row_is_null(rows, row, column))
        json_null(json, name);
    else
        json_raw(json, name, row_str(rows, row, column));
}

void json_row_time(struct json_writer *json, const char *name, const struct rows *rows, size_t row,
                   size_t column)
{
    if (row_is_null(rows, row, column))
        json_null(json, name);
    else
        json_time(json, name, row_int(rows, row, column));
}

void json_row_text_if(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row, size_t column)
{
    if (!row_is_null(rows, row, column))
        json_row_text(json, name, rows, row, column);
}

void json_row_int_if(struct json_writer *json, const char *name, const struct rows *rows,
                     size_t row, size_t column)
{
    if (!row_is_null(rows, row, column))
        json_row_int(json, name, rows, row, column);
}

void json_row_raw_if(struct json_writer *json, const char *name, const struct rows *rows,
                     size_t row, size_t column)
{
    if (!row_is_null(rows, row, column))
        json_row_raw(json, name, rows, row, column);
}

void json_row_time_if(struct json_writer *json, const char *name, const struct rows *rows,
                      size_t row, size_t column)
{
    if (!row_is_null(rows, row, column))
        json_row_time(json, name, rows, row, column);
}

void json_row_duration_if(struct json_writer *json, const char *name, const struct rows *rows,
                          size_t row, size_t column)
{
    if (row_is_null(rows, row, column))
        return;
    char text[DURATION_TEXT];
    json_string(json, name, duration_format(row_int(rows, row, column), text));
}
