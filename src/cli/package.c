#include "cli/package.h"

#include "base/json.h"
#include "cli/scan.h"

enum { PACKAGE_MAX = 1024 * 1024 };

static const struct {
    const char *key, *value;
    const char *nested; /* the key that an object which is there must have, with its value */
    const char *nested_value;
} wanted[] = {
    {"\"private\"",              "true",           NULL,             NULL                    },
    {"\"type\"",                 "\"module\"",     NULL,             NULL                    },
    {"\"packageManager\"",       "\"bun@1.3.10\"", NULL,             NULL                    },
    {"\"peerDependencies\"",     NULL,             "\"@helmr/sdk\"", "\"*\""                 },
    {"\"peerDependenciesMeta\"", NULL,             "\"@helmr/sdk\"", "{ \"optional\": true }"},
};

static bool find(struct str object, const char *key, struct str *value)
{
    struct str name;

    while (scan_member(&object, &name, value)) {
        if (str_equal(name, str_of(key)))
            return true;
    }
    return false;
}

static bool is_empty(struct str object)
{
    struct str key, value;

    return !scan_member(&object, &key, &value);
}

static bool put(struct buf *out, const char *text, struct error *err)
{
    return buf_append(out, str_of(text), err);
}

/* `"key": value,` behind the opening brace of an object, in the usual form. */
static bool put_member(struct buf *out, const char *indent, const char *key, const char *value,
                       bool is_last, struct error *err)
{
    return put(out, "\n", err) && put(out, indent, err) && put(out, key, err) &&
           put(out, ": ", err) && put(out, value, err) && put(out, is_last ? "\n" : ",", err);
}

static bool put_object(struct buf *out, size_t row, bool is_last, struct error *err)
{
    return put(out, "\n  ", err) && put(out, wanted[row].key, err) && put(out, ": {", err) &&
           put_member(out, "    ", wanted[row].nested, wanted[row].nested_value, true, err) &&
           put(out, is_last ? "  }\n" : "  },", err);
}

static bool is_missing(struct str object, size_t row)
{
    struct str value;

    return !find(object, wanted[row].key, &value);
}

/* Members that are missing altogether go first, behind the brace. */
static bool put_missing(struct buf *out, struct str object, struct error *err)
{
    size_t last = COUNT_OF(wanted);

    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        last = is_missing(object, i) ? i : last;
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        bool is_last = is_empty(object) && i == last;

        if (!is_missing(object, i))
            continue;
        if (!(wanted[i].value ? put_member(out, "  ", wanted[i].key, wanted[i].value, is_last, err)
                              : put_object(out, i, is_last, err)))
            return false;
    }
    return true;
}

/* Copies up to and with the brace that opens `object`, then adds the nested key. */
static bool put_nested(struct buf *out, struct str *rest, struct str object, size_t row,
                       struct error *err)
{
    size_t before = (size_t)(object.ptr - rest->ptr) + 1;

    if (!buf_append(out, (struct str){rest->ptr, before}, err) ||
        !put_member(out, "    ", wanted[row].nested, wanted[row].nested_value, is_empty(object),
                    err))
        return false;
    *rest = (struct str){rest->ptr + before, rest->len - before};
    return true;
}

bool package_complete(struct str text, struct buf *out, struct error *err)
{
    AUTO(buf_finish) struct buf checked = {.max = PACKAGE_MAX};
    const char *brace = memchr(text.ptr, '{', text.len);
    struct str value;

    if (!json_canonical(text, PACKAGE_MAX, &checked, err))
        return false;
    if (!brace || checked.bytes[0] != '{')
        return error_set(err, ERR_INVALID, "must be a JSON object");

    struct str object = {brace, text.len - (size_t)(brace - text.ptr)}, rest = object;
    struct str key, nested;

    if (!buf_append(out, (struct str){text.ptr, (size_t)(brace - text.ptr) + 1}, err) ||
        !put_missing(out, object, err))
        return false;
    rest = (struct str){object.ptr + 1, object.len - 1};

    /* In the order of the text, so that it is copied once. */
    for (struct str members = object; scan_member(&members, &key, &value);) {
        for (size_t i = 0; i < COUNT_OF(wanted); i++) {
            bool is_here = wanted[i].nested && str_equal(key, str_of(wanted[i].key)) &&
                           value.ptr[0] == '{' && !find(value, wanted[i].nested, &nested);

            if (is_here && !put_nested(out, &rest, value, i, err))
                return false;
        }
    }
    return buf_append(out, rest, err);
}
