#include "cli/api.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/encode.h"
#include "base/json.h"
#include "base/own.h"
#include "cli/config.h"
#include "cli/scan.h"
#include "cli/scope.h"

enum { TRIES = 3, TRY_PAUSE_MS = 200, TIMEOUT_MS = 60 * 1000 };

#define ANSWER_MAX ((size_t)96 * 1024 * 1024)

static const char *const version_headers[] = {
    API_VERSION_HEADER,
    CLI_VERSION_HEADER,
    NULL,
};

void api_finish(struct api *api)
{
    http_client_destroy(api->client);
    arena_finish(&api->arena);
    *api = (struct api){0};
}

const char *api_part(struct api *api, const char *text)
{
    AUTO(buf_finish) struct buf out = {.max = API_BODY_MAX};
    struct error err;

    /* Longer than any name there is: the server then says that there is no such thing. */
    if (!percent_append(&out, str_of(text), &err))
        return "-";
    return arena_text(&api->arena, buf_str(&out));
}

const char *api_path(struct api *api, const char *fmt, ...)
{
    char tail[4096];
    va_list args;

    va_start(args, fmt);
    vsnprintf(tail, sizeof tail, fmt, args);
    va_end(args);
    return arena_printf(&api->arena, "%s%s", api->prefix, tail);
}

const char *api_query(struct api *api, const struct invocation *invocation,
                      const struct api_flag *flags, const char *first)
{
    const char *query = first;

    for (; flags->option; flags++) {
        const char *value = invocation_value(invocation, flags->option);

        if (value)
            query = arena_printf(&api->arena, "%s%c%s=%s", query, *query ? '&' : '?',
                                 flags->parameter, api_part(api, value));
    }
    return query;
}

bool api_explain(const struct api *api, struct error *err)
{
    if (err->code != ERR_UNAVAILABLE || err->sys == EKEYREJECTED)
        return false;
    return error_set(err, ERR_UNAVAILABLE,
                     "cannot reach %s: is `helmr up` running? Start it, or name another server "
                     "with --api-url or HELMR_API_URL",
                     api->url);
}

/* The next step, where there is one that holds for everybody. */
static const struct {
    enum error_code code;
    const char *step;
} next_steps[] = {
    {ERR_NO_CURRENT_DEPLOYMENT, "; deploy one first: helmr deploy PATH"                    },
    {ERR_TASK_NOT_FOUND,        "; `helmr task list` shows those that are there"           },
    {ERR_TASK_NOT_DEPLOYED,     "; `helmr task list` shows those that are there"           },
    {ERR_TASK_ARCHIVED,         "; `helmr task list` shows those that are there"           },
    {ERR_PAYLOAD_NOT_ACCEPTED,  "; a task takes one with a schema, or as run(payload, ctx)"},
    {ERR_API_VERSION,           "; use a helmr of the server's version"                    },
};

static const char *advice(const struct api *api, enum error_code code)
{
    if (code == ERR_UNAUTHENTICATED)
        return api->is_key ? "; check HELMR_API_KEY"
                           : "; log in again: helmr login, or set HELMR_API_KEY";
    for (size_t i = 0; i < COUNT_OF(next_steps); i++) {
        if (next_steps[i].code == code)
            return next_steps[i].step;
    }
    return "";
}

