#include "cli/scope.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"

enum { CONFIG_BYTES_MAX = 1024 * 1024 };

static const char *const config_names[] = {
    "helmr.config.ts",
    "helmr.config.mts",
    "helmr.config.js",
    "helmr.config.mjs",
};

static const char *config_in(const char *directory, struct arena *arena)
{
    for (size_t i = 0; i < COUNT_OF(config_names); i++) {
        const char *path = arena_printf(arena, "%s/%s", directory, config_names[i]);
        struct stat info;

        if (stat(path, &info) == 0 && S_ISREG(info.st_mode))
            return config_names[i];
    }
    return NULL;
}

bool scope_find_config(const char *start, bool upwards, struct arena *arena, const char **directory,
                       const char **file, struct error *err)
{
    AUTO_FREE char *real = realpath(start, NULL);

    *directory = *file = NULL;
    if (!real)
        return error_errno(err, "%s", start);
    for (;;) {
        *file = config_in(real, arena);
        if (*file) {
            *directory = arena_text(arena, str_of(real));
            return true;
        }
        char *slash = strrchr(real, '/');
        if (!upwards || !slash || slash[1] == '\0')
            return true;
        /* The root keeps its slash. */
        slash[slash == real] = '\0';
    }
}

struct reader {
    struct str rest;
};

static char peek(const struct reader *reader, size_t at)
{
    if (at >= reader->rest.len)
        return '\0';
    return reader->rest.ptr[at];
}

static void advance(struct reader *reader, size_t n)
{
    n = n < reader->rest.len ? n : reader->rest.len;
    reader->rest = (struct str){reader->rest.ptr + n, reader->rest.len - n};
}

/* To the end of a comment that starts here; false when none does. */
static bool skip_comment(struct reader *reader)
{
    bool is_line = peek(reader, 0) == '/' && peek(reader, 1) == '/';
    bool is_block = peek(reader, 0) == '/' && peek(reader, 1) == '*';

    if (!is_line && !is_block)
        return false;
    advance(reader, 2);
    while (reader->rest.len > 0) {
        bool is_end =
            is_line ? peek(reader, 0) == '\n' : peek(reader, 0) == '*' && peek(reader, 1) == '/';
        advance(reader, is_end && is_block ? 2 : 1);
        if (is_end)
            break;
    }
    return true;
}

static void skip_space(struct reader *reader)
{
    for (;;) {
        char c = peek(reader, 0);

        if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
            advance(reader, 1);
        else if (!skip_comment(reader))
            return;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$';
}

/* A text in quotes that starts here, without escapes; false and past it when it is another. */
static bool take_text(struct reader *reader, struct str *text)
{
    char quote = peek(reader, 0);
    const char *start = reader->rest.ptr + 1;
    bool is_plain = quote != '`';

    advance(reader, 1);
    while (reader->rest.len > 0 && peek(reader, 0) != quote) {
        if (peek(reader, 0) == '\\' || (quote != '`' && peek(reader, 0) == '\n'))
            is_plain = false;
        advance(reader, peek(reader, 0) == '\\' ? 2 : 1);
    }
    *text = (struct str){start, (size_t)(reader->rest.ptr - start)};
    is_plain = is_plain && reader->rest.len > 0;
    advance(reader, 1);
    return is_plain;
}

/* The name of a member, bare or in quotes, or some other piece of the text. */
static struct str take_piece(struct reader *reader)
{
    char c = peek(reader, 0);
    struct str piece = {reader->rest.ptr, 0};

    if (c == '"' || c == '\'' || c == '`') {
        if (!take_text(reader, &piece))
            piece.len = 0;
        return piece;
    }
    while (is_word(peek(reader, 0))) {
        piece.len++;
        advance(reader, 1);
    }
    if (piece.len == 0)
        advance(reader, 1);
    return piece;
}

bool scope_literal(struct str text, struct str *project)
{
    struct reader reader = {text};

    for (;;) {
        skip_space(&reader);
        if (reader.rest.len == 0)
            return false;
        if (!str_equal(take_piece(&reader), STR("project")))
            continue;
        skip_space(&reader);
        if (peek(&reader, 0) != ':')
            continue;
        advance(&reader, 1);
        skip_space(&reader);
        char quote = peek(&reader, 0);
        struct str value;
        if ((quote == '"' || quote == '\'') && take_text(&reader, &value) && value.len > 0) {
            *project = value;
            return true;
        }
    }
}

bool scope_project(const char *start, struct arena *arena, const char **project, struct error *err)
{
    const char *directory, *file;
    struct str found;

    *project = NULL;
    if (!scope_find_config(start, true, arena, &directory, &file, err))
        return false;
    if (!directory)
        return true;

    AUTO_FREE char *text = NULL;

    if (!file_read(arena_printf(arena, "%s/%s", directory, file), CONFIG_BYTES_MAX, &text, err))
        return false;
    if (scope_literal(str_of(text), &found))
        *project = arena_text(arena, found);
    return true;
}

bool scope_names(struct str object, const char *given, struct arena *arena)
{
    struct str id = {0}, slug = {0};

    return (json_find_text(object, "id", arena, &id) && str_equal_nocase(id, str_of(given))) ||
           (json_find_text(object, "slug", arena, &slug) && str_equal(slug, str_of(given)));
}
