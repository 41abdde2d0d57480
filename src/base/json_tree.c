#include "base/json_tree.h"

#include <jansson.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/own.h"
#include "base/secret.h"

static json_t *of(const struct tree *value)
{
    return (json_t *)value;
}

/* Before the parser, whose own limit of 2048 cannot be changed. */
static bool is_shallow(struct str text)
{
    int depth = 0;
    bool in_text = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (in_text && c == '\\')
            i++;
        else if (c == '"')
            in_text = !in_text;
        else if (!in_text && (c == '{' || c == '['))
            depth++;
        else if (!in_text && (c == '}' || c == ']'))
            depth--;
        if (depth > JSON_DEPTH_MAX)
            return false;
    }
    return true;
}

static pthread_once_t memory_is_set = PTHREAD_ONCE_INIT;

/* Some of what is read is secret, and the parser's memory is nobody else's to wipe. */
static void wipe_and_free(void *memory)
{
    if (memory)
        bytes_wipe(memory, malloc_usable_size(memory));
    free(memory);
}

static void set_memory(void)
{
    json_set_alloc_funcs(malloc, wipe_and_free);
}

bool tree_parse(struct str text, struct tree **document, struct error *err)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_error_t problem;

    if (!is_shallow(text))
        return error_set(err, ERR_INVALID_JSON, "JSON is nested over %d deep", JSON_DEPTH_MAX);

    const char *bytes = text.ptr ? text.ptr : "";
    (void)pthread_once(&memory_is_set, set_memory);
    json_t *root = json_loadb(bytes, text.len, flags, &problem);

    /* An integer over 64 bits is legal JSON and every double is printed so by JavaScript. */
    if (!root && json_error_code(&problem) == json_error_numeric_overflow)
        root = json_loadb(bytes, text.len, flags | JSON_DECODE_INT_AS_REAL, &problem);
    if (!root)
        return error_set(err, ERR_INVALID_JSON, "not valid JSON at line %d, column %d: %s",
                         problem.line, problem.column, problem.text);
    *document = (struct tree *)root;
    return true;
}

void tree_finish(struct tree **document)
{
    json_decref(of(*document));
}

enum tree_kind tree_kind(const struct tree *value)
{
    switch (json_typeof(of(value))) {
    case JSON_OBJECT: return TREE_OBJECT;
    case JSON_ARRAY: return TREE_LIST;
    case JSON_STRING: return TREE_TEXT;
    case JSON_INTEGER: return TREE_INTEGER;
    case JSON_REAL: return TREE_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return TREE_BOOL;
    case JSON_NULL: return TREE_NULL;
    }
    abort();
}

struct str tree_text(const struct tree *value)
{
    return (struct str){json_string_value(of(value)), json_string_length(of(value))};
}

bool tree_bool(const struct tree *value)
{
    return json_is_true(of(value));
}

/* A whole number that a double holds exactly. */
static bool is_whole(double real)
{
    return real >= -9007199254740992.0 && real <= 9007199254740992.0 &&
           real == (double)(int64_t)real;
}

bool tree_integer(const struct tree *value, int64_t *number)
{
    if (json_is_integer(of(value))) {
        *number = json_integer_value(of(value));
        return true;
    }

    double real = json_real_value(of(value));

    if (!json_is_real(of(value)) || !is_whole(real))
        return false;
    *number = (int64_t)real;
    return true;
}

bool tree_number(const struct tree *value, double *number)
{
    if (!json_is_number(of(value)))
        return false;
    *number = json_number_value(of(value));
    return true;
}

size_t tree_count(const struct tree *value)
{
    return json_is_array(of(value)) ? json_array_size(of(value)) : json_object_size(of(value));
}

const struct tree *tree_item(const struct tree *list, size_t index)
{
    return (const struct tree *)json_array_get(of(list), index);
}

const struct tree *tree_member(const struct tree *object, const char *name)
{
    return (const struct tree *)json_object_get(of(object), name);
}

bool tree_next(const struct tree *object, void **at, struct str *name, const struct tree **value)
{
    *at = *at ? json_object_iter_next(of(object), *at) : json_object_iter(of(object));
    if (!*at)
        return false;
    *name = str_of(json_object_iter_key(*at));
    *value = (const struct tree *)json_object_iter_value(*at);
    return true;
}

static bool write_integer(json_int_t number, struct buf *out, struct error *err)
{
    char text[24];

    snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, number);
    return buf_append(out, str_of(text), err);
}

/* The shortest of the forms that read back as the same number. */
static bool write_real(double real, struct buf *out, struct error *err)
{
    char text[40];

    if (is_whole(real))
        return write_integer((json_int_t)real, out, err);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, real);
        if (strtod(text, NULL) == real)
            break;
    }
    return buf_append(out, str_of(text), err);
}

static bool write_list(const struct tree *list, bool is_sorted, struct buf *out, struct error *err)
{
    if (!buf_append(out, STR("["), err))
        return false;
    for (size_t i = 0; i < tree_count(list); i++) {
        if ((i && !buf_append(out, STR(","), err)) ||
            !tree_write(tree_item(list, i), is_sorted, out, err))
            return false;
    }
    return buf_append(out, STR("]"), err);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const struct str *)a)->ptr, ((const struct str *)b)->ptr);
}

static bool write_object(const struct tree *object, bool is_sorted, struct buf *out,
                         struct error *err)
{
    size_t n = 0;
    AUTO(arena_finish) struct arena arena = {0};
    struct str *names = arena_array(&arena, tree_count(object), sizeof *names);
    const struct tree *value;
    struct str name;

    for (void *at = NULL; tree_next(object, &at, &name, &value);)
        names[n++] = name;
    if (is_sorted)
        qsort(names, n, sizeof *names, by_bytes);
    if (!buf_append(out, STR("{"), err))
        return false;
    for (size_t i = 0; i < n; i++) {
        if ((i && !buf_append(out, STR(","), err)) || !json_quote(out, names[i], err) ||
            !buf_append(out, STR(":"), err) ||
            !tree_write(tree_member(object, names[i].ptr), is_sorted, out, err))
            return false;
    }
    return buf_append(out, STR("}"), err);
}

bool tree_write(const struct tree *value, bool is_sorted, struct buf *out, struct error *err)
{
    switch (tree_kind(value)) {
    case TREE_NULL: return buf_append(out, STR("null"), err);
    case TREE_BOOL: return buf_append(out, tree_bool(value) ? STR("true") : STR("false"), err);
    case TREE_INTEGER: return write_integer(json_integer_value(of(value)), out, err);
    case TREE_REAL: return write_real(json_real_value(of(value)), out, err);
    case TREE_TEXT: return json_quote(out, tree_text(value), err);
    case TREE_LIST: return write_list(value, is_sorted, out, err);
    case TREE_OBJECT: return write_object(value, is_sorted, out, err);
    }
    abort();
}
