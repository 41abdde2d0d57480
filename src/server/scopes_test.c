/* Projects and environments: made, renamed, deleted; and nothing of one seen from another. */
#include <pthread.h>
#include <sched.h>

#include "base/json.h"
#include "base/time.h"
#include "model/permission.h"
#include "server/routes.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define IN_STAGING "/api/projects/main/environments/staging"

static int ask(struct service *service, const char *method, const char *path, const char *body)
{
    if (!service->session[0] && !service_sign_in(service))
        return -1;
    return service_ask(service, service->session, method, path, body);
}

SERVICE_TEST(a_project_begins_with_production_and_staging)
{
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Web Shop!\"}"), 201);
    CHECK_STR(service_text(service, "slug"), "web-shop");
    CHECK_STR(service_text(service, "name"), "Web Shop!");
    CHECK_STR(service_text(service, "environments.0.slug"), "production");
    CHECK_STR(service_text(service, "environments.1.slug"), "staging");
    const char *id = service_text(service, "id");
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/web-shop", NULL), 200);
    CHECK_STR(service_text(service, "id"), id);
    CHECK_STATUS(service,
                 ask(service, "GET",
                     arena_printf(&service->arena, "/api/projects/%s/environments/production", id),
                     NULL),
                 200);
    CHECK_STATUS(service,
                 ask(service, "GET", "/api/projects/web-shop/environments/staging/runs", NULL),
                 200);
}

SERVICE_TEST(bad_names_and_slugs_are_refused)
{
    static const struct {
        const char *body;
        int status;
        const char *code;
    } cases[] = {
        {"{}",                                                                 400, "invalid_request"},
        {"{\"name\":\"\"}",                                                    400, "invalid_request"},
        {"{\"name\":\"!!!\"}",                                                 400, "invalid_request"},
        {"{\"name\":\"x\",\"slug\":\"Upper\"}",                                400, "invalid_request"},
        {"{\"name\":\"x\",\"slug\":\"-x\"}",                                   400, "invalid_request"},
        {"{\"name\":\"x\",\"is_default\":true}",                               400, "unknown_field"  },
        {"{\"name\":\"x\",\"slug\":\"01981f4e-0000-7000-8000-000000000000\"}", 400,
         "invalid_request"                                                                           },
        {"{\"name\":\"Main\"}",                                                409, "slug_taken"     },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STATUS(service, ask(service, "POST", "/api/projects", cases[i].body),
                     cases[i].status);
        CHECK_STR(service_text(service, "code"), cases[i].code);
    }
}

SERVICE_TEST(renaming_needs_a_free_slug_and_the_default_can_move)
{
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Other\"}"), 201);
    CHECK_STATUS(service, ask(service, "PATCH", "/api/projects/other", "{\"slug\":\"main\"}"), 409);
    CHECK_STR(service_text(service, "code"), "slug_taken");
    CHECK_STATUS(service,
                 ask(service, "PATCH", "/api/projects/other",
                     "{\"slug\":\"second\",\"name\":\"Second\"}"),
                 200);
    CHECK_STR(service_text(service, "slug"), "second");
    CHECK_STR(service_text(service, "name"), "Second");
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/other", NULL), 404);

    CHECK_STATUS(service, ask(service, "PATCH", "/api/projects/main", "{\"is_default\":false}"),
                 400);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/main", NULL), 409);
    CHECK_STR(service_text(service, "code"), "project_is_default");
    CHECK_STATUS(service, ask(service, "PATCH", "/api/projects/second", "{\"is_default\":true}"),
                 200);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/second", NULL), 409);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/main", NULL), 204);
    CHECK_STATUS(service, ask(service, "GET", "/api/projects", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "projects") == 1);
    CHECK_STR(service_text(service, "projects.0.slug"), "second");
}

