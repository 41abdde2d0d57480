#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json_tree.h"

/* What a field without a .max gets. */
enum { TEXT_MAX = 64 * 1024, RAW_MAX = 1024 * 1024, ITEMS_MAX = 1024 };

struct reader {
    struct arena *arena;
    bool is_loose;
    char path[256];
    struct error *err;
};

static bool read_fields(struct reader *reader, const struct tree *object,
                        const struct json_field *fields, char *into);

/* Extends the path shown in messages and returns where to cut it again. Control characters of a
 * peer's key never reach a terminal. */
static size_t enter(struct reader *reader, const char *name)
{
    size_t before = strlen(reader->path);

    snprintf(reader->path + before, sizeof reader->path - before, "/%.64s", name);
    for (char *at = reader->path + before; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    }
    return before;
}

static size_t enter_index(struct reader *reader, size_t index)
{
    char name[24];

    snprintf(name, sizeof name, "%zu", index);
    return enter(reader, name);
}

static void leave(struct reader *reader, size_t before)
{
    reader->path[before] = '\0';
}

static bool refuse(struct reader *reader, const char *rule)
{
    return error_set(reader->err, ERR_INVALID, "%s must be %s",
                     reader->path[0] ? reader->path : "the document", rule);
}

static bool refuse_over(struct reader *reader, int64_t limit, const char *unit)
{
    char rule[64];

    snprintf(rule, sizeof rule, "at most %lld%s", (long long)limit, unit);
    return refuse(reader, rule);
}

static bool refuse_under(struct reader *reader, int64_t limit, const char *unit)
{
    char rule[64];

    snprintf(rule, sizeof rule, "at least %lld%s", (long long)limit, unit);
    return refuse(reader, rule);
}

static int64_t limit_or(int64_t max, int64_t otherwise)
{
    return max ? max : otherwise;
}

static bool read_text(struct reader *reader, const struct tree *value, int64_t min, int64_t max,
                      struct str *into)
{
    if (tree_kind(value) != TREE_TEXT)
        return refuse(reader, "text");

    struct str text = tree_text(value);

    if ((int64_t)text.len > max)
        return refuse_over(reader, max, " bytes");
    if ((int64_t)text.len < min)
        return refuse_under(reader, min, " bytes");
    *into = arena_str(reader->arena, text);
    return true;
}

static bool read_integer(struct reader *reader, const struct tree *value,
                         const struct json_field *field, int64_t *into)
{
    bool is_bounded = field->min || field->max;

    if (!tree_integer(value, into))
        return refuse(reader, "an integer");
    if (is_bounded && *into > field->max)
        return refuse_over(reader, field->max, "");
    if (is_bounded && *into < field->min)
        return refuse_under(reader, field->min, "");
    return true;
}

static bool read_number(struct reader *reader, const struct tree *value,
                        const struct json_field *field, double *into)
{
    bool is_bounded = field->min || field->max;

    if (!tree_number(value, into))
        return refuse(reader, "a number");
    if (is_bounded && *into > (double)field->max)
        return refuse_over(reader, field->max, "");
    if (is_bounded && *into < (double)field->min)
        return refuse_under(reader, field->min, "");
    return true;
}

static bool write_raw(const struct tree *value, size_t max, struct arena *arena, struct str *into,
                      struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = max};

    if (!tree_write(value, false, &text, err))
        return false;
    *into = arena_str(arena, buf_str(&text));
    return true;
}

static bool read_raw(struct reader *reader, const struct tree *value,
                     const struct json_field *field, struct str *into)
{
    int64_t max = limit_or(field->max, RAW_MAX);
    struct error too_large;

    if (!write_raw(value, (size_t)max, reader->arena, into, &too_large))
        return refuse_over(reader, max, " bytes of JSON");
    return true;
}

static bool count_fits(struct reader *reader, size_t n, const struct json_field *field)
{
    int64_t max = limit_or(field->max, ITEMS_MAX);

    if ((int64_t)n > max)
        return refuse_over(reader, max, " items");
    if ((int64_t)n < field->min)
        return refuse_under(reader, field->min, " items");
    return true;
}

