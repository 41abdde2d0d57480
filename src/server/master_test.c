/* Rotation of the master key: everything goes on, and a key that is not the right one changes
 * nothing. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "server/audit_verify.h"
#include "server/collect.h"
#include "server/master.h"
#include "server/reseal.h"
#include "server/server.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

#define VALUE "correct-horse-battery-staple"

static const char everything[] = "\"secrets:write\",\"tasks:deploy\",\"runs:create\",\"runs:read\"";

static const struct secret unset = {0};

static void *serve(void *arg)
{
    struct error err;
    if (!server_run(arg, &err))
        abort();
    return NULL;
}

static void halt(struct service *service)
{
    server_stop(service->server);
    pthread_join(service->thread, NULL);
    server_destroy(service->server);
    service->server = NULL;
}

/* On the port the system gives; the keys are read from the files again. */
static bool resume(struct service *service, struct error *err)
{
    if (!server_create(&service->config, &service->server, err) ||
        pthread_create(&service->thread, NULL, serve, service->server) != 0)
        return false;
    http_client_destroy(service->client);
    snprintf(service->url, sizeof service->url, "http://127.0.0.1:%d",
             server_port(service->server));
    return http_client_create(service->url, &service->client, err);
}

static bool restart(struct service *service, struct error *err)
{
    halt(service);
    return resume(service, err);
}

static bool drop_old(struct service *service)
{
    char path[128];
    snprintf(path, sizeof path, "%s/keys/master.old", service->data_dir);
    return unlink(path) == 0;
}

static int64_t old_count(struct service *service)
{
    struct error err;
    struct master_count *counts;
    size_t n;
    int64_t old = 0;
    AUTO_TX tx = NULL;
    if (!store_begin_read(service->server->store, &tx, &err) ||
        !master_counts(tx, &service->arena, &counts, &n, &err))
        return -1;
    for (size_t i = 0; i < n; i++)
        if (counts[i].context != KEY_AUDIT &&
            strcmp(counts[i].key_id, service->server->keys.ids[counts[i].context]) != 0)
            old += counts[i].n;
    return old;
}

SERVICE_TEST(everything_goes_on_after_a_rotation_and_without_the_old_key)
{
    struct error err = {0};
    char id[KEY_ID_TEXT];
    int64_t done, remaining;
    struct test_worker worker;
    CHECK(service_sign_in(service) && worker_join(&worker, service, "one"));
    const char *key = service_make_key(service, everything);
    const char *idle = service_make_key(service, "\"runs:read\"");
    CHECK_STATUS(service,
                 service_ask(service, key, "PUT", "/api/secrets/T", "{\"value\":\"" VALUE "\"}"),
                 201);
    CHECK(master_rotate(service->data_dir, id, &err) && restart(service, &err));
    CHECK(service->server->keys.n_former == 1);
    CHECK_STR(service->server->keys.ids[KEY_SECRET], id);
    CHECK(old_count(service) >= 5);

    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/secrets", NULL), 200);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/me", NULL), 200);
    CHECK_STATUS(service, service_ask(service, idle, "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service, worker_open(&worker), 200);
    CHECK(old_count(service) == 1);
    CHECK(master_reencrypt(service->server->store, &service->server->keys, 10, &done, &remaining,
                           &err));
    CHECK(done == 1 && remaining == 0 && old_count(service) == 0);

    CHECK(drop_old(service) && restart(service, &err) && service->server->keys.n_former == 0);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/secrets", NULL), 200);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/me", NULL), 200);
    CHECK(worker_open(&worker) == 200 && worker_activate_as(&worker, "user-kernel") == 200);
    CHECK(*service_upload(service, key) && worker_take(&worker, "build") &&
          lease_begin(&worker) == 200 && lease_start(&worker) == 200);
    CHECK_STATUS(service, lease_post(&worker, "secrets", ",\"names\":[\"T\"]"), 200);
    CHECK_STR(service_text(service, "secrets.0.value"), VALUE);
}