SERVICE_TEST(an_environment_keeps_what_it_is_given)
{
    const char *path = "/api/projects/main/environments";
    CHECK_STATUS(service,
                 ask(service, "POST", path,
                     "{\"name\":\"Preview 7\",\"color_hex\":\"#1A2b3c\",\"min_grade\":\"microvm\","
                     "\"limits\":{\"workspaces\":3}}"),
                 201);
    CHECK_STR(service_text(service, "slug"), "preview-7");
    CHECK_STR(service_text(service, "color_hex"), "#1A2b3c");
    CHECK_STR(service_text(service, "min_grade"), "microvm");
    CHECK_STR(service_text(service, "worker_group"), "default");
    CHECK(service_int(service, "limits.workspaces") == 3);
    CHECK(service_int(service, "limits.storage_bytes") == -1);
    CHECK_STATUS(service, ask(service, "POST", path, "{\"name\":\"preview 7\"}"), 409);
    CHECK_STR(service_text(service, "code"), "slug_taken");

    path = "/api/projects/main/environments/preview-7";
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"min_grade\":\"best\"}"), 400);
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"color_hex\":\"red\"}"), 400);
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"worker_group\":\"none\"}"), 400);
    CHECK_STATUS(service, ask(service, "PATCH", path, "{\"slug\":\"staging\"}"), 409);
    CHECK_STATUS(service,
                 ask(service, "PATCH", path,
                     "{\"slug\":\"preview\",\"min_grade\":\"user-kernel\",\"limits\":{}}"),
                 200);
    CHECK_STR(service_text(service, "slug"), "preview");
    CHECK_STR(service_text(service, "name"), "Preview 7");
    CHECK_STR(service_text(service, "min_grade"), "user-kernel");
    CHECK_STR(service_text(service, "color_hex"), "#1A2b3c");
    CHECK(service_int(service, "limits.workspaces") == -1);
    path = "/api/projects/main/environments/preview";
    CHECK_STATUS(service, ask(service, "DELETE", path, NULL), 204);
    CHECK_STATUS(service, ask(service, "GET", path, NULL), 404);
}

SERVICE_TEST(production_and_staging_are_protected)
{
    static const char *const paths[] = {"/api/projects/main/environments/production", IN_STAGING};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        CHECK_STATUS(service, ask(service, "DELETE", paths[i], NULL), 409);
        CHECK_STR(service_text(service, "code"), "environment_protected");
        CHECK_STATUS(service, ask(service, "PATCH", paths[i], "{\"slug\":\"live\"}"), 409);
        CHECK_STR(service_text(service, "code"), "environment_protected");
        CHECK_STATUS(service, ask(service, "PATCH", paths[i], "{\"name\":\"Live\"}"), 409);
        CHECK_STATUS(service, ask(service, "PATCH", paths[i], "{\"color_hex\":\"#000000\"}"), 200);
    }
}

/* What waits is given to nobody weaker, also when it waited before. */
SERVICE_TEST(a_new_least_grade_counts_for_what_is_queued)
{
    static const char sql[] = "SELECT e.min_grade FROM ready y JOIN lanes n ON n.id = y.lane_id "
                              "JOIN environments e ON e.id = n.environment_id";
    static const struct query least = {"test_ready", 0, 1, SAME_ON_BOTH(sql)};
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;
    CHECK(service_deploy(service, &err) && service_sign_in(service));
    CHECK(*service_create_run(service, service->session));
    CHECK_STATUS(service,
                 ask(service, "PATCH", "/api/projects/main/environments/production",
                     "{\"min_grade\":\"microvm\"}"),
                 200);
    CHECK(store_begin_read(service->server->store, &tx, &err));
    CHECK(store_run(tx, &least, NULL, 0, &service->arena, &rows, &err));
    CHECK(rows.n_rows == 1 && row_int(&rows, 0, 0) == 2);
}

/* Whatever service_deploy and the API put into production is put into the other project. */
static bool move_to(struct service *service, const char *environment_id)
{
    snprintf(service->environment_id, ID_TEXT, "%s", environment_id);
    return *environment_id;
}

SERVICE_TEST(a_project_is_deleted_when_nothing_in_it_lives)
{
    static const char sql[] = "UPDATE workspaces SET state = 'deleted'";
    static const struct query delete_workspaces = {"test_workspaces", 0, 0, SAME_ON_BOTH(sql)};
    struct error err;
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Shop\"}"), 201);
    CHECK(move_to(service, service_text(service, "environments.0.id")));
    CHECK(service_deploy(service, &err));
    const char *base = "/api/projects/shop/environments/production";
