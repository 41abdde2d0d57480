/* The audit log: what is in it, and that nothing about it can be changed unseen. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "server/audit.h"
#include "server/audit_checkpoint.h"
#include "server/audit_verify.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

static const char everything[] = "\"secrets:write\",\"tasks:deploy\",\"runs:create\",\"runs:read\"";

static bool verify(struct service *service, int64_t *n, struct error *err)
{
    char path[128];
    audit_checkpoint_path(service->data_dir, path, sizeof path);
    return audit_verify_store(service->server->store, &service->server->keys, path, n, err);
}

static bool is_fine(struct service *service)
{
    struct error err = {0};
    int64_t n = 0;
    bool ok = verify(service, &n, &err);
    if (!ok)
        printf("# %s\n", err.text);
    return ok && n > 0;
}

/* Whether the verifier says exactly this. */
static bool is_told(struct service *service, const char *text)
{
    struct error err = {0};
    int64_t n;
    if (verify(service, &n, &err)) {
        printf("# nothing was found; want: %s\n", text);
        return false;
    }
    if (strncmp(err.text, text, strlen(text)) != 0)
        printf("# %s; want: %s\n", err.text, text);
    return strncmp(err.text, text, strlen(text)) == 0;
}

/* Some acts: each secret that is set is an entry. */
static bool act(struct service *service, size_t n)
{
    const char *key = service_make_key(service, everything);
    for (size_t i = 0; i < n; i++) {
        const char *path = arena_printf(&service->arena, "/api/secrets/S%zu", i);
        if (service_ask(service, key, "PUT", path, "{\"value\":\"v\"}") != 201)
            return false;
    }
    return true;
}

static int list(struct service *service, const char *query)
{
    return service_ask(service, service->session, "GET",
                       arena_printf(&service->arena, "/api/audit%s", query), NULL);
}

SERVICE_TEST(acts_are_in_the_log_with_actor_scope_request_and_outcome)
{
    CHECK(service_sign_in(service));
    const char *key = service_make_key(service, everything);
    CHECK_STATUS(service, service_ask(service, key, "PUT", "/api/secrets/T", "{\"value\":\"v\"}"),
                 201);
    CHECK_STATUS(service, list(service, "?action=secret.set"), 200);
    CHECK_STR(service_text(service, "entries.0.action"), "secret.set");
    CHECK_STR(service_text(service, "entries.0.subject"), "T");
    CHECK_STR(service_text(service, "entries.0.actor.type"), "key");
    CHECK_STR(service_text(service, "entries.0.outcome"), "ok");
    CHECK_STR(service_text(service, "entries.0.environment_id"), service->environment_id);
    CHECK(strlen(service_text(service, "entries.0.request_id")) == ID_LEN);
    CHECK(strlen(service_text(service, "entries.0.mac")) == (size_t)2 * BLAKE2B_LEN);
    CHECK_STR(service_text(service, "entries.0.key_id"), service->server->keys.ids[KEY_AUDIT]);
    CHECK_STATUS(service, list(service, "?action=login"), 200);
    CHECK_STR(service_text(service, "entries.0.actor.type"), "user");
    CHECK_STR(service_text(service, "entries.0.actor.id"), service->server->owner_id);
    CHECK_STATUS(service, list(service, "?action=server.start"), 200);
    CHECK_STR(service_text(service, "entries.0.actor.type"), "system");
    CHECK(is_fine(service));
}

SERVICE_TEST(an_act_that_fails_leaves_no_entry)
{
    CHECK(service_sign_in(service));
    const char *key = service_make_key(service, everything);
    CHECK_STATUS(service, service_ask(service, key, "DELETE", "/api/secrets/NONE", NULL), 404);
    CHECK_STATUS(service, list(service, "?action=secret.delete"), 200);
    CHECK_STR(service_text(service, "entries.0.action"), "");
}

SERVICE_TEST(a_refused_caller_is_in_the_log_once_a_minute)
{
    CHECK(service_sign_in(service));
    const char *reader = service_make_key(service, "\"runs:read\"");
    for (int i = 0; i < 5; i++)
        CHECK_STATUS(service, service_ask(service, reader, "GET", "/api/secrets", NULL), 403);
    CHECK_STATUS(service, list(service, "?action=request.denied"), 200);
    CHECK_STR(service_text(service, "entries.0.outcome"), "denied");
    CHECK_STR(service_text(service, "entries.0.subject"), "/api/secrets");
    CHECK_STR(service_text(service, "entries.1.outcome"), "");
}