/* Sealed by a worker that has the store key, as packs are. */
static bool put_pack(struct test_worker *worker, char id[BLOB_ID], struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    AUTO(seal_writer_finish) struct seal_writer writer = {0};
    AUTO_FD int fd = memfd_create("pack", MFD_CLOEXEC);
    const struct seal_plan plan = {.keys = &ring.keys, .class = SEAL_PACK};
    struct seal_facts facts;

    if (!keys_ring(&worker->service->server->keys, &ring, err) ||
        !seal_writer_begin(&writer, &plan, seal_sink_fd(&fd), err) ||
        !seal_writer_record(&writer, STR("chunks"), SEAL_LAST, err))
        return false;
    seal_writer_facts(&writer, &facts);
    snprintf(id, BLOB_ID, "%s", facts.digest);
    return worker_put_sealed(worker, &facts, fd, err);
}

/* Without the collector, which would seal at the same time as the test. */
static bool restart_alone(struct service *service, struct error *err)
{
    if (!restart(service, err))
        return false;
    collector_stop(TAKE(service->server->collector));
    return true;
}

SERVICE_TEST(blobs_are_sealed_under_the_new_key_and_packs_are_counted_under_the_old_one)
{
    struct error err = {0};
    char key_id[KEY_ID_TEXT], pack[BLOB_ID];
    struct test_worker worker;
    CHECK(worker_join(&worker, service, "one"));
    const char *blob = worker_put(&worker, "a layer");
    CHECK(*blob);
    CHECK(master_rotate(service->data_dir, key_id, &err) && restart_alone(service, &err));
    CHECK(worker_open(&worker) == 200 && worker_activate_as(&worker, "user-kernel") == 200);
    CHECK(reseal_all(service->server, NULL) && old_count(service) == 0);
    CHECK(worker_ask_object(&worker, "GET", blob) == 200 && service_says(service, "a layer"));
    CHECK(drop_old(service) && restart_alone(service, &err));
    CHECK(worker_open(&worker) == 200 && worker_activate_as(&worker, "user-kernel") == 200);
    CHECK(worker_ask_object(&worker, "GET", blob) == 200 && service_says(service, "a layer"));

    CHECK(put_pack(&worker, pack, &err));
    CHECK(master_rotate(service->data_dir, key_id, &err) && restart_alone(service, &err));
    CHECK(reseal_all(service->server, NULL) && old_count(service) > 0);
    CHECK(worker_open(&worker) == 200 && drop_old(service) && restart_alone(service, &err));

    /* A blob that was left behind is a loss, which is not begun with. */
    static const struct query lose = {
        "test_lose", 0, 0,
        SAME_ON_BOTH("UPDATE objects SET key_id = '0011223344556677' WHERE class = 'blob'")};
    CHECK(service_change(service, &lose, NULL, 0, 1));
    AUTO_TX tx = NULL;
    CHECK(store_begin_read(service->server->store, &tx, &err));
    CHECK(!master_check(tx, &service->server->keys, &service->arena, &err));
    CHECK(strstr(err.text, "a blob of the store was made under another master key"));
}

SERVICE_TEST(secrets_are_wrapped_anew_only_when_a_server_knows_the_key)
{
    struct error err = {0};
    char id[KEY_ID_TEXT];
    int64_t done, remaining;
    AUTO(keys_finish) struct keys next = {0};
    const struct key_sources sources = {service->data_dir, &unset, &unset, &unset};
    CHECK(master_rotate(service->data_dir, id, &err) && keys_load_master(&sources, &next, &err));
    CHECK(!master_reencrypt(service->server->store, &next, 10, &done, &remaining, &err));
    CHECK(strstr(err.text, "restart it first"));
}

SERVICE_TEST(a_key_that_is_not_the_databases_is_refused_and_changes_nothing)
{
    struct error err = {0};
    char before[KEY_ID_TEXT];
    snprintf(before, sizeof before, "%s", service->server->keys.ids[KEY_AUDIT]);
    CHECK(service_sign_in(service));
    halt(service);
    service->config.master_key = secret_create(STR("a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="));
    struct server *other = NULL;
    bool is_up = server_create(&service->config, &other, &err);
    secret_finish(&service->config.master_key);
    CHECK(resume(service, &(struct error){0}));
    CHECK(!is_up && strstr(err.text, "another master key") && strstr(err.text, before));
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/me", NULL), 200);
    int64_t n;
    CHECK(audit_verify_store(service->server->store, &service->server->keys, NULL, &n, &err));
}