#define BELOW(rest) arena_printf(&service->arena, "%s" rest, base)
    CHECK_STATUS(service, ask(service, "PUT", BELOW("/secrets/TOKEN"), "{\"value\":\"v\"}"), 201);
    CHECK_STATUS(service,
                 ask(service, "POST", BELOW("/api-keys"),
                     "{\"name\":\"k\",\"expires_in_days\":null,"
                     "\"permissions\":[{\"scopes\":[\"runs:read\"]}]}"),
                 201);
    const char *key = service_text(service, "raw_key");
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 200);
    CHECK_STATUS(service,
                 ask(service, "POST", BELOW("/runs"),
                     "{\"task_id\":\"hello\",\"options\":{\"idempotency_key\":\"one\"}}"),
                 201);
    const char *run = service_text(service, "id");
    CHECK_STATUS(service, ask(service, "POST", BELOW("/tokens"), "{}"), 201);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/shop", NULL), 409);
    CHECK_STR(service_text(service, "code"), "project_not_empty");
    CHECK_STATUS(service,
                 ask(service, "POST", arena_printf(&service->arena, "%s/runs/%s/cancel", base, run),
                     "{}"),
                 200);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/shop", NULL), 409);
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/shop", NULL), 200);

    CHECK(service_change(service, &delete_workspaces, NULL, 0, 1));
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/shop", NULL), 204);
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/shop", NULL), 404);
    CHECK_STATUS(service, service_ask(service, key, "GET", "/api/runs", NULL), 401);
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Shop\"}"), 201);
    CHECK_STATUS(service, ask(service, "GET", BELOW("/secrets"), NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "secrets") == 0);
}

/* One of each kind of object, in another environment than the callers'. */
struct foreign {
    const char *run, *deployment, *key, *secret, *task, *sandbox, *workspace;
    const char *token, *public_token, *session, *schedule;
    const char *version, *exec, *pty; /* of the workspace */
};

static const char *foreign_id(const struct foreign *foreign, struct str param)
{
    const struct {
        const char *name, *id;
    } params[] = {
        {":run",          foreign->run         },
        {":deployment",   foreign->deployment  },
        {":key",          foreign->key         },
        {":name",         foreign->secret      },
        {":task",         foreign->task        },
        {":sandbox",      foreign->sandbox     },
        {":workspace",    foreign->workspace   },
        {":token",        foreign->token       },
        {":public_token", foreign->public_token},
        {":session",      foreign->session     },
        {":schedule",     foreign->schedule    },
        {":version",      foreign->version     },
        {":exec",         foreign->exec        },
        {":pty",          foreign->pty         },
        {":port",         "3000"               },
    };
    for (size_t i = 0; i < COUNT_OF(params); i++)
        if (str_equal(param, str_of(params[i].name)))
            return params[i].id;
    return NULL;
}

/* The path of a scoped route with the foreign object in it; NULL when it names none. */
static const char *foreign_path(struct arena *arena, const struct foreign *foreign,
                                const char *prefix, const char *pattern, bool *is_known)
{
    struct str rest = str_of(pattern + strlen("/api/")), piece;
    const char *path = prefix;
    bool names = false;
    *is_known = true;
    while (str_split(&rest, '/', &piece)) {
        const char *id = piece.ptr[0] == ':' ? foreign_id(foreign, piece) : NULL;
        /* A stream has its name in every session. */
        bool is_stream = str_equal(piece, STR(":stream"));
        names = names || id;
        id = is_stream ? "approval" : id;
        *is_known = *is_known && (id || piece.ptr[0] != ':');
        path = arena_printf(arena, "%s/%s", path, id ? id : arena_text(arena, piece));
    }
    return names ? path : NULL;
}

static const char *method_of(const struct route *route)
{
    return route->method == METHOD_GET      ? "GET"
           : route->method == METHOD_PUT    ? "PUT"
           : route->method == METHOD_DELETE ? "DELETE"
           : route->method == METHOD_PATCH  ? "PATCH"
                                            : "POST";
}

