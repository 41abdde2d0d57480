#include <archive.h>
#include <archive_entry.h>
#include <openssl/evp.h>

#include "base/encode.h"
#include "base/json.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

enum { TAR_MAX = 256 * 1024, BODY_MAX = 1024 * 1024 };

/* A tar of one entry; type 0 is a regular file. */
static struct str make_tar(struct service *service, const char *name, unsigned type)
{
    char *bytes = arena_alloc(&service->arena, TAR_MAX);
    size_t used = 0;
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax_restricted(archive);
    archive_write_open_memory(archive, bytes, TAR_MAX, &used);
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, type ? type : AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, type ? 0 : 5);
    archive_write_header(archive, entry);
    if (!type)
        archive_write_data(archive, "hello", 5);
    archive_entry_free(entry);
    archive_write_close(archive);
    archive_write_free(archive);
    return (struct str){bytes, used};
}

static const char *hash_of(struct service *service, struct str bytes)
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    char hex[2 * EVP_MAX_MD_SIZE + 1];
    if (EVP_Digest(bytes.ptr, bytes.len, sum, &len, EVP_sha256(), NULL) != 1)
        abort();
    hex_encode((struct str){(const char *)sum, len}, hex);
    return arena_printf(&service->arena, "sha256:%s", hex);
}

static int upload(struct service *service, const char *token, const char *metadata,
                  struct str source)
{
    struct error err;
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    bool ok = buf_append(&body,
                         STR("--edge\r\nContent-Disposition: form-data; name=\"metadata\"\r\n"
                             "Content-Type: application/json\r\n\r\n"),
                         &err) &&
              buf_append(&body, str_of(metadata), &err) &&
              buf_append(&body,
                         STR("\r\n--edge\r\nContent-Disposition: form-data; "
                             "name=\"deployment_source\"; filename=\"source.tar\"\r\n\r\n"),
                         &err) &&
              buf_append(&body, source, &err) && buf_append(&body, STR("\r\n--edge--\r\n"), &err);
    const struct http_request request = {.method = "POST",
                                         .path = "/api/deployments",
                                         .content_type = "multipart/form-data; boundary=edge",
                                         .body = buf_str(&body)};
    return ok ? service_send(service, token, &request) : -1;
}

static const char *metadata_for(struct service *service, struct str source, const char *more)
{
    return arena_printf(&service->arena, "{\"content_hash\":\"%s\"%s}", hash_of(service, source),
                        more);
}

#define DEPLOYER "\"tasks:deploy\",\"runs:read\""

SERVICE_TEST(an_upload_becomes_a_queued_deployment_with_a_version)
{
    const char *key = service_make_key(service, DEPLOYER);
    struct str source = make_tar(service, "tasks/hello.ts", 0);
    const char *metadata = metadata_for(service, source, ",\"env\":{\"A\":\"b\"}");
    CHECK_STATUS(service, upload(service, key, metadata, source), 201);
    const char *id = service_text(service, "id"), *version = service_text(service, "version");
    CHECK_STR(service_text(service, "status"), "queued");
    CHECK_STR(service_text(service, "content_hash"), hash_of(service, source));
    CHECK(service_int(service, "deployment_source.size_bytes") == (int64_t)source.len);
    CHECK(strlen(version) == 10 && strcmp(version + 8, ".1") == 0);
    CHECK(blob_has(service->server->blobs, hash_of(service, source) + 7));

    const char *path = arena_printf(&service->arena, "/api/deployments/%s", version);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "id"), id);
    path = arena_printf(&service->arena, "/api/deployments/%s/events", id);
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "events.0.kind"), "deployment.queued");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/deployments/current", NULL), 200);
    CHECK(strstr(service->answer.body.bytes, "\"deployment\":null"));

    /* The same source is not built twice; another one gets the next number. */
    CHECK_STATUS(service, upload(service, key, metadata, source), 200);
    CHECK_STR(service_text(service, "id"), id);
    source = make_tar(service, "tasks/other.ts", 0);
    CHECK_STATUS(service, upload(service, key, metadata_for(service, source, ""), source), 201);
    CHECK_STR(service_text(service, "version") + 8, ".2");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/deployments", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "deployments") == 2);
    CHECK_STR(service_text(service, "deployments.1.id"), id);
}

SERVICE_TEST(the_variables_of_an_upload_reach_the_worker_that_builds_it)
{
    const char *key = service_make_key(service, DEPLOYER);
    struct str source = make_tar(service, "tasks/hello.ts", 0);
    const char *metadata = metadata_for(service, source, ",\"env\":{\"A\":\"b\"}");
    struct test_worker worker = {0};
    CHECK_STATUS(service, upload(service, key, metadata, source), 201);
    const char *version = service_text(service, "version");
    CHECK(worker_join(&worker, service, "one") && worker_take(&worker, "build"));
    CHECK_STR(service_text(service, "grants.0.build.env.A"), "b");
    CHECK_STR(service_text(service, "grants.0.build.version"), version);
}