SERVICE_TEST(a_secret_whose_key_is_missing_stops_the_start)
{
    struct error err = {0};
    char id[KEY_ID_TEXT], before[KEY_ID_TEXT];
    AUTO_FREE char *old = NULL;
    const char *path = arena_printf(&service->arena, "%s/keys/master.old", service->data_dir);
    snprintf(before, sizeof before, "%s", service->server->keys.ids[KEY_SECRET]);
    CHECK(service_sign_in(service));
    const char *key = service_make_key(service, everything);
    CHECK_STATUS(service, service_ask(service, key, "PUT", "/api/secrets/T", "{\"value\":\"v\"}"),
                 201);
    CHECK(master_rotate(service->data_dir, id, &err) && restart(service, &err));
    CHECK(file_read(path, 4096, &old, &err) && drop_old(service));
    halt(service);
    struct server *other = NULL;
    bool is_up = server_create(&service->config, &other, &err);
    CHECK(file_publish(path, str_of(old), 0600, &(struct error){0}));
    CHECK(resume(service, &(struct error){0}));
    CHECK(!is_up && strstr(err.text, before));
}

SERVICE_TEST(the_audit_log_goes_on_over_rotations_and_tells_of_them)
{
    struct error err = {0};
    char id[KEY_ID_TEXT];
    int64_t n;
    CHECK(service_sign_in(service));
    for (int i = 0; i < 3; i++)
        CHECK(master_rotate(service->data_dir, id, &err) && restart(service, &err));
    CHECK(service->server->keys.n_former == 3);
    CHECK(audit_verify_store(service->server->store, &service->server->keys, NULL, &n, &err));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET",
                             "/api/audit?action=master_key.rotate", NULL),
                 200);
    CHECK_STR(service_text(service, "entries.2.action"), "master_key.rotate");
}

SERVICE_TEST(a_changed_setting_is_in_the_log_by_its_name)
{
    struct error err = {0};
    CHECK(service_sign_in(service));
    service->config.max_dispatches = 11;
    CHECK(restart(service, &err));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET", "/api/audit?action=config.change",
                             NULL),
                 200);
    CHECK_STR(service_text(service, "entries.0.subject"), "HELMR_RUN_MAX_DISPATCHES");
}

SERVICE_TEST(a_callback_survives_a_change_of_the_key_that_made_it)
{
    struct error err;
    char id[KEY_ID_TEXT];
    const char *key =
        service_make_key(service, "\"tokens:create\",\"tokens:read\",\"tokens:complete\"");
    static const char body[] = "{\"idempotency_key\":\"before\"}";
    CHECK_STATUS(service, service_ask(service, key, "POST", "/api/tokens", body), 201);
    const char *token = service_text(service, "id");
    const char *bearer = service_text(service, "public_access_token");
    const char *callback = strstr(service_text(service, "callback_url"), "/api/v1/");
    CHECK(callback && master_rotate(service->data_dir, id, &err) && restart(service, &err));

    /* The same secrets are given again, and both still open the token. */
    CHECK_STATUS(service, service_ask(service, key, "POST", "/api/tokens", body), 200);
    CHECK_STR(service_text(service, "public_access_token"), bearer);
    CHECK(strstr(service_text(service, "callback_url"), callback));
    const char *path = arena_printf(&service->arena, "/api/v1/tokens/%s", token);
    CHECK_STATUS(service, service_ask(service, bearer, "GET", path, NULL), 200);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", callback, "1"), 200);
    CHECK(drop_old(service) && restart(service, &err));
    CHECK_STATUS(service, service_ask(service, bearer, "GET", path, NULL), 401);
}

TEST_MAIN()
