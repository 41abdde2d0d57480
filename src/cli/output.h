/* What commands print: lists as tables, objects as labels, JSON as it came, progress on stderr.
 *
 * Text of others is printed without control characters, so that it cannot move the cursor.
 */
#pragma once

#include <stdio.h>

#include "cli/api.h"

/* One column of a list or one label of an object: where its value is in the JSON. */
struct field {
    const char *title;
    const char *path;
    /* Instead of the value at the path, or NULL; the text lives in the arena. */
    struct str (*show)(struct str object, struct arena *arena);
};

enum { FIELDS_MAX = 16 };

struct listing {
    const char *path;  /* with its query, or without */
    const char *field; /* of the answer: "runs" */
    const struct field *columns;
    size_t n_columns;
    bool one_page;     /* --limit and --cursor are the user's: the rest is only pointed at */
    bool always_lines; /* no columns: without --json as with --jsonl */
};

/* Prints all pages as a table, with --json as one document, with --jsonl as lines. */
bool output_list(struct api *api, const struct invocation *invocation,
                 const struct listing *listing, struct error *err) MUST_USE;

/* The object by its labels, or as it is with --json. Labels without a value are left out. */
bool output_object(struct api *api, const struct invocation *invocation, struct str object,
                   const struct field *fields, size_t n, struct error *err) MUST_USE;

/* The object's values on one line, between tabs; or as it is with --json. */
void output_row(struct api *api, const struct invocation *invocation, struct str object,
                const struct field *fields, size_t n);

/* Text as it is, anything else as JSON, nothing for null or absent. */
struct str output_value(struct str object, const char *path, struct arena *arena);

void output_label(FILE *out, const char *title, struct str value);
void output_line(struct str text); /* on stdout, as it is */

/* `<name> deleted`, or an object that says so with --json. */
void output_deleted(const struct invocation *invocation, const char *kind, const char *name);

/* Control characters become '?', but for newlines and tabs. */
void output_clean(FILE *out, struct str text);

/* "task_process" as people say it. */
struct str output_layer(struct str layer, struct arena *arena);

/* `console: <url>` for people, on stderr, when it is a terminal. */
void output_console(const struct api *api, const char *kind, struct str id);
