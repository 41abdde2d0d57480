/* Files of a mounted workspace: asked of its worker, answered in time or not at all; and changes
 * that wait for a mount to end. */
#include "base/encode.h"
#include "base/own.h"
#include "protocol/files.h"
#include "server/asker_testing.h"

/* The worker's answer to the i-th message of the last poll, whose ids are kept beforehand. */
static int answer(struct yard *yard, const char *request, const char *more)
{
    return lease_post(&yard->worker, "file",
                      arena_printf(&yard->service->arena, ",\"request_id\":\"%s\"%s", request,
                                   more));
}

static const char *data_of(struct yard *yard, struct str bytes)
{
    char *text = arena_alloc(&yard->service->arena, 2 * bytes.len + 8);

    base64_encode(bytes, text);
    return arena_printf(&yard->service->arena, ",\"data\":\"%s\"", text);
}

static const char *entries(struct yard *yard)
{
    static const struct files_entry list[] = {
        {FILES_FILE,    0644, 6, 0, STR("a.txt"), {0}         },
        {FILES_SYMLINK, 0777, 5, 0, STR("link"),  STR("a.txt")},
    };
    AUTO(buf_finish) struct buf bytes = {.max = KIB(4)};
    struct error err;

    for (size_t i = 0; i < COUNT_OF(list); i++)
        if (!files_entry_append(&bytes, &list[i], &err))
            abort();
    return data_of(yard, buf_str(&bytes));
}

static const char *entry(struct yard *yard, uint64_t size)
{
    const struct files_entry one = {FILES_FILE, 0600, size, 0, STR("a.txt"), {0}};
    AUTO(buf_finish) struct buf bytes = {.max = KIB(4)};
    struct error err;

    if (!files_entry_append(&bytes, &one, &err))
        abort();
    return data_of(yard, buf_str(&bytes));
}

static bool set(struct service *service, struct yard *yard)
{
    if (!yard_set(service, yard))
        return false;
    yard->key =
        service_make_key(service, MOUNT_KEYS ",\"workspace-files:read\",\"workspace-files:write\"");
    return yard_mount(yard);
}

SERVICE_TEST(a_mounted_directory_is_listed_by_its_worker)
{
    AUTO(asker_finish) struct asker asker;
    struct yard yard;
    CHECK(set(service, &yard));
    asker_begin(&asker, &yard, "GET", "/files?path=/src/&source=live&limit=2", (struct str){0});
    CHECK(hear(&yard, "file_request", 1));
    CHECK_STR(service_text(service, "messages.0.op"), "list");
    CHECK_STR(service_text(service, "messages.0.path"), "src");
    CHECK(service_int(service, "messages.0.length") == 2);
    const char *request = service_text(service, "messages.0.request_id");
    CHECK_STATUS(service,
                 answer(&yard, request,
                        arena_printf(&service->arena, "%s,\"more\":true", entries(&yard))),
                 200);
    CHECK(asker_end(&asker) == 200);
    struct str body = buf_str(&asker.answer.body), text;
    CHECK(json_find_text(body, "entries.1.path", &service->arena, &text));
    CHECK(str_equal(text, STR("src/link")));
    CHECK(json_find_text(body, "entries.1.target", &service->arena, &text));
    CHECK(json_find_text(body, "next_cursor", &service->arena, &text));
    /* Whoever answers twice is not heard again. */
    CHECK_STATUS(service, answer(&yard, request, ""), 200);
}