static bool read_item(struct reader *reader, const struct tree *value,
                      const struct json_field *field, char *into)
{
    if (!field->fields)
        return read_text(reader, value, 0, TEXT_MAX, (struct str *)into);
    if (tree_kind(value) != TREE_OBJECT)
        return refuse(reader, "an object");
    return read_fields(reader, value, field->fields, into);
}

static bool read_list(struct reader *reader, const struct tree *value,
                      const struct json_field *field, struct json_list *into)
{
    if (tree_kind(value) != TREE_LIST)
        return refuse(reader, "a list");

    size_t n = tree_count(value), size = field->fields ? field->size : sizeof(struct str);

    if (!count_fits(reader, n, field))
        return false;
    *into = (struct json_list){arena_array(reader->arena, n, size), n};
    for (size_t i = 0; i < n; i++) {
        size_t before = enter_index(reader, i);

        if (!read_item(reader, tree_item(value, i), field, (char *)into->items + i * size))
            return false;
        leave(reader, before);
    }
    return true;
}

static const struct json_field any_value = {.kind = JSON_RAW};

static bool read_map(struct reader *reader, const struct tree *value,
                     const struct json_field *field, struct json_map *into)
{
    if (tree_kind(value) != TREE_OBJECT)
        return refuse(reader, field->is_raw ? "an object" : "an object of texts");

    size_t n = tree_count(value);
    const struct tree *member;
    struct str name;

    if (!count_fits(reader, n, field))
        return false;
    *into = (struct json_map){arena_array(reader->arena, n, sizeof(struct json_pair)), 0};
    for (void *at = NULL; tree_next(value, &at, &name, &member);) {
        struct json_pair *pair = &into->pairs[into->n++];
        size_t before = enter(reader, name.ptr);

        pair->name = arena_str(reader->arena, name);
        if (field->is_raw ? !read_raw(reader, member, &any_value, &pair->value)
                          : !read_text(reader, member, 0, TEXT_MAX, &pair->value))
            return false;
        leave(reader, before);
    }
    return true;
}

static bool read_bool(struct reader *reader, const struct tree *value, bool *into)
{
    if (tree_kind(value) != TREE_BOOL)
        return refuse(reader, "true or false");
    *into = tree_bool(value);
    return true;
}

static bool read_value(struct reader *reader, const struct tree *value,
                       const struct json_field *field, void *into)
{
    switch (field->kind) {
    case JSON_TEXT:
        return read_text(reader, value, field->min, limit_or(field->max, TEXT_MAX), into);
    case JSON_INTEGER: return read_integer(reader, value, field, into);
    case JSON_NUMBER: return read_number(reader, value, field, into);
    case JSON_BOOL: return read_bool(reader, value, into);
    case JSON_RAW: return read_raw(reader, value, field, into);
    case JSON_OBJ:
        return tree_kind(value) == TREE_OBJECT ? read_fields(reader, value, field->fields, into)
                                               : refuse(reader, "an object");
    case JSON_LIST: return read_list(reader, value, field, into);
    case JSON_MAP: return read_map(reader, value, field, into);
    }
    return refuse(reader, "of a known kind");
}

static bool read_field(struct reader *reader, const struct tree *object,
                       const struct json_field *field, char *into)
{
    const struct tree *value = tree_member(object, field->name);
    bool is_null = value && tree_kind(value) == TREE_NULL && field->kind != JSON_RAW;
    size_t before = enter(reader, field->name);

    if (!value || (is_null && field->need == OPTIONAL)) {
        if (field->need == REQUIRED)
            return error_set(reader->err, ERR_INVALID, "%s is required", reader->path);
    } else {
        if (!read_value(reader, value, field, into + field->offset))
            return false;
        if (field->present)
            *(bool *)(into + field->present) = true;
    }
    leave(reader, before);
    return true;
}

static bool is_known(const struct json_field *fields, struct str name)
{
    for (; fields->name; fields++) {
        if (str_equal(name, str_of(fields->name)))
            return true;
    }
    return false;
}

