#include "server/routes.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/test.h"
#include "model/permission.h"
#include "server/caller.h"
#include "server/openapi.h"

static const char *method_name(enum http_method method)
{
    switch (method) {
    case METHOD_GET: return "get";
    case METHOD_POST: return "post";
    case METHOD_PUT: return "put";
    case METHOD_PATCH: return "patch";
    case METHOD_DELETE: return "delete";
    case METHOD_OPTIONS: return "options";
    case METHOD_HEAD:
    case METHOD_UNKNOWN: break;
    }
    return "none";
}

static const char *needs_name(int needs)
{
    switch (needs) {
    case PERM_PUBLIC: return "public";
    case PERM_WORKER: return "worker";
    case PERM_SESSION: return "session";
    case NEED_ANY_CALLER: return "session or key";
    case NEED_DEPLOY_OR_READ: return "tasks:deploy or runs:read";
    case NEED_SANDBOX_READ: return "runs:read, tasks:deploy or any workspace permission";
    case NEED_ANY_WORKSPACE: return "any workspace permission";
    case NEED_RUN_AND_VERSIONS: return "runs:read and workspace-versions:read";
    case NEED_PUBLIC_GRANT:
        return "tokens:complete, session-input:send or session-streams:read, by the scope";
    default: return permission_name((enum permission)needs);
    }
}

TEST(every_route_has_a_permission_and_a_handler)
{
    for (size_t i = 0; i < n_server_routes; i++) {
        const struct route *route = &server_routes[i];
        CHECK(route->method != METHOD_UNKNOWN && route->pattern[0] == '/');
        CHECK(route->needs > PERM_UNSET && route->needs < NEED_COUNT);
        CHECK(route->handle);
        CHECK(!route->instant || route->needs == PERM_PUBLIC);
        CHECK(!route->scoped || strncmp(route->pattern, "/api/", 5) == 0);
    }
}

TEST(no_two_routes_are_equal)
{
    for (size_t i = 0; i < n_server_routes; i++)
        for (size_t j = i + 1; j < n_server_routes; j++)
            CHECK(server_routes[i].method != server_routes[j].method ||
                  strcmp(server_routes[i].pattern, server_routes[j].pattern) != 0);
}

/* `/api/runs/:run` is written `/api/runs/{run}` there; pages, workers and what browsers ask before
 * they ask are not in it. */
static bool is_documented(const struct route *route)
{
    return route->needs != PERM_WORKER && route->method != METHOD_OPTIONS &&
           (strncmp(route->pattern, "/api/", 5) == 0 || strstr(route->pattern, "z") != NULL) &&
           strncmp(route->pattern, "/api/worker/", 12) != 0;
}

static void document_path(const char *pattern, char *path, size_t size)
{
    size_t n = 0;
    bool is_open = false;
    for (const char *c = pattern;; c++) {
        if (is_open && (*c == '/' || *c == '\0')) {
            path[n++] = '}';
            is_open = false;
        }
        if (*c == '\0' || n + 3 > size)
            break;
        if (*c == ':')
            path[n++] = '{';
        else
            path[n++] = *c;
        is_open = is_open || *c == ':';
    }
    path[n] = '\0';
}

/* A key of an object may hold dots and slashes, so the text is searched instead of a path. */
static bool find_operation(struct arena *arena, const struct route *route, struct str *operation)
{
    char path[256];
    struct str paths, item;
    document_path(route->pattern, path, sizeof path);
    if (!json_find_raw(openapi_document(), "paths", arena, &paths))
        return false;
    char *key = arena_printf(arena, "\"%s\":", path);
    char *at = strstr(arena_text(arena, paths), key);
    if (!at)
        return false;
    /* The value begins right behind its key; json_find_raw reads one document only. */
    const char *begin = at + strlen(key);
    size_t depth = 0, len = 0;
    bool in_text = false;
    do {
        char c = begin[len++];
        if (c == '\\')
            len++;
        else if (c == '"')
            in_text = !in_text;
        else if (!in_text && c == '{')
            depth++;
        else if (!in_text && c == '}')
            depth--;
    } while (depth > 0);
    item = (struct str){begin, len};
    return json_find_raw(item, method_name(route->method), arena, operation);
}

TEST(every_public_route_is_in_the_openapi_document_with_its_permission)
{
    AUTO(arena_finish) struct arena arena = {0};
    for (size_t i = 0; i < n_server_routes; i++) {
        struct str operation, permission;
        if (!is_documented(&server_routes[i]))
            continue;
        if (!find_operation(&arena, &server_routes[i], &operation)) {
            printf("# missing: %s %s\n", method_name(server_routes[i].method),
                   server_routes[i].pattern);
            CHECK(false);
        }
        CHECK(json_find_text(operation, "x-permission", &arena, &permission));
        CHECK_STR(arena_text(&arena, permission), needs_name(server_routes[i].needs));
    }
}

TEST(the_openapi_document_has_no_operation_without_a_route)
{
    AUTO(arena_finish) struct arena arena = {0};
    size_t routes = 0, documented = 0;
    for (size_t i = 0; i < n_server_routes; i++)
        routes += is_documented(&server_routes[i]);
    const char *at = arena_text(&arena, openapi_document());
    while ((at = strstr(at, "\"x-permission\":"))) {
        documented++;
        at++;
    }
    CHECK(documented == routes);
}

TEST_MAIN()
