/* What a sandbox holds right now: asked of its worker, compared, and kept beside what is current.
 */
#include "server/asker_testing.h"
#include "server/tree_testing.h"

#define FIRST  "0190a000-0000-7000-8000-0000000000a1"
#define SECOND "0190a000-0000-7000-8000-0000000000a2"
#define OTHER  "0190a000-0000-7000-8000-0000000000a3"

static const struct sample before[] = {
    {TREE_FILE, "notes", "one\n", 0644},
};

static const struct sample now[] = {
    {TREE_FILE, "made",  "new\n",      0644},
    {TREE_FILE, "notes", "one\ntwo\n", 0644},
};

/* The request that the worker was told of last. */
static const char *request(struct yard *yard)
{
    return hear(yard, "workspace_snapshot", 1)
               ? service_text(yard->service, "messages.0.request_id")
               : "";
}

static int answer(struct yard *yard, const char *id, const char *more)
{
    return lease_post(&yard->worker, "snapshot",
                      arena_printf(&yard->service->arena, ",\"request_ids\":[\"%s\"]%s", id, more));
}

static const char *version_of(struct yard *yard)
{
    return tree_version(&yard->worker, SECOND, now, COUNT_OF(now));
}

static const char *text_in(struct yard *yard, const struct asker *asker, const char *path)
{
    struct str text;

    return json_find_text(buf_str(&asker->answer.body), path, &yard->service->arena, &text)
               ? arena_text(&yard->service->arena, text)
               : "";
}

/* How many versions of the system there are. */
static int64_t count_kept(struct service *service)
{
    static const char sql[] = "SELECT count(*) FROM versions WHERE kind = 'system'";
    static const struct query query = {"test_kept", 0, 1, SAME_ON_BOTH(sql)};
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;

    if (!store_begin_read(service->server->store, &tx, &err) ||
        !store_run(tx, &query, NULL, 0, &service->arena, &rows, &err))
        return -1;
    return row_int(&rows, 0, 0);
}

/* A mount of a workspace that has a version. */
static bool set(struct service *service, struct yard *yard)
{
    if (!yard_set(service, yard) || !yard_mount(yard))
        return false;
    const char *version = tree_version(&yard->worker, FIRST, before, COUNT_OF(before));
    return version &&
           lease_post(&yard->worker, "mount/version",
                      arena_printf(&service->arena,
                                   ",\"operation_id\":\"" FIRST "\",\"fingerprint\":\"f\"%s",
                                   version)) == 200 &&
           yard_close(yard) == 200 && yard_mount(yard);
}

SERVICE_TEST(what_a_mount_holds_is_compared_with_where_it_began)
{
    AUTO(asker_finish) struct asker asker = {0};
    struct yard yard;
    CHECK(set(service, &yard));
    asker_begin(&asker, &yard, "GET", "/diff?to=live&patch=1", (struct str){0});
    const char *id = request(&yard), *version = version_of(&yard);
    CHECK_STATUS(service, answer(&yard, id, version), 200);
    CHECK(asker_end(&asker) == 200);
    CHECK_STR(text_in(&yard, &asker, "from_version_id"), FIRST);
    CHECK_STR(text_in(&yard, &asker, "to_version_id"), SECOND);
    CHECK_STR(text_in(&yard, &asker, "entries.0.path"), "made");
    CHECK_STR(text_in(&yard, &asker, "entries.1.change"), "modified");
    CHECK_STR(text_in(&yard, &asker, "entries.1.patch"),
              "--- a/notes\n+++ b/notes\n@@ -1,1 +1,2 @@\n one\n+two\n");

    /* It is a version like others, but not what the workspace is. */
    CHECK_STR(yard_text(&yard, "current_version_id"), FIRST);
    CHECK_STATUS(service, yard_get(&yard, "/diff?from=" FIRST "&to=" SECOND), 200);
    CHECK_STR(service_text(service, "entries.0.path"), "made");
    CHECK_STATUS(service, yard_get(&yard, "/versions/" SECOND), 200);
    CHECK_STR(service_text(service, "kind"), "system");
    CHECK_STR(service_text(service, "parent_id"), FIRST);

    /* Told again because the answer was lost: it is there once. */
    CHECK_STATUS(service, answer(&yard, id, version), 200);
    CHECK(count_kept(service) == 1);
}

SERVICE_TEST(all_who_ask_in_time_get_the_same)
{
    AUTO(asker_finish) struct asker one = {0};
    AUTO(asker_finish) struct asker other = {0};
    struct yard yard;
    CHECK(set(service, &yard));
    asker_begin(&one, &yard, "GET", "/diff?to=live", (struct str){0});
    const char *first = request(&yard);
    asker_begin(&other, &yard, "GET", "/diff?from=live&to=" FIRST, (struct str){0});
    const char *second = request(&yard), *version = version_of(&yard);
    CHECK_STATUS(service,
                 answer(&yard, arena_printf(&service->arena, "%s\",\"%s", first, second), version),
                 200);
    CHECK(asker_end(&one) == 200 && asker_end(&other) == 200);
    CHECK_STR(text_in(&yard, &one, "to_version_id"), SECOND);
    CHECK_STR(text_in(&yard, &other, "from_version_id"), SECOND);
    CHECK_STR(text_in(&yard, &other, "entries.0.change"), "deleted");
    CHECK(count_kept(service) == 1);
}

