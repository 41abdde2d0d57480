#include "cli/output.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/glyph.h"
#include "base/json.h"
#include "base/table.h"
#include "cli/scan.h"

#define LIST_MAX ((size_t)256 * 1024 * 1024)

struct str output_value(struct str object, const char *path, struct arena *arena)
{
    struct str value;

    if (json_find_text(object, path, arena, &value))
        return value;
    if (json_find_raw(object, path, arena, &value) && !str_equal(value, STR("null")))
        return value;
    return STR("");
}

static struct str show(const struct field *field, struct str object, struct arena *arena)
{
    return field->show ? field->show(object, arena) : output_value(object, field->path, arena);
}

void output_line(struct str text)
{
    fwrite(text.ptr, 1, text.len, stdout);
    putchar('\n');
}

void output_clean(FILE *out, struct str text)
{
    struct glyph glyph;

    while (glyph_next(&text, &glyph)) {
        bool is_space = glyph.bytes.ptr[0] == '\n' || glyph.bytes.ptr[0] == '\t';

        if (glyph.is_harmful && !is_space)
            putc('?', out);
        else
            fwrite(glyph.bytes.ptr, 1, glyph.bytes.len, out);
    }
}

void output_label(FILE *out, const char *title, struct str value)
{
    if (value.len == 0)
        return;
    fprintf(out, "%s: ", title);
    output_clean(out, value);
    putc('\n', out);
}

bool output_object(struct api *api, const struct invocation *invocation, struct str object,
                   const struct field *fields, size_t n, struct error *err UNUSED)
{
    if (invocation_has(invocation, "json")) {
        output_line(object);
        return true;
    }
    for (size_t i = 0; i < n; i++)
        output_label(stdout, fields[i].title, show(&fields[i], object, &api->arena));
    return true;
}

void output_row(struct api *api, const struct invocation *invocation, struct str object,
                const struct field *fields, size_t n)
{
    if (invocation_has(invocation, "json")) {
        output_line(object);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        output_clean(stdout, show(&fields[i], object, &api->arena));
        fputc(i + 1 < n ? '\t' : '\n', stdout);
    }
}

/* A list on its way: a table, lines, or one document that grows. */
struct printer {
    struct api *api;
    const struct listing *listing;
    bool is_document, is_lines;
    struct table table;
    struct buf document;
};

static void add_row(struct printer *printer, struct str item)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct listing *listing = printer->listing;
    struct str cells[FIELDS_MAX];

    for (size_t i = 0; i < listing->n_columns; i++)
        cells[i] = show(&listing->columns[i], item, &arena);
    table_row(&printer->table, cells);
}

static bool add_item(struct printer *printer, struct str item, struct error *err)
{
    if (printer->is_lines) {
        output_line(item);
        return true;
    }
    if (!printer->is_document) {
        add_row(printer, item);
        return true;
    }
    return (printer->document.len == 0 || buf_append(&printer->document, STR(","), err)) &&
           buf_append(&printer->document, item, err);
}

static bool add_page(struct printer *printer, struct str page, struct str *cursor,
                     struct error *err)
{
    struct arena *arena = &printer->api->arena;
    struct str list, item;

    if (!json_find_raw(page, printer->listing->field, arena, &list))
        return error_set(err, ERR_INTERNAL, "the answer has no list of %s",
                         printer->listing->field);
    while (scan_item(&list, &item)) {
        if (!add_item(printer, item, err))
            return false;
    }
    *cursor = output_value(page, "next_cursor", arena);
    return true;
}

static bool add_pages(struct printer *printer, struct str *cursor, struct error *err)
{
    const struct listing *listing = printer->listing;
    const char *path = listing->path;
    struct str page;

    for (;;) {
        if (!api_send(printer->api, "GET", path, (struct str){0}, &page, err) ||
            !add_page(printer, page, cursor, err))
            return false;
        if (cursor->len == 0 || listing->one_page)
            return true;
        const char *part = api_part(printer->api, arena_text(&printer->api->arena, *cursor));
        path = arena_printf(&printer->api->arena, "%s%ccursor=%s", listing->path,
                            strchr(listing->path, '?') ? '&' : '?', part);
    }
}

static void print_document(const struct printer *printer, struct str cursor)
{
    printf("{\"%s\":[", printer->listing->field);
    fwrite(printer->document.bytes, 1, printer->document.len, stdout);
    printf("]");
    if (cursor.len > 0)
        printf(",\"next_cursor\":\"%.*s\"", (int)cursor.len, cursor.ptr);
    printf("}\n");
}

bool output_list(struct api *api, const struct invocation *invocation,
                 const struct listing *listing, struct error *err)
{
    struct printer printer = {
        .api = api,
        .listing = listing,
        .is_document = invocation_has(invocation, "json"),
        .is_lines = invocation_has(invocation, "jsonl"),
        .document = {.max = LIST_MAX},
    };
    const char *titles[FIELDS_MAX];
    struct str cursor = {0};

    if (printer.is_document && printer.is_lines)
        return error_set(err, ERR_INVALID, "--json and --jsonl exclude each other");
    printer.is_lines = printer.is_lines || (listing->always_lines && !printer.is_document);
    for (size_t i = 0; i < listing->n_columns; i++)
        titles[i] = listing->columns[i].title;
    table_init(&printer.table, titles, listing->n_columns);

    bool ok = add_pages(&printer, &cursor, err);

    if (ok && printer.is_document)
        print_document(&printer, cursor);
    else if (ok && !printer.is_lines)
        table_print(&printer.table, stdout, isatty(STDOUT_FILENO));
    if (ok && cursor.len > 0 && isatty(STDERR_FILENO))
        fprintf(stderr, "more: --cursor %.*s\n", (int)cursor.len, cursor.ptr);
    table_finish(&printer.table);
    buf_finish(&printer.document);
    return ok;
}

void output_deleted(const struct invocation *invocation, const char *kind, const char *name)
{
    AUTO(buf_finish) struct buf text = {.max = API_BODY_MAX};
    struct json_writer json = json_begin(&text);
    struct error err;

    if (!invocation_has(invocation, "json")) {
        output_clean(stdout, str_of(name));
        puts(" deleted");
        return;
    }
    json_open(&json, NULL);
    json_string(&json, kind, name);
    json_string(&json, "status", "deleted");
    json_close(&json);
    if (json_end(&json, &err))
        output_line(buf_str(&text));
}

struct str output_layer(struct str layer, struct arena *arena)
{
    char *text = arena_text(arena, layer);

    for (char *at = text; (at = strchr(at, '_')) != NULL;)
        *at = ' ';
    return str_of(text);
}

void output_console(const struct api *api, const char *kind, struct str id)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "console: %s/%s/%.*s\n", api->url, kind, (int)id.len, id.ptr);
}
