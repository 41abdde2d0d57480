/* Keys: worth what was granted and what the maker's role still allows, and ended at once. */
#include "base/json.h"
#include "base/time.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

#define NEW_KEY(scopes) \
    "{\"name\":\"k\",\"expires_in_days\":30,\"permissions\":[{\"scopes\":[" scopes "]}]}"

static const char set_role_sql[] = "UPDATE members SET role = $2 WHERE user_id = $1",
                  set_status_sql[] = "UPDATE members SET status = $2 WHERE user_id = $1",
                  remove_sql[] = "DELETE FROM members WHERE user_id = $1",
                  use_sql[] = "UPDATE api_keys SET last_used_ms = $1",
                  expire_sql[] = "UPDATE api_keys SET expires_ms = $1 WHERE name = 'old'";
static const struct query set_role = {"test_role", 2, 0, SAME_ON_BOTH(set_role_sql)},
                          set_status = {"test_status", 2, 0, SAME_ON_BOTH(set_status_sql)},
                          remove_member = {"test_remove", 1, 0, SAME_ON_BOTH(remove_sql)},
                          set_used = {"test_used", 1, 0, SAME_ON_BOTH(use_sql)},
                          set_expiry = {"test_expiry", 1, 0, SAME_ON_BOTH(expire_sql)};

/* As every change of a member is told. */
static bool change_member(struct service *service, const struct query *query, const char *id,
                          const char *value)
{
    const struct value params[] = {V_TEXT(id), V_TEXT(value ? value : "")};
    bool ok = service_change(service, query, params, value ? 2 : 1, 1);
    hub_wake(&service->server->hub, TOPIC_AUTH);
    return ok;
}

static int start(struct service *service, const char *key)
{
    return service_ask(service, key, "POST", "/api/runs", "{\"task_id\":\"hello\"}");
}

static int list(struct service *service, const char *key)
{
    return service_ask(service, key, "GET", "/api/runs", NULL);
}

SERVICE_TEST(a_key_follows_the_role_of_its_maker)
{
    struct person person;
    struct error err;
    CHECK(service_deploy(service, &err) && service_join(service, "admin", &person, &err));
    CHECK_STATUS(service,
                 service_ask(service, person.session, "POST", "/api/api-keys",
                             NEW_KEY("\"runs:create\",\"runs:read\",\"secrets:write\"")),
                 201);
    const char *key = service_text(service, "raw_key");
    CHECK_STR(service_text(service, "created_by"), person.id);
    CHECK_STATUS(service, start(service, key), 201);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/secrets", NULL), 200);

    CHECK(change_member(service, &set_role, person.id, "developer"));
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/secrets", NULL), 403);
    CHECK_STATUS(service, start(service, key), 201);
    CHECK(change_member(service, &set_role, person.id, "viewer"));
    CHECK_STATUS(service, start(service, key), 403);
    CHECK_STATUS(service, list(service, key), 200);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/me", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "permissions") == 1);

    CHECK(change_member(service, &set_status, person.id, "disabled"));
    CHECK_STATUS(service, list(service, key), 401);
    CHECK(change_member(service, &set_status, person.id, "active"));
    CHECK_STATUS(service, list(service, key), 200);
    CHECK(change_member(service, &remove_member, person.id, NULL));
    CHECK_STATUS(service, list(service, key), 401);
}

/* An admin of today could grant everything; the permissions of people cannot be granted by
 * anybody, and nobody grants what they lack. */
SERVICE_TEST(nobody_grants_what_they_do_not_have)
{
    static const char *const never[] = {
        "\"projects:manage\"",
        "\"api-keys:manage\"",
        "\"workers:manage\"",
        "\"members:manage\"",
        "\"audit:read\"",
        "\"all\"",
        "\"\"",
        "\"runs:read \"",
        "\"RUNS:READ\"",
    };
    CHECK(service_sign_in(service));
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        const char *body =
            arena_printf(&service->arena, "{\"name\":\"k\",\"permissions\":[{\"scopes\":[%s]}]}",
                         never[i]);
        CHECK_STATUS(service, service_ask(service, service->session, "POST", "/api/api-keys", body),
                     400);
        CHECK_STR(service_text(service, "code"), "unknown_permission");
    }
    const char *all = service_make_key(service, "\"runs:read\"");
    CHECK_STATUS(service,
                 service_ask(service, all, "POST", "/api/api-keys", NEW_KEY("\"runs:read\"")), 403);
}

