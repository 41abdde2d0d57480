#include "cli/payload.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/test.h"
#include "cli/commands.h"

static struct error err;
static struct invocation invocation;
static struct buf out;

/* Parsed by the real tables, so that the flags are those of the commands. */
static bool parse_with(const struct command *table, size_t n_table, const char *const *words,
                       size_t n)
{
    static char *argv[32];

    argv[0] = (char *)(size_t)"helmr";
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = (char *)(size_t)words[i];
    buf_finish(&out);
    out = (struct buf){.max = RUN_BODY_MAX};
    return command_parse(table, n_table, (int)n + 1, argv, &invocation, &err);
}

static bool parse(const char *const *words, size_t n)
{
    return parse_with(cli_commands, n_cli_commands, words, n);
}

#define PARSE(...)                                   \
    parse((const char *const[]){"run", __VA_ARGS__}, \
          sizeof((const char *const[]){"run", __VA_ARGS__}) / sizeof(const char *))
#define PAYLOAD(...) (PARSE("t", ##__VA_ARGS__) && payload_read(&invocation, &out, &err))
#define BODY(...)    (PARSE("t", ##__VA_ARGS__) && payload_run_body(&invocation, "t", &out, &err))

static bool is(const char *want)
{
    return str_equal(buf_str(&out), str_of(want));
}

TEST(no_payload_is_an_empty_object)
{
    CHECK(PAYLOAD() && is("{}"));
}

TEST(pairs_make_a_flat_object_of_texts)
{
    CHECK(PAYLOAD("-p", "name=Ada", "--payload", "url= http://x?a=b "));
    CHECK(is("{\"name\":\"Ada\",\"url\":\"http://x?a=b\"}"));
    CHECK(PAYLOAD("-p", "n=1") && is("{\"n\":\"1\"}"));
}

TEST(the_letter_p_is_the_project_when_its_value_has_no_equals_sign)
{
    CHECK(PAYLOAD("-p", "main", "-p", "a=b") && is("{\"a\":\"b\"}"));
    CHECK_STR(invocation_value(&invocation, "project"), "main");
}

TEST(a_pair_without_name_or_value_is_refused)
{
    CHECK(!PAYLOAD("--payload", "name="));
    CHECK(!PAYLOAD("--payload", "name=  "));
    CHECK(!PAYLOAD("--payload", "=x"));
    CHECK(!PAYLOAD("--payload", "x"));
    CHECK_STR(err.text, "--payload x: write it as NAME=VALUE");
}

TEST(json_is_checked_before_it_is_sent)
{
    CHECK(PAYLOAD("--payload-json", " [1, {\"b\": 2}] ") && is("[1,{\"b\":2}]"));
    CHECK(PAYLOAD("--payload-json", "null") && is("null"));
    CHECK(!PAYLOAD("--payload-json", "{"));
    CHECK(strncmp(err.text, "--payload-json: not valid JSON at line 1", 40) == 0);
    CHECK(!PAYLOAD("--payload-json", "{} {}"));
    CHECK(!PAYLOAD("--payload-json", "{\"a\":1,\"a\":2}"));
}

TEST(there_is_only_one_source_of_the_payload)
{
    CHECK(!PAYLOAD("--payload-json", "{}", "-p", "a=b"));
    CHECK(!PAYLOAD("--payload-json", "{}", "--payload-file", "x"));
    CHECK(!PAYLOAD("--payload-file", "/nonexistent/x"));
}

TEST(a_secret_comes_from_the_vault_or_not_at_all)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str secrets;

    CHECK(BODY("--secret", "KEY=vault:stored"));
    CHECK(json_find_raw(buf_str(&out), "secrets", &arena, &secrets));
    CHECK(str_equal(secrets, STR("{\"KEY\":\"vault:stored\"}")));
    CHECK(!BODY("--secret", "KEY=env:HOME") && err.code == ERR_SECRET_SOURCE);
    CHECK(!BODY("--secret", "KEY=file:/etc/passwd"));
    CHECK(!BODY("--secret", "KEY=vault:"));
}

TEST(every_option_has_its_place_in_the_request)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str options;

    CHECK(BODY("--deployment", "20261115.1", "--queue", "q", "--concurrency-key", "c", "--priority",
               "-3", "--ttl", "1h30m", "--max-duration-seconds", "60", "--metadata-json",
               "{\"a\":1}", "--tag", "x", "--tag", "y", "--retry-json", "{\"maxAttempts\":2}",
               "--idempotency-key", "k", "--idempotency-key-ttl", "2d"));
    CHECK(json_find_raw(buf_str(&out), "options", &arena, &options));
    CHECK(str_equal(options, STR("{\"deployment_id\":\"20261115.1\",\"idempotency_key\":\"k\","
                                 "\"idempotency_key_ttl\":\"2d\",\"queue\":{\"name\":\"q\"},"
                                 "\"concurrency_key\":\"c\",\"tags\":[\"x\",\"y\"],"
                                 "\"priority\":-3,\"ttl\":\"1h30m\",\"max_duration_seconds\":60,"
                                 "\"metadata\":{\"a\":1},\"retry\":{\"maxAttempts\":2}}")));
    CHECK(!BODY("--priority", "high"));
    CHECK(!BODY("--ttl", "soon"));
}

#define SESSION(...)                                                                  \
    (parse_with(session_commands, n_session_commands,                                 \
                (const char *const[]){"session", "start", "t", __VA_ARGS__},          \
                sizeof((const char *const[]){"session", "start", "t", __VA_ARGS__}) / \
                    sizeof(const char *)) &&                                          \
     payload_session_body(&invocation, "t", &out, &err))

TEST(the_start_of_a_session_has_its_options_beside_the_payload)
{
    CHECK(SESSION("-p", "name=Ada", "-p", "main", "--external-id", "chat-7", "--workspace", "w",
                  "--expires-at", "2026-12-01T00:00:00Z", "--queue", "q", "--tag", "x", "--ttl",
                  "5m"));
    CHECK(is("{\"task_id\":\"t\",\"payload\":{\"name\":\"Ada\"},\"external_id\":\"chat-7\","
             "\"workspace_id\":\"w\",\"expires_at\":\"2026-12-01T00:00:00Z\","
             "\"queue\":{\"name\":\"q\"},\"tags\":[\"x\"],\"ttl\":\"5m\"}"));
    CHECK_STR(invocation_value(&invocation, "project"), "main");
    CHECK(!SESSION("--deployment", "20261115.1"));
    CHECK(!SESSION("--idempotency-key", "k"));
}

TEST(a_task_has_a_name_that_can_be_one)
{
    CHECK(PARSE("t") && !payload_run_body(&invocation, "no such/thing", &out, &err));
}

TEST_MAIN()
