#include "base/json_edit.h"

#include <stdio.h>

#include "base/test.h"

enum { NAME_MAX_BYTES = 8, MAX = 64 };

static const char *merged(const char *object, const char *patch)
{
    static char text[MAX + 1];
    AUTO(buf_finish) struct buf out = {.max = MAX};
    struct error err;

    if (!json_merge(str_of(object), str_of(patch), NAME_MAX_BYTES, MAX, &out, &err))
        return error_wire_name(err.code);
    snprintf(text, sizeof text, "%.*s", (int)out.len, out.bytes);
    return text;
}

static const char *added(const char *object, const char *name, const char *amount)
{
    static char text[MAX + 1];
    AUTO(buf_finish) struct buf out = {.max = MAX};
    struct error err;

    if (!json_add(str_of(object), str_of(name), str_of(amount), NAME_MAX_BYTES, MAX, &out, &err))
        return error_wire_name(err.code);
    snprintf(text, sizeof text, "%.*s", (int)out.len, out.bytes);
    return text;
}

TEST(a_patch_is_shallow)
{
    CHECK_STR(merged("{}", "{}"), "{}");
    CHECK_STR(merged("{\"b\":1}", "{\"a\":2}"), "{\"a\":2,\"b\":1}");
    CHECK_STR(merged("{\"a\":{\"x\":1},\"b\":1}", "{\"a\":{\"y\":2}}"),
              "{\"a\":{\"y\":2},\"b\":1}");
    CHECK_STR(merged("{\"a\":1}", "{\"a\":null}"), "{\"a\":null}");
    CHECK_STR(merged("{\"a.b\":1}", "{\"a\":{\"b\":2}}"), "{\"a\":{\"b\":2},\"a.b\":1}");
}

TEST(what_is_too_large_or_no_object_is_refused)
{
    CHECK_STR(merged("{}", "[]"), "invalid_request");
    CHECK_STR(merged("{}", "{\"\":1}"), "invalid_request");
    CHECK_STR(merged("{}", "{\"123456789\":1}"), "invalid_request");
    CHECK_STR(merged("{}", "{"), error_wire_name(ERR_INVALID_JSON));
    CHECK_STR(merged("{\"a\":\"0123456789012345678901234567890123456789\"}",
                     "{\"b\":\"0123456789012345678901234567890123456789\"}"),
              error_wire_name(ERR_TOO_LARGE));
}

TEST(numbers_are_added)
{
    CHECK_STR(added("{}", "n", "1"), "{\"n\":1}");
    CHECK_STR(added("{\"n\":41,\"a\":0}", "n", "1"), "{\"a\":0,\"n\":42}");
    CHECK_STR(added("{\"n\":1}", "n", "-3"), "{\"n\":-2}");
    CHECK_STR(added("{\"n\":0.5}", "n", "0.25"), "{\"n\":0.75}");
    CHECK_STR(added("{\"n\":0.5}", "n", "0.5"), "{\"n\":1}");
    CHECK_STR(added("{\"a.b\":1}", "a.b", "1"), "{\"a.b\":2}");
    CHECK_STR(added("{\"n\":9223372036854775807}", "n", "1"), "{\"n\":9.223372036854776e+18}");
}

TEST(only_numbers_are_added)
{
    CHECK_STR(added("{\"n\":\"1\"}", "n", "1"), "invalid_request");
    CHECK_STR(added("{\"n\":null}", "n", "1"), "invalid_request");
    CHECK_STR(added("{}", "n", "\"1\""), "invalid_request");
    CHECK_STR(added("{\"n\":1.7e308}", "n", "1.7e308"), "invalid_request");
    CHECK_STR(added("{}", "123456789", "1"), "invalid_request");
    CHECK_STR(added("{}", "", "1"), "invalid_request");
}

TEST_MAIN()