SERVICE_TEST(what_a_handler_refuses_the_caller_is_in_the_log)
{
    static const char body[] = "{\"email\":\"new@example.com\",\"role\":\"owner\"}";
    struct person admin;
    struct error err;
    CHECK(service_sign_in(service) && service_join(service, "admin", &admin, &err));
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(service, service_ask(service, admin.session, "POST", "/api/invitations", body),
                     403);
    CHECK_STATUS(service, list(service, "?action=request.denied"), 200);
    CHECK_STR(service_text(service, "entries.0.outcome"), "denied");
    CHECK_STR(service_text(service, "entries.0.subject"), "/api/invitations");
    CHECK_STR(service_text(service, "entries.0.actor.type"), "user");
    CHECK_STR(service_text(service, "entries.1.outcome"), "");
}

SERVICE_TEST(the_list_is_filtered_by_actor_and_action)
{
    CHECK(service_sign_in(service));
    const char *key = service_make_key(service, everything);
    CHECK_STATUS(service, service_ask(service, key, "PUT", "/api/secrets/A", "{\"value\":\"1\"}"),
                 201);
    CHECK_STATUS(service, service_ask(service, key, "DELETE", "/api/secrets/A", NULL), 204);
    CHECK_STATUS(service, list(service, "?action=secret.set"), 200);
    CHECK_STR(service_text(service, "entries.0.subject"), "A");
    CHECK_STR(service_text(service, "entries.1.action"), "");
    const char *actor =
        arena_printf(&service->arena, "?actor=%s", service_text(service, "entries.0.actor.id"));
    CHECK_STATUS(service, list(service, actor), 200);
    CHECK_STR(service_text(service, "entries.0.action"), "secret.delete");
    CHECK_STR(service_text(service, "entries.1.action"), "secret.set");
    CHECK_STR(service_text(service, "entries.2.action"), "");
    actor = arena_printf(&service->arena, "%s&action=secret.set", actor);
    CHECK_STATUS(service, list(service, actor), 200);
    CHECK_STR(service_text(service, "entries.0.action"), "secret.set");
    CHECK_STR(service_text(service, "entries.1.action"), "");
    CHECK_STATUS(service, list(service, "?actor=nobody&action=secret.set"), 200);
    CHECK_STR(service_text(service, "entries.0.action"), "");
}

SERVICE_TEST(a_wrong_password_is_in_the_log_without_it)
{
    static const char body[] = "{\"email\":\"who@example.com\",\"password\":\"wrong-and-long\"}";
    CHECK(service_sign_in(service));
    for (int i = 0; i < 3; i++)
        CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/login", body), 401);
    CHECK_STATUS(service, list(service, "?action=login"), 200);
    CHECK_STR(service_text(service, "entries.0.outcome"), "failed");
    CHECK_STR(service_text(service, "entries.0.subject"), "who@example.com");
    CHECK_STR(service_text(service, "entries.0.actor.type"), "anonymous");
    CHECK_STR(service_text(service, "entries.1.outcome"), "ok");
    CHECK(!service_says(service, "wrong-and-long"));
}

SERVICE_TEST(the_log_is_read_in_pages_and_by_who_may)
{
    CHECK(service_sign_in(service) && act(service, 5));
    CHECK_STATUS(service, list(service, "?action=secret.set&limit=2"), 200);
    CHECK_STR(service_text(service, "entries.0.subject"), "S4");
    const char *next = arena_printf(&service->arena, "?action=secret.set&limit=2&cursor=%s",
                                    service_text(service, "next_cursor"));
    CHECK_STATUS(service, list(service, next), 200);
    CHECK_STR(service_text(service, "entries.0.subject"), "S2");
    const char *other = arena_printf(&service->arena, "?action=login&cursor=%s",
                                     service_text(service, "next_cursor"));
    CHECK_STATUS(service, list(service, other), 400);
    CHECK_STATUS(service, list(service, "?from=2000-01-01T00:00:00Z&to=2000-01-02T00:00:00Z"), 200);
    CHECK_STR(service_text(service, "entries.0.action"), "");
    CHECK_STATUS(service, list(service, "?from=yesterday"), 400);
    const char *key = service_make_key(service, everything);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/audit", NULL), 403);
    CHECK_STATUS(service, service_ask(service, NULL, "GET", "/api/audit/export", NULL), 401);
}

