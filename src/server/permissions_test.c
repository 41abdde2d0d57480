/* Who may call what, found out by asking: every role and a key of every single permission, at
 * every route. The answers are tests/golden/permissions.txt, and the roles a table of
 * docs/permissions.md; with --update both are written anew.
 */
#include <stdlib.h>

#include "base/file.h"
#include "base/own.h"
#include "model/permission.h"
#include "server/routes.h"
#include "server/service_suite.h"

enum { TEXT_MAX = 1 << 20, NOBODY = -1 };

static bool is_update;

static const char *const head =
    "# Who may call what. anyone: no credential is needed; worker: only a worker's own bearer.\n"
    "# Else the roles (o owner, a admin, d developer, v viewer), then the permissions each of\n"
    "# which is enough for an API key by itself (*: any key; -: none).\n"
    "# Written by server_permissions_test --update.\n";

static const char *source_path(struct arena *arena, const char *name)
{
    const char *root = getenv("HELMR_SOURCE_ROOT");
    return arena_printf(arena, "%s/%s", root ? root : ".", name);
}

static const char *method_name(enum http_method method)
{
    switch (method) {
    case METHOD_GET: return "GET";
    case METHOD_POST: return "POST";
    case METHOD_PUT: return "PUT";
    case METHOD_PATCH: return "PATCH";
    case METHOD_DELETE: return "DELETE";
    case METHOD_OPTIONS: return "OPTIONS";
    case METHOD_HEAD:
    case METHOD_UNKNOWN: break;
    }
    return "NONE";
}

/* The pattern with an id that nothing has in every place. */
static const char *sample_path(struct arena *arena, const char *pattern)
{
    struct str rest = str_of(pattern), piece;
    const char *path = "";
    str_split(&rest, '/', &piece);
    while (str_split(&rest, '/', &piece))
        path =
            arena_printf(arena, "%s/%.*s", path,
                         piece.len && piece.ptr[0] == ':' ? ID_LEN : (int)piece.len,
                         piece.len && piece.ptr[0] == ':' ? "01981f4e-0000-7000-8000-000000000000"
                                                          : piece.ptr);
    return *path ? path : "/";
}

/* Whether the credential opens the route: what the handler thinks of the request is another
 * matter. */
static bool is_let_in(struct service *service, const struct route *route, const char *token)
{
    const char *path = sample_path(&service->arena, route->pattern);
    bool has_body = route->method != METHOD_GET && route->method != METHOD_DELETE;
    int status =
        service_ask(service, token, method_name(route->method), path, has_body ? "{}" : NULL);
    const char *code = status == 401 || status == 403 ? service_text(service, "code") : "";
    return status != NOBODY && strcmp(code, "authentication_required") != 0 &&
           strcmp(code, "permission_required") != 0;
}

/* A session may be ended by what it is used for, so every request has its own. */
static const char *roles_let_in(struct service *service, const struct route *route,
                                struct person people[ROLE_COUNT])
{
    const char *roles = "";
    for (enum role role = ROLE_COUNT; role-- > 0;) {
        struct error err;
        if (!service_open_session(service, &people[role], &err))
            return err.code == ERR_CONFLICT ? "conflict" : "?";
        if (is_let_in(service, route, people[role].session))
            roles = arena_printf(&service->arena, "%s%c", roles, role_name(role)[0]);
    }
    return *roles ? roles : "-";
}

static const char *keys_let_in(struct service *service, const struct route *route,
                               const char *const keys[PERM_COUNT])
{
    const char *names = "";
    int n = 0, n_keys = 0;
    for (enum permission p = 0; p < PERM_COUNT; p++) {
        n_keys += keys[p] != NULL;
        if (!keys[p] || !is_let_in(service, route, keys[p]))
            continue;
        names =
            arena_printf(&service->arena, "%s%s%s", names, *names ? " " : "", permission_name(p));
        n++;
    }
    return n == 0 ? "-" : n == n_keys ? "*" : names;
}