bool api_refused(const struct api *api, int status, struct str body, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str text = {0}, code = {0};

    if (!json_find_text(body, "error", &arena, &text) ||
        !json_find_text(body, "code", &arena, &code))
        return error_set(err, ERR_UNAVAILABLE, "%s answered with status %d and no error of ours",
                         api->url, status);

    enum error_code kind = ERR_INTERNAL;

    for (enum error_code c = 0; c <= ERR_HTTP_VERSION; c++) {
        if (str_equal(code, str_of(error_wire_name(c))))
            kind = c;
    }
    return error_set(err, kind, "%.*s (%.*s)%s", (int)text.len, text.ptr, (int)code.len, code.ptr,
                     advice(api, kind));
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

bool api_exchange(struct api *api, const struct http_request *request, struct str *answer,
                  struct error *err)
{
    struct http_answer got = {.body = {.max = ANSWER_MAX}};
    struct http_request whole = *request;

    whole.headers = whole.headers ? whole.headers : version_headers;

    bool ok = http_client_send(api->client, &whole, &got, err);

    if (!ok)
        api_explain(api, err);
    else if (got.status < 200 || got.status > 299)
        ok = api_refused(api, got.status, buf_str(&got.body), err);
    else if (answer)
        *answer = arena_str(&api->arena, buf_str(&got.body));
    buf_finish(&got.body);
    return ok;
}

bool api_send(struct api *api, const char *method, const char *path, struct str body,
              struct str *answer, struct error *err)
{
    const struct http_request request = {
        .method = method,
        .path = path,
        .body = body,
        .timeout_ms = TIMEOUT_MS,
    };
    int tries = strcmp(method, "GET") == 0 ? TRIES : 1;

    for (;;) {
        if (api_exchange(api, &request, answer, err))
            return true;
        if (err->code != ERR_UNAVAILABLE || --tries == 0)
            return false;
        pause_ms(TRY_PAUSE_MS);
    }
}

static bool set_credential(struct api *api, enum api_need need, struct error *err)
{
    const char *key = getenv("HELMR_API_KEY");
    struct secret token = {0};

    if (need == API_ANY && key && *key) {
        token = secret_create(str_of(key));
        api->is_key = true;
    } else if (!config_login(api->url, &token, err)) {
        return false;
    }

    bool is_set = secret_is_set(&token);

    http_client_set_bearer(api->client, &token);
    secret_finish(&token);
    if (is_set)
        return true;
    return error_set(
        err, ERR_UNAUTHENTICATED,
        need == API_LOGIN
            ? "this needs a login at %s, and there is none: start `helmr up` as this "
              "user, or use `helmr login`"
            : "no login for %s: start `helmr up` as this user, use `helmr login`, or set "
              "HELMR_API_KEY",
        api->url);
}

/* A key has one scope; flags may repeat it but not name another. */
static bool check_key_scope(struct api *api, const char *project, const char *environment,
                            struct error *err)
{
    struct str me = {0}, owner = {0};

    if (!project && !environment)
        return true;
    if (!api_send(api, "GET", "/api/me", (struct str){0}, &me, err))
        return false;
    if (project && !(json_find_raw(me, "project", &api->arena, &owner) &&
                     scope_names(owner, project, &api->arena)))
        return error_set(err, ERR_INVALID, "the API key does not belong to project %s", project);
    if (environment && !(json_find_raw(me, "environment", &api->arena, &owner) &&
                         scope_names(owner, environment, &api->arena)))
        return error_set(err, ERR_INVALID, "the API key does not belong to environment %s",
                         environment);
    return true;
}

static bool find_default(struct api *api, struct str list, struct str *found)
{
    while (scan_item(&list, found)) {
        struct str is_default = {0};

        if (json_find_raw(*found, "is_default", &api->arena, &is_default) &&
            str_equal(is_default, STR("true")))
            return true;
    }
    return false;
}

/* *project: the object of the API. */
static bool default_project(struct api *api, struct str *project, struct error *err)
{
    struct str answer = {0}, list = {0};

    if (!api_send(api, "GET", "/api/projects?limit=200", (struct str){0}, &answer, err))
        return false;
    return (json_find_raw(answer, "projects", &api->arena, &list) &&
            find_default(api, list, project)) ||
           error_set(err, ERR_NOT_FOUND, "the server has no default project: name one with -p");
}

bool api_project(struct api *api, const char **path, struct error *err)
{
    struct str project = {0}, id = {0};
    const char *end = strstr(api->prefix, "/environments/");

    if (end) {
        *path = arena_printf(&api->arena, "%.*s", (int)(end - api->prefix), api->prefix);
        return true;
    }
    if (!default_project(api, &project, err))
        return false;
    if (!json_find_text(project, "id", &api->arena, &id))
        return error_set(err, ERR_INTERNAL, "the server described a project without an id");
    *path = arena_printf(&api->arena, "/api/projects/%.*s", (int)id.len, id.ptr);
    return true;
}

static bool named_project(struct api *api, const char *name, struct str *project, struct error *err)
{
    const char *path = arena_printf(&api->arena, "/api/projects/%s", api_part(api, name));

    return api_send(api, "GET", path, (struct str){0}, project, err);
}

static bool set_prefix(struct api *api, struct str project, const char *environment,
                       struct error *err)
{
    struct str list = {0}, object = {0}, id = {0}, slug = {0};

    if (!json_find_text(project, "id", &api->arena, &id))
        return error_set(err, ERR_INTERNAL, "the server described a project without an id");
    if (!environment) {
        if (!json_find_raw(project, "environments", &api->arena, &list) ||
            !find_default(api, list, &object) ||
            !json_find_text(object, "slug", &api->arena, &slug))
            return error_set(err, ERR_NOT_FOUND,
                             "the project has no default environment: name one with -e");
        environment = arena_text(&api->arena, slug);
    }
    api->prefix = arena_printf(&api->arena, "/api/projects/%.*s/environments/%s", (int)id.len,
                               id.ptr, api_part(api, environment));
    return true;
}

static bool choose_scope(struct api *api, const struct invocation *invocation,
                         const char *directory, struct error *err)
{
    const char *project = invocation_value(invocation, "project");
    const char *environment = invocation_value(invocation, "env"), *literal = NULL;
    struct str object = {0};

    api->prefix = "/api";
    if (api->is_key)
        return check_key_scope(api, project, environment, err);
    if (project)
        return named_project(api, project, &object, err) &&
               set_prefix(api, object, environment, err);
    if (!scope_project(directory ? directory : ".", &api->arena, &literal, err))
        return false;
    if (literal && named_project(api, literal, &object, err))
        return set_prefix(api, object, environment, err);
    if (literal && err->code != ERR_NOT_FOUND)
        return false;
    api->project = literal;
    if (!environment)
        return true;
    return default_project(api, &object, err) && set_prefix(api, object, environment, err);
}

bool api_open(const struct invocation *invocation, enum api_need need, const char *directory,
              struct api *api, struct error *err)
{
    *api = (struct api){0};
    if (config_url(invocation_value(invocation, "api-url"), &api->arena, &api->url, err) &&
        http_client_create(api->url, &api->client, err) && set_credential(api, need, err) &&
        choose_scope(api, invocation, directory, err))
        return true;
    api_finish(api);
    return false;
}