/* What a route must be told before it looks for anything. */
static const char *body_of(const struct route *route)
{
    static const struct {
        const char *pattern, *body;
    } bodies[] = {
        {"/api/workspaces/:workspace/execs",             "{\"command\":[\"true\"]}"     },
        {"/api/workspaces/:workspace/execs/:exec/stdin", "{\"offset\":0,\"data\":\"\"}" },
        {"/api/workspaces/:workspace/pty/:pty/input",    "{\"offset\":0,\"data\":\"\"}" },
        {"/api/workspaces/:workspace/pty/:pty/resize",   "{\"cols\":80,\"rows\":24}"    },
        {"/api/workspaces/:workspace/files/move",        "{\"from\":\"a\",\"to\":\"b\"}"},
        {"/api/workspaces/:workspace/files/directory",   "{\"path\":\"a\"}"             },
    };

    if (route->method == METHOD_GET)
        return NULL;
    for (size_t i = 0; i < COUNT_OF(bodies); i++)
        if (strcmp(route->pattern, bodies[i].pattern) == 0)
            return bodies[i].body;
    return "{}";
}

/* They ask for a WebSocket first; attach_test and relay_test have them. */
static bool is_socket(const struct route *route)
{
    return strcmp(route->pattern, "/api/workspaces/:workspace/pty/:pty/attach") == 0 ||
           strcmp(route->pattern, "/api/workspaces/:workspace/ports/:port") == 0;
}

/* Every scoped route with what another environment has is not found; but for PUT, which makes
 * one of this name here. */
static bool finds_nothing(struct service *service, const char *token, const char *prefix,
                          const struct foreign *foreign)
{
    bool ok = true;
    for (size_t i = 0; i < n_server_routes; i++) {
        const struct route *route = &server_routes[i];
        bool is_known;
        if (!route->scoped || route->method == METHOD_PUT || is_socket(route))
            continue;
        const char *path =
            foreign_path(&service->arena, foreign, prefix, route->pattern, &is_known);
        if (!path && is_known)
            continue;
        if (path && strstr(route->pattern, "/files"))
            path = arena_printf(&service->arena, "%s?path=a", path);
        int status = path ? service_ask(service, token, method_of(route), path, body_of(route)) : 0;
        if (status == 404 && is_known)
            continue;
        printf("# %s %s: %d%s\n", method_of(route), path ? path : route->pattern, status,
               is_known ? "" : ", a parameter is new here");
        ok = false;
    }
    return ok;
}

static bool furnish_workspace(struct service *service, const char *prefix, struct foreign *foreign)
{
#define IN(rest) arena_printf(&service->arena, "%s/workspaces/%s" rest, prefix, foreign->workspace)
    const char *all = arena_printf(&service->arena, "%s/workspaces", prefix);

    if (ask(service, "POST", all, "{\"sandbox_id\":\"box\"}") != 201)
        return false;
    foreign->workspace = service_text(service, "workspace.id");
    if (ask(service, "POST", IN("/files/directory"), "{\"path\":\"a\"}") / 100 != 2)
        return false;
    foreign->version = service_text(service, "version_id");
    if (ask(service, "POST", IN("/execs"), "{\"command\":[\"true\"]}") != 201)
        return false;
    foreign->exec = service_text(service, "exec.id");
    if (ask(service, "POST", IN("/pty"), "{}") != 201)
        return false;
    foreign->pty = service_text(service, "pty.id");
    return true;
}

