#include "cli/package.h"

#include "base/json.h"
#include "base/test.h"

enum { TEXT_MAX = 65536 };

static struct error err;
static struct buf out;

static bool complete(const char *text)
{
    buf_finish(&out);
    out = (struct buf){.max = TEXT_MAX};
    return package_complete(str_of(text), &out, &err);
}

static bool has(const char *path, const char *want)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str value;

    return json_find_raw(buf_str(&out), path, &arena, &value) && str_equal(value, str_of(want));
}

static bool is_complete(void)
{
    AUTO(buf_finish) struct buf checked = {.max = TEXT_MAX};

    return json_canonical(buf_str(&out), TEXT_MAX, &checked, &err) && has("private", "true") &&
           has("type", "\"module\"") && has("packageManager", "\"bun@1.3.10\"") &&
           has("peerDependencies.@helmr/sdk", "\"*\"") &&
           has("peerDependenciesMeta.@helmr/sdk.optional", "true");
}

TEST(an_empty_object_becomes_a_whole_package)
{
    CHECK(complete("{}\n") && is_complete());
    CHECK(complete("{ }") && is_complete());
}

TEST(what_is_there_keeps_its_value_and_its_form)
{
    CHECK(complete(
        "{\n\t\"name\": \"x\",\n\t\"private\": false,\n\t\"dependencies\": {\"a\":\"1\"}\n}\n"));
    CHECK(has("private", "false") && has("name", "\"x\"") && has("type", "\"module\""));
    CHECK(memmem(out.bytes, out.len, "\n\t\"dependencies\": {\"a\":\"1\"}\n}\n", 30) != NULL);
}

TEST(peers_are_added_to_those_that_are_there)
{
    CHECK(complete("{\"peerDependencies\": {\"react\": \"^19\"}, \"peerDependenciesMeta\": {}}"));
    CHECK(is_complete() && has("peerDependencies.react", "\"^19\""));
    CHECK(complete(
        "{\"peerDependenciesMeta\":{\"react\":{}},\"x\":1,\"peerDependencies\":{\"a\":\"1\"}}"));
    CHECK(is_complete() && has("peerDependenciesMeta.react", "{}") && has("x", "1"));
}

TEST(a_complete_package_is_left_alone)
{
    CHECK(complete("{}"));
    char *first = strndup(out.bytes, out.len);
    CHECK(first && complete(first));
    CHECK(str_equal(buf_str(&out), str_of(first)));
    free(first);
}

TEST(what_is_no_object_is_refused)
{
    CHECK(!complete("[{}]"));
    CHECK(!complete("{"));
    CHECK(!complete("\"{\""));
    CHECK(!complete("{} {}"));
}

TEST_MAIN()