#define ON_ENTRY(name, set) \
    {name, 0, 0, SAME_ON_BOTH("UPDATE audit_entries SET " set " WHERE sequence = 3")}
#define TEXT_CHANGE(column)                                     \
    {ON_ENTRY("change_" column, column " = " column " || 'x'"), \
     ON_ENTRY("undo_" column, column " = substr(" column ", 1, length(" column ") - 1)")}

SERVICE_TEST(a_change_of_any_column_is_found)
{
    static const struct {
        struct query change, undo;
    } rows[] = {
        TEXT_CHANGE("actor_type"),
        TEXT_CHANGE("actor_id"),
        TEXT_CHANGE("actor_name"),
        TEXT_CHANGE("action"),
        TEXT_CHANGE("project_id"),
        TEXT_CHANGE("environment_id"),
        TEXT_CHANGE("subject"),
        TEXT_CHANGE("request_id"),
        TEXT_CHANGE("outcome"),
        {ON_ENTRY("later", "at_ms = at_ms + 1"), ON_ENTRY("earlier", "at_ms = at_ms - 1")},
    };
    CHECK(service_sign_in(service) && act(service, 3) && is_fine(service));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(service_change(service, &rows[i].change, NULL, 0, 1));
        CHECK(is_told(service, "entry 3 was changed"));
        CHECK(service_change(service, &rows[i].undo, NULL, 0, 1));
        CHECK(is_fine(service));
    }
    static const struct query other_key = ON_ENTRY("other_key", "key_id = 'ffffffffffffffff'");
    CHECK(service_change(service, &other_key, NULL, 0, 1));
    CHECK(is_told(service, "entry 3 is under key id ffffffffffffffff, which is not configured"));
}

SERVICE_TEST(a_mac_of_another_entry_does_not_fit)
{
    static const struct query swap =
        ON_ENTRY("swap", "mac = (SELECT o.mac FROM audit_entries o WHERE o.sequence = 2)");
    CHECK(service_sign_in(service) && act(service, 2));
    CHECK(service_change(service, &swap, NULL, 0, 1));
    CHECK(is_told(service, "entry 3 was changed"));
}

static int ask_verified(struct service *service)
{
    return service_ask(service, service->session, "POST", "/api/audit/verify", "{}");
}

SERVICE_TEST(the_log_is_verified_by_who_may_read_it_and_that_is_in_the_log)
{
    static const struct query change = ON_ENTRY("change", "subject = 'other'");
    CHECK(service_sign_in(service) && act(service, 3));
    const char *key = service_make_key(service, everything);
    CHECK_STATUS(service, service_ask(service, key, "POST", "/api/audit/verify", "{}"), 403);
    CHECK_STATUS(service, ask_verified(service), 200);
    CHECK(service_says(service, "\"verified\":true"));
    CHECK_STATUS(service, list(service, "?action=audit.verify"), 200);
    CHECK_STR(service_text(service, "entries.0.outcome"), "ok");
    CHECK(service_change(service, &change, NULL, 0, 1));
    CHECK_STATUS(service, ask_verified(service), 200);
    CHECK(service_says(service, "\"verified\":false"));
    CHECK_STR(service_text(service, "problem"), "entry 3 was changed");
    CHECK_STATUS(service, list(service, "?action=audit.verify"), 200);
    CHECK_STR(service_text(service, "entries.0.outcome"), "failed");
}

#define DELETE_ENTRY(id, where)                \
    static const struct query id = {#id, 0, 0, \
                                    SAME_ON_BOTH("DELETE FROM audit_entries WHERE " where)}

SERVICE_TEST(a_removed_first_or_middle_entry_is_named)
{
    DELETE_ENTRY(middle, "sequence = 3");
    DELETE_ENTRY(first, "sequence = 1");
    CHECK(service_sign_in(service) && act(service, 3));
    CHECK(service_change(service, &middle, NULL, 0, 1));
    CHECK(is_told(service, "entry 3 was removed"));
    CHECK(service_change(service, &first, NULL, 0, 1));
    CHECK(is_told(service, "entry 1 was removed"));
}