SERVICE_TEST(a_bad_upload_is_refused_and_leaves_nothing)
{
    const char *key = service_make_key(service, DEPLOYER);
    struct str good = make_tar(service, "a.ts", 0);
    const struct {
        struct str source;
        const char *metadata, *code;
    } cases[] = {
        {good, metadata_for(service, STR("other"), ""), "content_hash_mismatch"},
        {good, "{\"content_hash\":\"sha256:12\"}", "invalid_request"},
        {good, "{\"content_hash\":", "invalid_json"},
        {good, metadata_for(service, good, ",\"more\":1"), "unknown_field"},
        {good, metadata_for(service, good, ",\"env\":{\"LD_PRELOAD\":\"x\"}"), "invalid_request"},
        {good, metadata_for(service, good, ",\"bundle_format_version\":3"), "invalid_request"},
        {STR("not a tar"), metadata_for(service, STR("not a tar"), ""), "archive_invalid"},
        {make_tar(service, "../up.ts", 0),
         metadata_for(service, make_tar(service, "../up.ts", 0), ""), "archive_invalid"},
        {make_tar(service, "/etc/passwd", 0),
         metadata_for(service, make_tar(service, "/etc/passwd", 0), ""), "archive_invalid"},
        {make_tar(service, "fifo", AE_IFIFO),
         metadata_for(service, make_tar(service, "fifo", AE_IFIFO), ""), "archive_invalid"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STATUS(service, upload(service, key, cases[i].metadata, cases[i].source), 400);
        CHECK_STR(service_text(service, "code"), cases[i].code);
    }
    struct http_request plain = {.method = "POST", .path = "/api/deployments", .body = STR("{}")};
    CHECK_STATUS(service, service_send(service, key, &plain), 400);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/deployments", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "deployments") == 0);
    CHECK(!blob_has(service->server->blobs, hash_of(service, good) + 7));
}

SERVICE_TEST(only_a_deployed_deployment_is_promoted_and_only_a_pending_one_cancelled)
{
    struct error err;
    const char *key = service_make_key(service, DEPLOYER);
    CHECK(service_deploy(service, &err));
    struct str source = make_tar(service, "a.ts", 0);
    CHECK_STATUS(service, upload(service, key, metadata_for(service, source, ""), source), 201);
    const char *id = service_text(service, "id");
    const char *promote = arena_printf(&service->arena, "/api/deployments/%s/promote", id);
    const char *cancel = arena_printf(&service->arena, "/api/deployments/%s/cancel", id);
    CHECK_STATUS(service, service_ask(service, key, "POST", promote, ""), 409);
    CHECK_STR(service_text(service, "code"), "deployment_not_deployed");
    CHECK_STATUS(service, service_ask(service, key, "POST", cancel, "{\"reason\":\"oops\"}"), 200);
    CHECK_STR(service_text(service, "status"), "failed");
    CHECK_STR(service_text(service, "error.failure_kind"), "build_cancelled");
    CHECK_STATUS(service, service_ask(service, key, "POST", cancel, ""), 409);
    CHECK_STR(service_text(service, "code"), "deployment_terminal");

    promote = arena_printf(&service->arena, "/api/deployments/%s/promote", service->deployment_id);
    CHECK_STATUS(service, service_ask(service, key, "POST", promote, ""), 200);
    CHECK(strstr(service->answer.body.bytes, "\"is_current\":true"));
    CHECK_STR(service_text(service, "promoted_at"), "");
    const char *unknown = "/api/deployments/0190a000-0000-7000-8000-000000000000/promote";
    CHECK_STATUS(service, service_ask(service, key, "POST", unknown, ""), 404);
}

SERVICE_TEST(promotion_moves_the_current_pointer_and_says_from_where)
{
    struct error err;
    const char *key = service_make_key(service, DEPLOYER);
    CHECK(service_deploy(service, &err));
    struct str source = make_tar(service, "a.ts", 0);
    CHECK_STATUS(service, upload(service, key, metadata_for(service, source, ""), source), 201);
    const char *id = service_text(service, "id");
    {
        AUTO_TX tx = NULL;
        CHECK(store_begin(service->server->store, &tx, &err));
        CHECK(STORE(tx, &deployment_deploy, NULL, NULL, &err, V_TEXT(id), V_TEXT("queued"),
                    V_INT(1), V_TEXT("{}"), V_NULL, V_NULL, V_NULL, V_TEXT("[]"), V_NULL));
        CHECK(store_commit(&tx, &err));
    }
    const char *promote = arena_printf(&service->arena, "/api/deployments/%s/promote", id);
    CHECK_STATUS(service, service_ask(service, key, "POST", promote, "{\"reason\":\"new\"}"), 200);
    CHECK_STR(service_text(service, "promotion_reason"), "new");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/deployments/current", NULL), 200);
    CHECK_STR(service_text(service, "deployment.id"), id);
    const char *events = arena_printf(&service->arena, "/api/deployments/%s/events", id);
    CHECK_STATUS(service, service_ask(service, key, "GET", events, NULL), 200);
    CHECK_STR(service_text(service, "events.1.kind"), "deployment.promoted");
    CHECK_STR(service_text(service, "events.1.attributes.previous_deployment_id"),
              service->deployment_id);
}

SERVICE_TEST(tasks_and_sandboxes_are_those_of_the_current_deployment)
{
    struct error err;
    const char *key = service_make_key(service, DEPLOYER);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/tasks", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "tasks") == 0);
    CHECK(service_deploy(service, &err));
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/tasks", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "tasks") == 3);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/tasks?limit=2", NULL), 200);
    const char *path = arena_printf(&service->arena, "/api/tasks?limit=2&cursor=%s",
                                    service_text(service, "next_cursor"));
    CHECK_STATUS(service, service_ask(service, key, "GET", path, NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "tasks") == 1);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/tasks/hello", NULL), 200);
    CHECK_STR(service_text(service, "queue"), "task/hello");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/tasks/unheard", NULL), 404);
    CHECK_STR(service_text(service, "code"), "task_not_found");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/sandboxes/box", NULL), 200);
    CHECK(service_int(service, "resources.cpu") == 1);
    CHECK_STR(service_text(service, "mount_path"), "/workspace");
}

TEST_MAIN()
