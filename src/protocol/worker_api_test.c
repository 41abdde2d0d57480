#include "protocol/worker_api.h"

#include "base/test.h"
#include "protocol/worker_api_mount.h"

static struct buf text = {.max = MIB(1)};
static struct arena arena;
static struct error err;

static bool write_text(const struct json_field *fields, const void *from)
{
    text.len = 0;
    struct json_writer writer = json_begin(&text);
    wire_write(&writer, NULL, fields, from);
    return json_end(&writer, &err);
}

static bool is_text(const char *want)
{
    bool equal = str_equal(buf_str(&text), str_of(want));

    if (!equal)
        printf("# got %.*s\n", (int)text.len, text.bytes);
    return equal;
}

TEST(a_renewal_has_this_form)
{
    const struct wire_renew message = {
        .fence = {7, 2, STR("l-1")},
          .expires_ms = 1000, .active_ms = 5
    };

    CHECK(write_text(wire_renew_fields, &message));
    CHECK(
        is_text("{\"fence\":{\"epoch\":7,\"lease_id\":\"l-1\",\"sequence\":2},\"expires_ms\":1000,"
                "\"active_ms\":5,\"cpu_ms\":0,\"memory_peak\":0}"));
}

TEST(a_run_grant_survives_the_way_there_and_back)
{
    const struct str deny[] = {STR("10.0.0.0/8"), STR("1.2.3.4/32")};
    struct wire_grant sent = {
        .kind = STR("run"),
        .lease_id = STR("lease"),
        .environment_id = STR("env"),
        .project_id = STR("project"),
        .sequence = 3,
        .expires_ms = 99,
        .has_run = true,
        .run = {.run_id = STR("run"),
                .attempt_id = STR("attempt"),
                .session_id = STR("session"),
                .workspace_id = STR("workspace"),
                .attempt = 1,
                .max_duration_ms = 5000,
                .task = {STR("task"), STR("tasks/a.ts"), STR("a"), true},
                .deployment = {STR("deployment"), STR("20260101.1"), {STR("ab"), 10}},
                .sandbox = {.id = STR("s"),
                            .image = STR("sha256:00"),
                            .mount_path = STR("/workspace"),
                            .vcpus = 2,
                            .memory_mib = 2048,
                            .disk_mib = 8192,
                            .internet = true,
                            .deny = {(void *)(uintptr_t)deny, 2}},
                .payload = STR("{\"name\":\"Ada\"}")},
    };
    struct wire_grant got;

    CHECK(write_text(wire_grant_fields, &sent));
    CHECK(json_read(buf_str(&text), wire_grant_fields, &got, sizeof got, &arena, &err));
    CHECK(got.has_run && !got.has_build && got.sequence == 3);
    CHECK(str_equal(got.run.task.module, sent.run.task.module));
    CHECK(got.run.task.preload);
    CHECK(str_equal(got.run.payload, sent.run.payload));
    CHECK(got.run.deployment.bundle.size == 10 && got.run.sandbox.deny.n == 2);
    CHECK(str_equal(((const struct str *)got.run.sandbox.deny.items)[1], deny[1]));
}

TEST(what_an_import_did_has_this_form)
{
    const struct wire_import imports[] = {
        {STR("pure"),  true,  {0}                        },
        {STR("reads"), false, STR("a.ts reads the clock")},
    };
    const struct wire_build_complete message = {
        .fence = {1, 1, STR("l")},
        .outcome = STR("succeeded"),
        .fingerprint = STR("f"),
        .imports = {(void *)(uintptr_t)imports, 2},
        .bundle = {STR("b"), 1},
    };

    CHECK(write_text(wire_build_complete_fields, &message));
    CHECK(
        is_text("{\"fence\":{\"epoch\":1,\"lease_id\":\"l\",\"sequence\":1},\"outcome\":"
                "\"succeeded\",\"fingerprint\":\"f\",\"imports\":[{\"task_id\":"
                "\"pure\",\"preload\":true},{\"task_id\":\"reads\",\"preload\":false,"
                "\"reason\":\"a.ts reads the clock\"}],\"bundle\":{\"digest\":\"b\",\"size\":1}}"));
}

TEST(how_far_a_sandbox_was_prepared_is_one_letter)
{
    static const char text_of_level[] =
        "{\"fence\":{\"epoch\":1,\"lease_id\":\"l\",\"sequence\":1},\"engine\":\"gvisor\","
        "\"grade\":\"user-space kernel\",\"accelerated\":false,\"start\":\"standby\","
        "\"level\":\"%s\",\"start_ms\":1}";
    struct wire_start got;

    CHECK(json_read(str_of(arena_printf(&arena, text_of_level, "b")), wire_start_fields, &got,
                    sizeof got, &arena, &err));
    CHECK(str_equal(got.level, STR("b")));
    CHECK(!json_read(str_of(arena_printf(&arena, text_of_level, "best")), wire_start_fields, &got,
                     sizeof got, &arena, &err));
}