SERVICE_TEST(entries_that_change_places_are_found)
{
    static const struct query away = {
        "away", 0, 0, SAME_ON_BOTH("UPDATE audit_entries SET sequence = -3 WHERE sequence = 3")};
    static const struct query down = {
        "down", 0, 0, SAME_ON_BOTH("UPDATE audit_entries SET sequence = 3 WHERE sequence = 4")};
    static const struct query back = {
        "back", 0, 0, SAME_ON_BOTH("UPDATE audit_entries SET sequence = 4 WHERE sequence = -3")};
    CHECK(service_sign_in(service) && act(service, 3));
    CHECK(service_change(service, &away, NULL, 0, 1));
    CHECK(is_told(service, "entry 1 was removed: entry -3 stands in its place"));
    CHECK(service_change(service, &down, NULL, 0, 1));
    CHECK(service_change(service, &back, NULL, 0, 1));
    CHECK(is_told(service, "entry 3 was changed"));
}

SERVICE_TEST(a_log_that_was_cut_off_is_found)
{
    DELETE_ENTRY(tail, "sequence > 3");
    static const struct query rewind = {
        "rewind", 0, 0,
        SAME_ON_BOTH("UPDATE audit_head SET sequence = 3, mac = (SELECT mac FROM audit_entries "
                     "WHERE sequence = 3)")};
    static const struct query behead = {"behead", 0, 0, SAME_ON_BOTH("DELETE FROM audit_head")};
    CHECK(service_sign_in(service) && act(service, 3));
    /* The key and its secrets have made entries 3 to 6 or so: the head knows of more than 3. */
    struct error err;
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_TX tx = NULL;
    CHECK(store_begin(service->server->store, &tx, &err) &&
          store_run(tx, &tail, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err));
    CHECK(is_told(service, "entry 4 was cut off"));
    CHECK(service_change(service, &rewind, NULL, 0, 1));
    CHECK(is_told(service, "entry 4 was cut off"));
    CHECK(service_change(service, &behead, NULL, 0, 1));
    CHECK(is_told(service, "the end of the log was removed"));
}

/* Whoever has kept the former end of the log can put it back; the file knows better. */
SERVICE_TEST(a_log_that_was_rewound_with_its_end_is_found_by_the_checkpoint)
{
    static const struct query keep = {"keep", 0, 0,
                                      SAME_ON_BOTH(
                                          "CREATE TABLE kept_head AS SELECT * FROM audit_head")};
    static const struct query clear = {"clear", 0, 0, SAME_ON_BOTH("DELETE FROM audit_head")};
    static const struct query restore = {"restore", 0, 0,
                                         SAME_ON_BOTH(
                                             "INSERT INTO audit_head SELECT * FROM kept_head")};
    static const struct query cut = {
        "cut", 0, 0,
        SAME_ON_BOTH("DELETE FROM audit_entries WHERE sequence > (SELECT sequence FROM "
                     "kept_head)")};
    static const struct query done = {"done", 0, 0, SAME_ON_BOTH("DROP TABLE kept_head")};
    const struct query *const steps[] = {&clear, &restore, &cut, &done};
    struct error err;
    CHECK(service_sign_in(service) && act(service, 1));
    {
        AUTO_TX tx = NULL;
        CHECK(store_begin(service->server->store, &tx, &err) &&
              store_run(tx, &keep, NULL, 0, NULL, NULL, &err) && store_commit(&tx, &err));
    }
    CHECK_STATUS(service, list(service, "?limit=1"), 200);
    int64_t end = service_int(service, "entries.0.sequence");
    const char *key = service_make_key(service, everything);
    CHECK(*key);
    audit_checkpoint_renew(service->server, true);
    CHECK(is_fine(service));
    AUTO_TX tx = NULL;
    CHECK(store_begin(service->server->store, &tx, &err));
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        CHECK(store_run(tx, steps[i], NULL, 0, NULL, NULL, &err));
    CHECK(store_commit(&tx, &err));
    int64_t n;
    CHECK(audit_verify_store(service->server->store, &service->server->keys, NULL, &n, &err));
    CHECK(n == end);
    CHECK(is_told(service, arena_printf(&service->arena, "entry %d was cut off", (int)(end + 1))));
}