SERVICE_TEST(a_workspace_that_nobody_touched_is_what_its_image_holds)
{
    AUTO(asker_finish) struct asker asker = {0};
    struct yard yard;
    CHECK(yard_set(service, &yard) && yard_mount(&yard));
    asker_begin(&asker, &yard, "GET", "/diff?to=live", (struct str){0});
    CHECK_STATUS(service, answer(&yard, request(&yard), ""), 200);
    CHECK(asker_end(&asker) == 200);
    CHECK_STR(text_in(&yard, &asker, "to_version_id"), "");
    CHECK(json_count(buf_str(&asker.answer.body), "entries") == 0);
}

SERVICE_TEST(who_asks_is_told_why_there_is_none)
{
    static const struct {
        const char *code, *wire;
    } rows[] = {
        {"conflict",       "workspace_not_mounted"},
        {"quota_exceeded", "quota_exceeded"       },
    };
    struct yard yard;
    CHECK(set(service, &yard));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(asker_finish) struct asker asker = {0};

        asker_begin(&asker, &yard, "GET", "/diff?to=live", (struct str){0});
        const char *why =
            arena_printf(&service->arena, ",\"code\":\"%s\",\"text\":\"why\"", rows[i].code);
        CHECK_STATUS(service, answer(&yard, request(&yard), why), 200);
        CHECK(asker_end(&asker) == 409);
        CHECK_STR(text_in(&yard, &asker, "code"), rows[i].wire);
        CHECK(strstr(text_in(&yard, &asker, "error"), "cannot be read: why"));
    }
}

SERVICE_TEST(one_that_cannot_be_kept_leaves_its_askers_to_be_told)
{
    AUTO(asker_finish) struct asker asker = {0};
    struct yard yard;
    CHECK(set(service, &yard));
    asker_begin(&asker, &yard, "GET", "/diff?to=live", (struct str){0});
    const char *id = request(&yard), *gone = object_id(service, "never stored");
    const char *version = arena_printf(&service->arena,
                                       ",\"version\":{\"id\":\"" SECOND
                                       "\",\"manifest\":\"%s\",\"tree_digest\":\"%s\","
                                       "\"objects\":[{\"digest\":\"%s\",\"size\":1}],"
                                       "\"size_bytes\":1,\"entries\":1}",
                                       gone, gone, gone);
    CHECK_REFUSED(service, answer(&yard, id, version), 409, "object_gone");
    CHECK(count_kept(service) == 0);
    CHECK_STATUS(service, answer(&yard, id, ",\"code\":\"object_gone\",\"text\":\"it has gone\""),
                 200);
    CHECK(asker_end(&asker) == 409);
}

SERVICE_TEST(one_that_nobody_waits_for_or_of_a_lease_that_is_over_is_not_kept)
{
    struct yard yard;
    CHECK(set(service, &yard));
    const char *version = version_of(&yard);
    CHECK_STATUS(service, answer(&yard, OTHER, version), 200);
    CHECK(yard_close(&yard) == 200);
    CHECK_REFUSED(service, answer(&yard, OTHER, version), 409, "lease_stale");
    CHECK(count_kept(service) == 0);
}

SERVICE_TEST(what_is_in_no_sandbox_has_versions_only)
{
    struct yard yard;
    CHECK(yard_set(service, &yard));
    CHECK_REFUSED(service, yard_get(&yard, "/diff?to=live"), 409, "workspace_not_mounted");
    CHECK_REFUSED(service, yard_get(&yard, "/diff?from=live"), 409, "workspace_not_mounted");
}

SERVICE_TEST(what_a_run_holds_is_compared_while_it_runs)
{
    AUTO(asker_finish) struct asker of_run = {0};
    AUTO(asker_finish) struct asker of_workspace = {0};
    struct yard yard;
    CHECK(yard_set(service, &yard));
    const char *run = service_start_run(service, yard.key, "hello", NULL);
    const char *path = arena_printf(&service->arena, "/api/runs/%s/diff?to=live", run);
    CHECK_REFUSED(service, service_ask(service, yard.key, "GET", path, NULL), 409,
                  "workspace_not_mounted");
    CHECK(worker_take(&yard.worker, "run") && lease_begin(&yard.worker) == 200);
    CHECK(lease_start(&yard.worker) == 200);
    of_run = (struct asker){service->url, yard.key, "GET", path};
    asker_start(&of_run);
    const char *id = request(&yard), *version = version_of(&yard);
    CHECK_STATUS(service, answer(&yard, id, version), 200);
    CHECK(asker_end(&of_run) == 200);
    CHECK_STR(text_in(&yard, &of_run, "to_version_id"), SECOND);
    CHECK_STR(text_in(&yard, &of_run, "entries.1.change"), "added");

    /* The same by its workspace; and it is not what the run has made. */
    snprintf(yard.workspace, ID_TEXT, "%s", run_text(service, yard.key, run, "workspace_id"));
    CHECK_STR(service_text(service, "result_version_id"), "");
    asker_begin(&of_workspace, &yard, "GET", "/diff?to=live", (struct str){0});
    CHECK_STATUS(service, answer(&yard, request(&yard), ""), 200);
    CHECK(asker_end(&of_workspace) == 200);

    CHECK(lease_report(&yard.worker, "succeeded", "") == 200);
    CHECK_REFUSED(service, service_ask(service, yard.key, "GET", path, NULL), 409,
                  "workspace_not_mounted");
}

TEST_MAIN()
