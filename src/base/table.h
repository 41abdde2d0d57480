/* Lists for people and pipes: aligned with a header on a terminal, tabs without one otherwise. */
#pragma once

#include <stdio.h>

#include "base/arena.h"

enum { TABLE_COLUMNS_MAX = 12 };

struct table {
    const char *columns[TABLE_COLUMNS_MAX];
    size_t n_columns;
    struct arena arena;
    struct table_row *first, **last;
};

void table_init(struct table *table, const char *const *columns, size_t n);
void table_finish(struct table *table);

/* Copies the cells; control characters become '?', so a name cannot move the cursor. */
void table_row(struct table *table, const struct str *cells);
void table_print(const struct table *table, FILE *out, bool is_terminal);

/* Whether colours may be used on this stream: a terminal, and NO_COLOR is not set. */
bool colour_is_wanted(FILE *out);