SERVICE_TEST(another_chain_of_the_same_key_is_found_by_the_checkpoint)
{
    static const struct query rename = {"rename", 0, 0,
                                        SAME_ON_BOTH("UPDATE audit_head SET chain_id = 'x'")};
    CHECK(service_sign_in(service));
    audit_checkpoint_renew(service->server, true);
    CHECK(is_fine(service));
    CHECK(service_change(service, &rename, NULL, 0, 1));
    CHECK(is_told(service, "entry 1 was removed: the log is another"));
}

/* What the last answer was, as a file without some of its lines. */
static const char *write_export(struct service *service, const char *text)
{
    struct error err;
    const char *path = arena_printf(&service->arena, "%s/export", service->data_dir);
    return file_publish(path, str_of(text), 0600, &err) ? path : "";
}

static bool file_says(struct service *service, const char *text, const char *says)
{
    struct error err = {0};
    int64_t n = 0;
    const char *path = write_export(service, text);
    bool ok = audit_verify_file(path, &service->server->keys, &n, &err);
    if (ok != !says || (says && strncmp(err.text, says, strlen(says)) != 0))
        printf("# %s: %s; want: %s\n", ok ? "fine" : "found", err.text, says ? says : "fine");
    return ok == !says && (!says || strncmp(err.text, says, strlen(says)) == 0);
}

/* The text without line number `line`; 0 is the first. */
static const char *without(struct service *service, const char *text, int line)
{
    char *copy = arena_text(&service->arena, str_of(text)), *from = copy;
    for (int i = 0; i < line; i++)
        from = strchr(from, '\n') + 1;
    const char *to = strchr(from, '\n') + 1;
    memmove(from, to, strlen(to) + 1);
    return copy;
}

SERVICE_TEST(an_exported_file_is_verified_on_its_own)
{
    CHECK(service_sign_in(service) && act(service, 3));
    CHECK_STATUS(service, list(service, "/export"), 200);
    const char *text = arena_text(&service->arena, buf_str(&service->answer.body));
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    CHECK(file_says(service, text, NULL));
    CHECK(file_says(service, without(service, text, 0), "entry 1 was removed"));
    CHECK(file_says(service, without(service, text, 2), "entry 3 was removed"));
    CHECK(file_says(service, without(service, text, lines - 2),
                    arena_printf(&service->arena, "entry %d was cut off", lines - 1)));
    CHECK(file_says(service, without(service, text, lines - 1),
                    arena_printf(&service->arena, "entry %d was cut off", lines)));
    char *changed = arena_text(&service->arena, str_of(text));
    *strstr(changed, "secret.set") = 'S';
    CHECK(file_says(service, changed, "entry "));
    CHECK(file_says(service, arena_printf(&service->arena, "%s%s", text, "{}\n"),
                    "something was added"));
    CHECK_STATUS(service, list(service, "/export?action=login"), 200);
    text = arena_text(&service->arena, buf_str(&service->answer.body));
    CHECK(file_says(service, text, "entry "));
}

static void *act_often(void *arg)
{
    struct service *service = arg;
    for (int i = 0; i < 20; i++)
        if (!act(service, 0))
            return NULL;
    return service;
}

TEST(two_servers_append_to_one_chain_at_once)
{
    const char *skip = NULL;
    struct service *service = service_start(ON_POSTGRES, &skip);
    if (!service)
        SKIP(skip);
    struct service *other = service_start_beside(service);
    pthread_t thread;
    void *is_done = NULL;
    CHECK(service_sign_in(service) && service_sign_in(other));
    CHECK(pthread_create(&thread, NULL, act_often, other) == 0);
    CHECK(act_often(service));
    CHECK(pthread_join(thread, &is_done) == 0 && is_done);
    service_stop(other);
    CHECK(is_fine(service));
    CHECK_STATUS(service, list(service, "?action=api_key.create&limit=50"), 200);
    CHECK(*service_text(service, "entries.39.action"));
    service_stop(service);
}

TEST_MAIN()
