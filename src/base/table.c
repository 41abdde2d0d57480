#include "base/table.h"

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/encode.h"

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

static uint32_t code_point(struct str character)
{
    static const uint8_t mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = (uint8_t)character.ptr[0] & mask[character.len];

    for (size_t i = 1; i < character.len; i++)
        code = code << 6 | ((uint8_t)character.ptr[i] & 0x3f);
    return code;
}

/* Controls, and the marks that turn the direction of what follows. */
static bool is_harmful(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029;
}

static struct str clean(struct arena *arena, struct str cell)
{
    char *out = arena_alloc(arena, cell.len + 1);
    size_t len = 0;

    while (cell.len) {
        size_t taken = utf8_len(cell);

        if (!taken || is_harmful(code_point((struct str){cell.ptr, taken}))) {
            out[len++] = '?';
            taken = taken ? taken : 1;
        } else {
            memcpy(out + len, cell.ptr, taken);
            len += taken;
        }
        cell = (struct str){cell.ptr + taken, cell.len - taken};
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

/* Columns on a screen: two for the wide letters of East Asia and pictographs, none for
 * combining marks. */
static size_t width_of(struct str text)
{
    size_t width = 0;

    while (text.len) {
        size_t len = utf8_len(text);
        uint32_t code = len ? code_point((struct str){text.ptr, len}) : '?';
        bool is_mark = (code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200d) ||
                       (code >= 0xfe00 && code <= 0xfe0f);
        bool is_wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
                       (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
                       (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
                       (code >= 0x1f300 && code <= 0x1faff) || (code >= 0x20000 && code <= 0x3fffd);

        width += is_mark ? 0 : is_wide ? 2 : 1;
        len = len ? len : 1;
        text = (struct str){text.ptr + len, text.len - len};
    }
    return width;
}

static void print_aligned(const struct str *cells, const size_t *widths, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        fwrite(cells[i].ptr, 1, cells[i].len, out);
        if (i + 1 < n)
            fprintf(out, "%*s", (int)(widths[i] - width_of(cells[i]) + 2), "");
    }
    putc('\n', out);
}

static void print_for_people(const struct table *table, FILE *out)
{
    struct str header[TABLE_COLUMNS_MAX];
    size_t widths[TABLE_COLUMNS_MAX];

    for (size_t i = 0; i < table->n_columns; i++) {
        header[i] = str_of(table->columns[i]);
        widths[i] = width_of(header[i]);
        for (const struct table_row *row = table->first; row; row = row->next) {
            if (width_of(row->cells[i]) > widths[i])
                widths[i] = width_of(row->cells[i]);
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