/* A run, a deployment with its task and sandbox, a key and a secret, where the prefix says. */
static bool furnish(struct service *service, const char *prefix, const char *environment_id,
                    struct foreign *foreign)
{
    struct error err;
    char own[ID_TEXT];
    snprintf(own, ID_TEXT, "%s", service->environment_id);
    snprintf(service->environment_id, ID_TEXT, "%s", environment_id);
    bool ok = service_deploy(service, &err);
    snprintf(service->environment_id, ID_TEXT, "%s", own);
#define AT(rest) arena_printf(&service->arena, "%s" rest, prefix)
    *foreign = (struct foreign){.secret = "TOKEN", .task = "hello", .sandbox = "box"};
    foreign->deployment = arena_text(&service->arena, str_of(service->deployment_id));
    ok = ok && ask(service, "POST", AT("/runs"), "{\"task_id\":\"hello\"}") == 201;
    foreign->run = service_text(service, "id");
    foreign->session = service_text(service, "session_id");
    ok = ok && furnish_workspace(service, prefix, foreign);
    ok =
        ok && ask(service, "POST", AT("/schedules"),
                  "{\"deduplication_key\":\"k\",\"task\":\"hello\",\"cron\":\"0 3 * * *\"}") == 201;
    foreign->schedule = service_text(service, "id");
    ok = ok && ask(service, "POST", AT("/tokens"), "{}") == 201;
    foreign->token = service_text(service, "id");
    const char *scope =
        arena_printf(&service->arena,
                     "{\"scope\":{\"type\":\"token.complete\",\"token_id\":\"%s\"}}",
                     foreign->token);
    ok = ok && ask(service, "POST", AT("/public-access-tokens"), scope) == 201;
    foreign->public_token = service_text(service, "id");
    ok = ok && ask(service, "PUT", AT("/secrets/TOKEN"), "{\"value\":\"v\"}") == 201 &&
         ask(service, "POST", AT("/api-keys"),
             "{\"name\":\"k\",\"expires_in_days\":30,"
             "\"permissions\":[{\"scopes\":[\"runs:read\"]}]}") == 201;
    foreign->key = service_text(service, "id");
    return ok && ask(service, "GET", AT("/sandboxes/box"), NULL) == 200;
}

#define ALL_SCOPED                                                                               \
    "\"runs:create\",\"runs:read\",\"runs:manage\",\"tasks:deploy\","                            \
    "\"secrets:write\",\"tokens:create\",\"tokens:read\",\"tokens:complete\",\"tokens:cancel\"," \
    "\"session-streams:read\",\"session-input:send\",\"session-output:append\","                 \
    "\"workspace-lifecycle:manage\",\"workspace-files:read\",\"workspace-files:write\","         \
    "\"workspace-versions:read\",\"workspace-exec:create\",\"workspace-exec:read\","             \
    "\"workspace-exec:manage\",\"workspace-pty:create\",\"workspace-pty:read\","                 \
    "\"workspace-pty:manage\""

/* The object is looked for in the callers' environment, and in its own by a key of another. */
static void check_foreign(struct service *service, const char *key, const char *prefix,
                          const struct foreign *foreign)
{
    static const char own[] = "/api/projects/main/environments/production";
    bool by_session = finds_nothing(service, service->session, "/api", foreign);
    bool by_path = finds_nothing(service, service->session, own, foreign);
    bool by_key = true;
    for (size_t i = 0; i < n_server_routes && by_key; i++) {
        const struct route *route = &server_routes[i];
        bool is_known;
        if (!route->scoped || route->needs == PERM_API_KEYS_MANAGE)
            continue;
        const char *path =
            foreign_path(&service->arena, foreign, prefix, route->pattern, &is_known);
        if (!path)
            path = arena_printf(&service->arena, "%s%s", prefix, route->pattern + 4);
        int status = service_ask(service, key, method_of(route), path,
                                 route->method == METHOD_GET ? NULL : "{}");
        by_key = status == 404;
        if (!by_key)
            printf("# %s %s by a key: %d\n", method_of(route), path, status);
    }
    CHECK(by_session && by_path && by_key);
}

SERVICE_TEST(what_another_environment_has_is_not_found_at_any_route)
{
    struct foreign foreign;
    CHECK(service_sign_in(service));
    const char *key = service_make_key(service, ALL_SCOPED);
    CHECK(furnish(service, IN_STAGING, service->staging_id, &foreign));
    check_foreign(service, key, IN_STAGING, &foreign);
    CHECK(finds_nothing(service, service->session, "/api/projects/main/environments/production",
                        &foreign));
}

SERVICE_TEST(what_another_project_has_is_not_found_at_any_route)
{
    struct foreign foreign;
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Shop\"}"), 201);
    const char *id = service_text(service, "environments.0.id");
    const char *key = service_make_key(service, ALL_SCOPED);
    CHECK(furnish(service, "/api/projects/shop/environments/production", id, &foreign));
    check_foreign(service, key, "/api/projects/shop/environments/production", &foreign);
}