static void write_route(struct service *service, const struct route *route,
                        struct person people[ROLE_COUNT], const char *const keys[PERM_COUNT],
                        struct buf *out)
{
    struct error err;
    const char *roles = roles_let_in(service, route, people);
    const char *names = keys_let_in(service, route, keys);
    const char *who = arena_printf(&service->arena, "%-4s %s", roles, names);
    if (is_let_in(service, route, NULL))
        who = strcmp(who, "oadv *") == 0 ? "anyone" : "inconsistent";
    else if (strcmp(who, "-    -") == 0)
        who = route->needs == PERM_WORKER ? "worker" : "nobody";
    const char *line = arena_printf(&service->arena, "%-6s %-56s %s\n", method_name(route->method),
                                    route->pattern, who);
    if (!buf_append(out, str_of(line), &err))
        abort();
}

/* Compares with the file, or writes it. */
static bool is_fresh(struct arena *arena, const char *name, struct str text)
{
    AUTO_FREE char *golden = NULL;
    struct error err = {0};
    const char *path = source_path(arena, name);
    if (is_update)
        return file_publish(path, text, 0644, &err);
    if (file_read(path, TEXT_MAX, &golden, &err) && str_equal(str_of(golden), text))
        return true;
    printf("# %s is not what was found out; look at what changed, then run this test with "
           "--update\n",
           name);
    struct str rest = text, line;
    while (golden && str_split(&rest, '\n', &line))
        if (!memmem(golden, strlen(golden), line.ptr, line.len))
            printf("# new: %.*s\n", (int)line.len, line.ptr);
    return false;
}

static bool make_people(struct service *service, struct person people[ROLE_COUNT])
{
    struct error err;
    for (enum role role = 0; role < ROLE_COUNT; role++)
        if (!service_join(service, role_name(role), &people[role], &err))
            return false;
    return true;
}

TEST(every_route_lets_in_whom_the_golden_matrix_says)
{
    const char *skip = NULL;
    struct service *service = service_start(ON_SQLITE, &skip);
    if (!service)
        SKIP(skip);
    AUTO(buf_finish) struct buf text = {.max = TEXT_MAX};
    AUTO(arena_finish) struct arena arena = {0};
    struct person people[ROLE_COUNT];
    struct error err;
    const char *keys[PERM_COUNT] = {NULL};
    bool ok = make_people(service, people) && buf_append(&text, str_of(head), &err);
    for (enum permission p = 0; p < PERM_COUNT; p++)
        if (permission_is_grantable(p))
            keys[p] = service_make_key(service,
                                       arena_printf(&service->arena, "\"%s\"", permission_name(p)));
    for (size_t i = 0; i < n_server_routes; i++)
        write_route(service, &server_routes[i], people, keys, &text);
    service_stop(service);
    CHECK(ok);
    CHECK(!memmem(text.bytes, text.len, "inconsistent", 12));
    CHECK(!memmem(text.bytes, text.len, "nobody", 6));
    CHECK(is_fresh(&arena, "tests/golden/permissions.txt", buf_str(&text)));
}

static const char *role_table(struct arena *arena)
{
    const char *text = "| Permission | owner | admin | developer | viewer | for keys |\n"
                       "|---|---|---|---|---|---|\n";
    for (enum permission p = 0; p < PERM_COUNT; p++) {
        if (!*permission_name(p))
            continue;
        text = arena_printf(arena, "%s| `%s` |", text, permission_name(p));
        for (enum role role = ROLE_COUNT; role-- > 0;)
            text = arena_printf(arena, "%s %s |", text, role_allows(role, p) ? "x" : " ");
        text = arena_printf(arena, "%s %s |\n", text, permission_is_grantable(p) ? "yes" : "no");
    }
    return text;
}

TEST(the_page_of_permissions_has_the_table_of_the_model)
{
    static const char begin[] = "<!-- permissions -->\n", end[] = "<!-- /permissions -->";
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FREE char *page = NULL;
    struct error err;
    CHECK(file_read(source_path(&arena, "docs/permissions.md"), TEXT_MAX, &page, &err));
    const char *from = strstr(page, begin), *to = from ? strstr(from, end) : NULL;
    CHECK(from && to);
    const char *text =
        arena_printf(&arena, "%.*s%s%s%s", (int)(from - page), page, begin, role_table(&arena), to);
    CHECK(is_fresh(&arena, "docs/permissions.md", str_of(text)));
}

int main(int argc, char **argv)
{
    is_update = argc > 1 && strcmp(argv[1], "--update") == 0;
    return test_run_all();
}