SERVICE_TEST(the_last_use_is_written_once_a_minute)
{
    const char *key = service_make_key(service, "\"runs:read\"");
    const char *path = "/api/api-keys";
    CHECK_STATUS(service, list(service, key), 200);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", path, NULL), 200);
    const char *first = service_text(service, "api_keys.0.last_used_at");
    CHECK(*first);
    caller_cache_clear(&service->server->callers);
    CHECK_STATUS(service, list(service, key), 200);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", path, NULL), 200);
    CHECK_STR(service_text(service, "api_keys.0.last_used_at"), first);

    const struct value earlier[] = {V_INT(time_now_ms() - INT64_C(61000))};
    CHECK(service_change(service, &set_used, earlier, 1, 1));
    CHECK_STATUS(service, service_ask(service, service->session, "GET", path, NULL), 200);
    const char *old = service_text(service, "api_keys.0.last_used_at");
    caller_cache_clear(&service->server->callers);
    CHECK_STATUS(service, list(service, key), 200);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", path, NULL), 200);
    CHECK(strcmp(service_text(service, "api_keys.0.last_used_at"), old) > 0);
}

static size_t count(struct service *service, const char *filter)
{
    const char *path = arena_printf(&service->arena, "/api/api-keys%s", filter);
    return service_ask(service, service->session, "GET", path, NULL) == 200
               ? json_count(buf_str(&service->answer.body), "api_keys")
               : 99;
}

SERVICE_TEST(keys_are_listed_by_what_became_of_them)
{
    static const char old[] = "{\"name\":\"old\",\"permissions\":[{\"scopes\":[\"runs:read\"]}]}";
    CHECK(service_sign_in(service));
    CHECK_STATUS(service, service_ask(service, service->session, "POST", "/api/api-keys", old),
                 201);
    const char *expired = service_text(service, "raw_key");
    CHECK(*service_make_key(service, "\"runs:read\""));
    CHECK(*service_make_key(service, "\"runs:read\""));
    const char *path =
        arena_printf(&service->arena, "/api/api-keys/%s", service_text(service, "id"));
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", path, NULL), 204);
    CHECK_STATUS(service, service_ask(service, service->session, "DELETE", path, NULL), 204);
    CHECK_STATUS(service, list(service, expired), 200);
    const struct value now[] = {V_INT(time_now_ms())};
    CHECK(service_change(service, &set_expiry, now, 1, 1));
    caller_cache_clear(&service->server->callers);
    CHECK_STATUS(service, list(service, expired), 401);

    CHECK(count(service, "") == 1 && count(service, "?filter=active") == 1);
    CHECK(count(service, "?filter=revoked") == 1 && count(service, "?filter=all") == 3);
    CHECK(count(service, "?filter=expired") == 1);
    CHECK_STR(service_text(service, "api_keys.0.status"), "expired");
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET", "/api/api-keys?filter=x", NULL),
                 400);
}

/* What is kept of a key: its hash under a key of this server, and the characters people see. */
SERVICE_TEST(the_database_does_not_hold_the_key)
{
    static const char sql[] = "SELECT key_prefix, key_hash, scopes, name FROM api_keys";
    static const struct query keys = {"test_keys", 0, 4, SAME_ON_BOTH(sql)};
    const char *key = service_make_key(service, "\"runs:read\"");
    uint8_t hash[BLAKE2B_LEN];
    struct rows rows;
    struct error err;
    AUTO_TX tx = NULL;
    keys_hash_token(&service->server->keys, str_of(key), hash);
    CHECK(store_begin_read(service->server->store, &tx, &err));
    CHECK(store_run(tx, &keys, NULL, 0, &service->arena, &rows, &err) && rows.n_rows == 1);
    CHECK(row_str(&rows, 0, 0).len == 16 && strncmp(key, row_text(&rows, 0, 0), 16) == 0);
    CHECK(row_str(&rows, 0, 1).len == sizeof hash &&
          memcmp(row_str(&rows, 0, 1).ptr, hash, sizeof hash) == 0);
    for (size_t i = 0; i < rows.n_columns; i++)
        CHECK(!memmem(row_str(&rows, 0, i).ptr, row_str(&rows, 0, i).len, key + 16, 27));
}

TEST_MAIN()