static bool read_fields(struct reader *reader, const struct tree *object,
                        const struct json_field *fields, char *into)
{
    const struct tree *value;
    struct str name;

    for (void *at = NULL; !reader->is_loose && tree_next(object, &at, &name, &value);) {
        if (is_known(fields, name))
            continue;
        enter(reader, name.ptr);
        return error_set(reader->err, ERR_UNKNOWN_FIELD, "%s is not a known field", reader->path);
    }
    for (; fields->name; fields++) {
        if (!read_field(reader, object, fields, into))
            return false;
    }
    return true;
}

static bool read_document(struct str text, const struct json_field *fields, void *into, size_t size,
                          struct reader *reader)
{
    AUTO(tree_finish) struct tree *document = NULL;

    memset(into, 0, size);
    if (!tree_parse(text, &document, reader->err))
        return false;
    if (tree_kind(document) != TREE_OBJECT)
        return refuse(reader, "an object");
    return read_fields(reader, document, fields, into);
}

bool json_read(struct str text, const struct json_field *fields, void *into, size_t size,
               struct arena *arena, struct error *err)
{
    struct reader reader = {.arena = arena, .err = err};

    return read_document(text, fields, into, size, &reader);
}

bool json_read_loose(struct str text, const struct json_field *fields, void *into, size_t size,
                     struct arena *arena, struct error *err)
{
    struct reader reader = {.arena = arena, .is_loose = true, .err = err};

    return read_document(text, fields, into, size, &reader);
}

bool json_canonical(struct str text, size_t max, struct buf *out, struct error *err)
{
    AUTO(tree_finish) struct tree *document = NULL;
    AUTO(buf_finish) struct buf canonical = {.max = max};

    return tree_parse(text, &document, err) && tree_write(document, true, &canonical, err) &&
           buf_append(out, buf_str(&canonical), err);
}

/* "events.0.kind": a number is an index in a list and a name in an object. */
static const struct tree *find(const struct tree *at, const char *path)
{
    struct str rest = str_of(path), step;

    while (at && *path && str_split(&rest, '.', &step)) {
        char name[128];

        if (step.len >= sizeof name)
            return NULL;
        memcpy(name, step.ptr, step.len);
        name[step.len] = '\0';
        if (tree_kind(at) == TREE_LIST) {
            char *end;
            size_t index = strtoul(name, &end, 10);

            at = *end || !step.len ? NULL : tree_item(at, index);
        } else {
            at = tree_kind(at) == TREE_OBJECT ? tree_member(at, name) : NULL;
        }
    }
    return at;
}

bool json_find_text(struct str text, const char *path, struct arena *arena, struct str *value)
{
    AUTO(tree_finish) struct tree *document = NULL;
    struct error ignored;
    const struct tree *found = tree_parse(text, &document, &ignored) ? find(document, path) : NULL;

    if (!found || tree_kind(found) != TREE_TEXT)
        return false;
    *value = arena_str(arena, tree_text(found));
    return true;
}

bool json_find_int(struct str text, const char *path, int64_t *value)
{
    AUTO(tree_finish) struct tree *document = NULL;
    struct error ignored;
    const struct tree *found = tree_parse(text, &document, &ignored) ? find(document, path) : NULL;

    return found && tree_integer(found, value);
}

bool json_find_raw(struct str text, const char *path, struct arena *arena, struct str *value)
{
    AUTO(tree_finish) struct tree *document = NULL;
    struct error ignored;
    const struct tree *found = tree_parse(text, &document, &ignored) ? find(document, path) : NULL;

    /* Escapes may be written longer than they were read; never more than sixfold. */
    return found && write_raw(found, 6 * text.len + 64, arena, value, &ignored);
}

size_t json_count(struct str text, const char *path)
{
    AUTO(tree_finish) struct tree *document = NULL;
    struct error ignored;
    const struct tree *found = tree_parse(text, &document, &ignored) ? find(document, path) : NULL;

    return found ? tree_count(found) : 0;
}