SERVICE_TEST(bytes_of_a_mounted_file_come_in_parts)
{
    enum { LEN = FILES_DATA_MAX + 3 };
    AUTO(asker_finish) struct asker asker;
    AUTO_FREE char *bytes = alloc(LEN);
    struct yard yard;
    memset(bytes, 'x', LEN);
    memset(bytes + FILES_DATA_MAX, 'y', 3);
    CHECK(set(service, &yard));
    asker_begin(&asker, &yard, "GET", "/files/content?path=a.txt&source=live", (struct str){0});
    CHECK(hear(&yard, "file_request", 1));
    CHECK_STR(service_text(service, "messages.0.op"), "stat");
    CHECK_STATUS(service,
                 answer(&yard, service_text(service, "messages.0.request_id"), entry(&yard, LEN)),
                 200);
    CHECK(hear(&yard, "file_request", 2));
    CHECK_STR(service_text(service, "messages.1.op"), "read");
    CHECK(service_int(service, "messages.1.offset") == FILES_DATA_MAX);
    const char *first = service_text(service, "messages.0.request_id");
    const char *second = service_text(service, "messages.1.request_id");
    CHECK_STATUS(service,
                 answer(&yard, second, data_of(&yard, (struct str){bytes + FILES_DATA_MAX, 3})),
                 200);
    CHECK_STATUS(service, answer(&yard, first, data_of(&yard, (struct str){bytes, FILES_DATA_MAX})),
                 200);
    CHECK(asker_end(&asker) == 200);
    CHECK(str_equal(buf_str(&asker.answer.body), (struct str){bytes, LEN}));
}

SERVICE_TEST(what_the_agent_refuses_is_an_error_of_files)
{
    static const struct {
        const char *code, *wire;
        int status;
    } rows[] = {
        {"not_found",     "workspace_file_not_found",     404},
        {"not_directory", "workspace_file_not_directory", 409},
        {"not_regular",   "workspace_file_not_regular",   409},
        {"files_failed",  "workspace_not_mounted",        409},
    };
    struct yard yard;
    struct str code;
    CHECK(set(service, &yard));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(asker_finish) struct asker asker;

        asker_begin(&asker, &yard, "GET", "/files/stat?path=x&source=live", (struct str){0});
        CHECK(hear(&yard, "file_request", 1));
        CHECK_STATUS(service,
                     answer(&yard, service_text(service, "messages.0.request_id"),
                            arena_printf(&service->arena, ",\"code\":\"%s\",\"text\":\"why\"",
                                         rows[i].code)),
                     200);
        CHECK(asker_end(&asker) == rows[i].status);
        CHECK(json_find_text(buf_str(&asker.answer.body), "code", &service->arena, &code));
        CHECK(str_equal(code, str_of(rows[i].wire)));
    }
}

SERVICE_TEST(a_sandbox_that_does_not_answer_is_not_waited_for)
{
    struct yard yard;
    CHECK(set(service, &yard));
    CHECK_STATUS(service, yard_get(&yard, "/files?source=live"), 409);
    CHECK_STR(service_text(service, "code"), "workspace_not_mounted");
    CHECK_STATUS(service, yard_get(&yard, "/files?source=live&recursive=1"), 400);
}

SERVICE_TEST(a_change_waits_for_an_idle_mount_to_end)
{
    AUTO(asker_finish) struct asker asker;
    struct yard yard;
    CHECK(set(service, &yard));
    asker_begin(&asker, &yard, "PUT", "/files/content?path=new.txt", STR("hello"));
    CHECK(hear(&yard, "mount_stop", 1));
    CHECK_STATUS(service, lease_post(&yard.worker, "mount/closed", ",\"reason\":\"stopped\""), 200);
    CHECK(asker_end(&asker) == 200);
    CHECK_STATUS(service, yard_get(&yard, "/files/content?path=new.txt"), 200);
    CHECK(str_equal(buf_str(&service->answer.body), STR("hello")));
}

SERVICE_TEST(a_change_is_refused_while_a_program_runs)
{
    struct yard yard;
    CHECK(set(service, &yard));
    CHECK(yard_make(&yard, "/execs", "{\"command\":[\"sleep\",\"9\"]}") == 201);
    CHECK_STATUS(service,
                 service_ask(service, yard.key, "PUT", yard_path(&yard, "/files/content?path=x"),
                             "x"),
                 409);
    CHECK_STR(service_text(service, "code"), "workspace_writer_active");
}

TEST_MAIN()
