#include "base/table.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/glyph.h"

struct table_row {
    struct table_row *next;
    struct str cells[];
};

void table_init(struct table *table, const char *const *columns, size_t n)
{
    *table = (struct table){.n_columns = n < TABLE_COLUMNS_MAX ? n : TABLE_COLUMNS_MAX};
    table->last = &table->first;
    for (size_t i = 0; i < table->n_columns; i++)
        table->columns[i] = columns[i];
}

void table_finish(struct table *table)
{
    arena_finish(&table->arena);
    table->first = NULL;
    table->last = &table->first;
}

static struct str clean(struct arena *arena, struct str cell)
{
    char *out = arena_alloc(arena, cell.len + 1);
    struct glyph glyph;
    size_t len = 0;

    while (glyph_next(&cell, &glyph)) {
        struct str shown = glyph.is_harmful ? STR("?") : glyph.bytes;

        memcpy(out + len, shown.ptr, shown.len);
        len += shown.len;
    }
    return (struct str){out, len};
}

void table_row(struct table *table, const struct str *cells)
{
    size_t size = sizeof(struct table_row) + table->n_columns * sizeof(struct str);
    struct table_row *row = arena_alloc(&table->arena, size);

    for (size_t i = 0; i < table->n_columns; i++)
        row->cells[i] = clean(&table->arena, cells[i]);
    *table->last = row;
    table->last = &row->next;
}

static void print_aligned(const struct str *cells, const size_t *widths, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        fwrite(cells[i].ptr, 1, cells[i].len, out);
        if (i + 1 < n)
            fprintf(out, "%*s", (int)(widths[i] - glyph_width(cells[i]) + 2), "");
    }
    putc('\n', out);
}

static void print_for_people(const struct table *table, FILE *out)
{
    struct str header[TABLE_COLUMNS_MAX];
    size_t widths[TABLE_COLUMNS_MAX];

    for (size_t i = 0; i < table->n_columns; i++) {
        header[i] = str_of(table->columns[i]);
        widths[i] = glyph_width(header[i]);
        for (const struct table_row *row = table->first; row; row = row->next) {
            if (glyph_width(row->cells[i]) > widths[i])
                widths[i] = glyph_width(row->cells[i]);
        }
    }
    print_aligned(header, widths, table->n_columns, out);
    for (const struct table_row *row = table->first; row; row = row->next)
        print_aligned(row->cells, widths, table->n_columns, out);
}

static void print_for_pipes(const struct table *table, FILE *out)
{
    for (const struct table_row *row = table->first; row; row = row->next) {
        for (size_t i = 0; i < table->n_columns; i++) {
            if (i)
                putc('\t', out);
            fwrite(row->cells[i].ptr, 1, row->cells[i].len, out);
        }
        putc('\n', out);
    }
}

void table_print(const struct table *table, FILE *out, bool is_terminal)
{
    if (is_terminal)
        print_for_people(table, out);
    else
        print_for_pipes(table, out);
}

bool colour_is_wanted(FILE *out)
{
    const char *refused = getenv("NO_COLOR");

    return isatty(fileno(out)) && !(refused && *refused);
}
