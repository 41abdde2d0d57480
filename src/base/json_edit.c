#include "base/json_edit.h"

#include <math.h>
#include <stdio.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/json_tree.h"

static bool parse_object(struct str text, struct tree **document, struct error *err)
{
    if (!tree_parse(text, document, err))
        return false;
    return tree_kind(*document) == TREE_OBJECT || error_set(err, ERR_INVALID, "must be an object");
}

static bool names_fit(const struct tree *object, size_t max, struct error *err)
{
    const struct tree *value;
    struct str name;

    for (void *at = NULL; tree_next(object, &at, &name, &value);)
        if (name.len < 1 || name.len > max)
            return error_set(err, ERR_INVALID, "a key must have 1 to %zu bytes", max);
    return true;
}

/* Those that `others` has not, when there are others. */
static bool write_members(const struct tree *object, const struct tree *others, bool *is_first,
                          struct buf *out, struct error *err)
{
    const struct tree *value;
    struct str name;

    for (void *at = NULL; tree_next(object, &at, &name, &value);) {
        if (others && tree_member(others, name.ptr))
            continue;
        if ((!*is_first && !buf_append(out, STR(","), err)) || !json_quote(out, name, err) ||
            !buf_append(out, STR(":"), err) || !tree_write(value, false, out, err))
            return false;
        *is_first = false;
    }
    return true;
}

bool json_merge(struct str object, struct str patch, size_t name_max, size_t max, struct buf *out,
                struct error *err)
{
    AUTO(tree_finish) struct tree *base = NULL;
    AUTO(tree_finish) struct tree *over = NULL;
    AUTO(buf_finish) struct buf joined = {.max = max};
    bool is_first = true;

    return parse_object(object, &base, err) && parse_object(patch, &over, err) &&
           names_fit(over, name_max, err) && buf_append(&joined, STR("{"), err) &&
           write_members(base, over, &is_first, &joined, err) &&
           write_members(over, NULL, &is_first, &joined, err) &&
           buf_append(&joined, STR("}"), err) && json_canonical(buf_str(&joined), max, out, err);
}

/* Whole numbers are added as such while the sum is one; beyond that as JavaScript does. */
static bool add(const struct tree *member, const struct tree *amount, char text[40],
                struct error *err)
{
    int64_t a = 0, b, sum;
    double x = 0, y;

    if (!tree_number(amount, &y))
        return error_set(err, ERR_INVALID, "the amount must be a number");
    if (member && !tree_number(member, &x))
        return error_set(err, ERR_INVALID, "what is incremented is not a number");
    if ((!member || tree_integer(member, &a)) && tree_integer(amount, &b) &&
        !__builtin_add_overflow(a, b, &sum)) {
        snprintf(text, 40, "%lld", (long long)sum);
        return true;
    }
    if (!isfinite(x + y))
        return error_set(err, ERR_INVALID, "the sum is no number any more");
    snprintf(text, 40, "%.17g", x + y);
    return true;
}

bool json_add(struct str object, struct str name, struct str amount, size_t name_max, size_t max,
              struct buf *out, struct error *err)
{
    AUTO(tree_finish) struct tree *base = NULL;
    AUTO(tree_finish) struct tree *number = NULL;
    AUTO(buf_finish) struct buf patch = {.max = 8 * name_max + 64};
    AUTO(arena_finish) struct arena arena = {0};
    char text[40];

    if (name.len > name_max)
        return error_set(err, ERR_INVALID, "a key must have 1 to %zu bytes", name_max);
    return parse_object(object, &base, err) && tree_parse(amount, &number, err) &&
           add(tree_member(base, arena_text(&arena, name)), number, text, err) &&
           buf_append(&patch, STR("{"), err) && json_quote(&patch, name, err) &&
           buf_append(&patch, STR(":"), err) && buf_append(&patch, str_of(text), err) &&
           buf_append(&patch, STR("}"), err) &&
           json_merge(object, buf_str(&patch), name_max, max, out, err);
}