/* There is one organization; a second one shows that nothing leans on that. */
SERVICE_TEST(what_another_organization_has_is_not_found_at_any_route)
{
    static const char sql[] = "UPDATE projects SET organization_id = $2, is_default = 1 "
                              "WHERE id = $1";
    static const struct query give_away = {"test_give_away", 2, 0, SAME_ON_BOTH(sql)};
    struct foreign foreign;
    struct error err;
    char other[ID_TEXT];
    AUTO_TX tx = NULL;
    CHECK_STATUS(service, ask(service, "POST", "/api/projects", "{\"name\":\"Shop\"}"), 201);
    const char *id = service_text(service, "id");
    const char *environment = service_text(service, "environments.0.id");
    const char *key = service_make_key(service, ALL_SCOPED);
    const char *prefix = "/api/projects/shop/environments/production";
    CHECK(furnish(service, prefix, environment, &foreign));
    id_make(other);
    CHECK(store_begin(service->server->store, &tx, &err));
    CHECK(STORE(tx, &organization_insert, NULL, NULL, &err, V_TEXT(other), V_TEXT("other"),
                V_TEXT("Other"), V_INT(time_now_ms())));
    CHECK(STORE(tx, &give_away, NULL, NULL, &err, V_TEXT(id), V_TEXT(other)));
    CHECK(store_commit(&tx, &err));

    CHECK_STATUS(service, ask(service, "GET", "/api/projects", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "projects") == 1);
    CHECK_STATUS(service, ask(service, "GET", "/api/projects/shop", NULL), 404);
    CHECK_STATUS(service, ask(service, "PATCH", "/api/projects/shop", "{\"name\":\"X\"}"), 404);
    CHECK_STATUS(service, ask(service, "DELETE", "/api/projects/shop", NULL), 404);
    CHECK_STATUS(service, ask(service, "GET", prefix, NULL), 404);
    CHECK_STATUS(service, ask(service, "PATCH", prefix, "{}"), 404);
    CHECK_STATUS(service,
                 ask(service, "GET", arena_printf(&service->arena, "%s/runs", prefix), NULL), 404);
    check_foreign(service, key, prefix, &foreign);
}

struct starter {
    struct service *service;
    const char *key;
    pthread_t thread;
    int n_started, last;
};

/* Starts runs until that is refused, as it is when the environment is gone. */
static void *start_runs(void *arg)
{
    struct starter *starter = arg;
    do {
        starter->last = service_ask(starter->service, starter->key, "POST", "/api/runs",
                                    "{\"task_id\":\"hello\"}");
        starter->n_started += starter->last == 201;
    } while (starter->last == 201 && starter->n_started < 20);
    return NULL;
}

/* Either the run is there, and the environment stays, or the other way round. */
SERVICE_TEST(a_run_and_the_deletion_of_its_environment_exclude_each_other)
{
    struct error err;
    CHECK(service_sign_in(service));
    for (int i = 0; i < 5; i++) {
        const char *path = "/api/projects/main/environments";
        CHECK_STATUS(service, ask(service, "POST", path, "{\"name\":\"pre\"}"), 201);
        CHECK(move_to(service, service_text(service, "id")) && service_deploy(service, &err));
        path = "/api/projects/main/environments/pre";
        CHECK_STATUS(service,
                     ask(service, "POST", arena_printf(&service->arena, "%s/api-keys", path),
                         "{\"name\":\"k\",\"permissions\":[{\"scopes\":[\"runs:create\"]}]}"),
                     201);
        struct starter starter = {.service = service_view(service),
                                  .key = service_text(service, "raw_key")};
        bool ok = pthread_create(&starter.thread, NULL, start_runs, &starter) == 0;
        for (int spin = 0; spin < i * 1000; spin++)
            sched_yield();
        int deleted = ok ? ask(service, "DELETE", path, NULL) : -1;
        if (ok)
            pthread_join(starter.thread, NULL);
        service_view_end(starter.service);
        CHECK(ok && (deleted == 204 || deleted == 409));
        CHECK((deleted == 204) == (starter.n_started == 0));
        CHECK(starter.last == 201 || starter.last == 401 || starter.last == 404 ||
              starter.last == 409);
        if (deleted == 409)
            return;
    }
}

TEST_MAIN()