TEST(the_variables_of_a_build_keep_their_names)
{
    struct json_pair pairs[] = {
        {STR("A"),   STR("1")              },
        {STR("B_2"), STR("with \"quotes\"")}
    };
    struct wire_grant sent = {
        .kind = STR("build"),
        .lease_id = STR("l"),
        .environment_id = STR("e"),
        .project_id = STR("p"),
        .has_build = true,
        .build = {.deployment_id = STR("d"),
                  .project = STR("main"),
                  .source = {STR("ab"), 1},
                  .env = {pairs, 2}},
    };
    struct wire_grant got;

    CHECK(write_text(wire_grant_fields, &sent));
    CHECK(json_read(buf_str(&text), wire_grant_fields, &got, sizeof got, &arena, &err));
    CHECK(got.has_build && got.build.env.n == 2);
    for (size_t i = 0; i < 2; i++)
        CHECK(str_equal(got.build.env.pairs[i].name, pairs[i].name) &&
              str_equal(got.build.env.pairs[i].value, pairs[i].value));
}

TEST(a_mount_grant_survives_the_way_there_and_back)
{
    const struct str ports[] = {STR("3000"), STR("8080")};
    const struct wire_grant sent = {
        .kind = STR("mount"),
        .lease_id = STR("lease"),
        .environment_id = STR("env"),
        .project_id = STR("project"),
        .has_mount = true,
        .mount = {.mount_id = STR("mount"),
                  .workspace_id = STR("workspace"),
                  .project = STR("main"),
                  .generation = 4,
                  .idle_ms = 300000,
                  .deployment = {STR("deployment"), STR("20260101.1"), {STR("ab"), 10}},
                  .sandbox = {.id = STR("s"),
                              .image = STR("sha256:00"),
                              .mount_path = STR("/workspace"),
                              .ports = {(void *)(uintptr_t)ports, 2}},
                  .base_version_id = STR("version")},
    };
    struct wire_grant got;

    CHECK(write_text(wire_grant_fields, &sent));
    CHECK(json_read(buf_str(&text), wire_grant_fields, &got, sizeof got, &arena, &err));
    CHECK(got.has_mount && !got.has_run && got.mount.generation == 4);
    CHECK(got.mount.idle_ms == 300000 && got.mount.sandbox.ports.n == 2);
    CHECK(str_equal(((const struct str *)got.mount.sandbox.ports.items)[1], ports[1]));
    CHECK(str_equal(got.mount.base_version_id, sent.mount.base_version_id));
    CHECK(!got.mount.base_manifest.ptr);
}

TEST(a_message_to_a_mount_is_kept_without_its_cursor)
{
    const struct wire_message sent = {
        .cursor = 7,
        .lease_id = STR("l"),
        .type = STR("process_input"),
        .process_id = STR("p"),
        .offset = 5,
        .data = STR("aGk="),
    };
    struct wire_message got;

    CHECK(write_text(wire_message_body_fields, &sent));
    CHECK(json_read(buf_str(&text), wire_message_body_fields, &got, sizeof got, &arena, &err));
    CHECK(got.cursor == 0 && !got.type.ptr && got.offset == 5);
    CHECK(str_equal(got.process_id, sent.process_id) && str_equal(got.data, sent.data));
    CHECK(!json_read(STR("{\"cursor\":1}"), wire_message_body_fields, &got, sizeof got, &arena,
                     &err));
}

TEST(output_and_states_of_programs_come_in_one_message)
{
    const struct wire_process_chunk chunks[] = {
        {STR("p"), STR("stdout"), 3, 1000, {0}, 12}
    };
    const struct wire_process_state states[] = {
        {.process_id = STR("p"), .state = STR("exited"), .exit_code = 4}
    };
    const struct wire_process message = {
        .fence = {1, 1, STR("l")},
        .chunks = {(void *)(uintptr_t)chunks, 1},
        .processes = {(void *)(uintptr_t)states, 1},
    };

    CHECK(write_text(wire_process_fields, &message));
    CHECK(is_text("{\"fence\":{\"epoch\":1,\"lease_id\":\"l\",\"sequence\":1},\"chunks\":["
                  "{\"process_id\":\"p\",\"stream\":\"stdout\",\"offset\":3,"
                  "\"observed_ms\":1000,\"len\":12}],\"processes\":[{\"process_id\":\"p\","
                  "\"state\":\"exited\",\"pid\":0,\"exit_code\":4,\"input_offset\":0}]}"));
}

TEST(an_unknown_field_is_refused)
{
    struct wire_drained got;

    CHECK(json_read(STR("{\"epoch\":1}"), wire_drained_fields, &got, sizeof got, &arena, &err));
    CHECK(!json_read(STR("{\"epoch\":1,\"x\":2}"), wire_drained_fields, &got, sizeof got, &arena,
                     &err));
    CHECK(err.code == ERR_UNKNOWN_FIELD);
}

TEST(an_absent_failure_is_not_written)
{
    const struct wire_complete message = {
        .fence = {1, 1, STR("l")},
        .operation_id = STR("o"),
        .outcome = STR("succeeded"),
        .fingerprint = STR("f"),
        .output = STR("null")
    };
    struct str raw;

    CHECK(write_text(wire_complete_fields, &message));
    CHECK(!json_find_raw(buf_str(&text), "failure", &arena, &raw));
    CHECK(json_find_raw(buf_str(&text), "output", &arena, &raw) && str_equal(raw, STR("null")));
}

int main(void)
{
    int status = test_run_all();

    buf_finish(&text);
    arena_finish(&arena);
    return status;
}
