#include "server/task_session_testing.h"

#include <stdio.h>

#include "base/time.h"
#include "store/queries.h"

const char *session_prepare(struct service *service)
{
    struct error err;

    return service_deploy(service, &err) ? service_make_key(service, OPERATOR) : "";
}

int session_start(struct service *service, const char *key, const char *body)
{
    return service_ask(service, key, "POST", "/api/sessions", body);
}

const char *session_start_hello(struct service *service, const char *key, const char *more)
{
    const char *body = arena_printf(&service->arena, "{\"task_id\":\"hello\"%s}", more);

    if (session_start(service, key, body) == 201)
        return service_text(service, "session.id");
    printf("# %.*s\n", (int)service->answer.body.len, service->answer.body.bytes);
    return "";
}

int session_ask(struct service *service, const char *key, const char *method, const char *session,
                const char *rest, const char *body)
{
    return service_ask(service, key, method,
                       arena_printf(&service->arena, "/api/sessions/%s%s", session, rest), body);
}

const char *session_text(struct service *service, const char *key, const char *session,
                         const char *path)
{
    return session_ask(service, key, "GET", session, "", NULL) == 200 ? service_text(service, path)
                                                                      : "";
}

bool session_change(struct service *service, const struct query *query, const char *id)
{
    const struct value params[] = {V_TEXT(id)};

    return service_change(service, query, params, 1, 1);
}

const char *session_time(struct service *service, int64_t ms)
{
    char text[TIME_TEXT_MAX];

    return arena_text(&service->arena, str_of(time_format(time_now_ms() + ms, text)));
}
