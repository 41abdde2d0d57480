/* Streams for those who have nothing but a public access token. */
#include "base/json.h"
#include "server/stream_testing.h"
#include "store/queries.h"

CHANGE(token_ages, "UPDATE public_access_tokens SET expires_ms = 1 WHERE id = $1");

/* A token whose scope has these members besides its type, and more of its own: its bearer. */
static const char *grant(struct scene *scene, const char *type, const char *scope, const char *more)
{
    const char *body = arena_printf(&scene->service->arena, "{\"scope\":{\"type\":\"%s\"%s}%s}",
                                    type, scope, more);

    return service_ask(scene->service, scene->key, "POST", "/api/public-access-tokens", body) == 201
               ? service_text(scene->service, "public_access_token")
               : "";
}

static const char *of_session(struct scene *scene, const char *more)
{
    return arena_printf(&scene->service->arena, ",\"session_id\":\"%s\"%s", scene->session, more);
}

static const char *public_path(struct scene *scene, const char *rest)
{
    return arena_printf(&scene->service->arena, "/api/v1/sessions/%s/%s", scene->session, rest);
}

static int visit(struct scene *scene, const char *bearer, const char *method, const char *rest,
                 const char *body)
{
    return service_ask(scene->service, bearer, method, public_path(scene, rest), body);
}

SERVICE_TEST(a_token_sends_input_and_another_reads_output)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *sender = grant(&scene, "session.input.send", of_session(&scene, ""), "");
    CHECK(*sender);
    CHECK_STR(service_text(service, "scope.session_id"), scene.session);
    const char *reader = grant(&scene, "session.output.read", of_session(&scene, ""), "");
    CHECK(*reader);

    CHECK_STATUS(service, visit(&scene, sender, "POST", "inputs/chat", "{\"data\":\"hi\"}"), 201);
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat"), 200);
    CHECK_STR(service_text(service, "records.0.data"), "hi");
    CHECK_STATUS(service, scene_post(&scene, "outputs/log", "{\"data\":\"ho\"}"), 201);
    CHECK_STATUS(service, visit(&scene, reader, "GET", "outputs/log", NULL), 200);
    CHECK_STR(service_text(service, "records.0.data"), "ho");
    CHECK_STATUS(service, visit(&scene, reader, "GET", "outputs/log/read", NULL), 200);
    CHECK_STR(service_text(service, "record.data"), "ho");

    /* Neither does what the other does, and a key is no such token. */
    CHECK_STATUS(service, visit(&scene, reader, "POST", "inputs/chat", "{\"data\":1}"), 401);
    CHECK_STR(service_text(service, "code"), "token_scope_denied");
    CHECK_STATUS(service, visit(&scene, sender, "GET", "outputs/log", NULL), 401);
    CHECK_STATUS(service, visit(&scene, scene.key, "GET", "outputs/log", NULL), 401);
    CHECK_STATUS(service, visit(&scene, NULL, "GET", "outputs/log", NULL), 401);
    CHECK_STATUS(service, service_ask(service, sender, "GET", scene_path(&scene, "streams"), NULL),
                 401);
    CHECK_STATUS(service, visit(&scene, sender, "POST", "inputs/none", "{\"data\":1}"), 404);
    CHECK_STATUS(service, visit(&scene, sender, "POST", "inputs/log", "{\"data\":1}"), 409);
}

SERVICE_TEST(a_token_goes_no_further_than_its_scope)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *narrow =
        grant(&scene, "session.input.send",
              of_session(&scene, ",\"stream\":\"chat\",\"correlation_id\":\"c\""), "");
    CHECK(*narrow);
    CHECK_STATUS(service, visit(&scene, narrow, "POST", "inputs/chat", "{\"data\":1}"), 201);
    CHECK_STR(service_text(service, "record.correlation_id"), "c");
    CHECK_STATUS(service,
                 visit(&scene, narrow, "POST", "inputs/chat",
                       "{\"data\":1,\"correlation_id\":\"d\"}"),
                 401);
    CHECK_STATUS(service, visit(&scene, narrow, "POST", "inputs/log", "{\"data\":1}"), 401);

    CHECK_STATUS(service, scene_post(&scene, "outputs/log", "{\"data\":1}"), 201);
    CHECK_STATUS(service,
                 scene_post(&scene, "outputs/log", "{\"data\":2,\"correlation_id\":\"c\"}"), 201);
    const char *reader =
        grant(&scene, "session.output.read", of_session(&scene, ",\"correlation_id\":\"c\""), "");
    CHECK_STATUS(service, visit(&scene, reader, "GET", "outputs/log", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "records") == 1);
    CHECK_STATUS(service, visit(&scene, reader, "GET", "outputs/log?correlation_id=d", NULL), 401);

    const char *other = service_start_run(service, scene.key, "hello", NULL);
    scene.session = run_text(service, scene.key, other, "session_id");
    CHECK_STATUS(service, visit(&scene, narrow, "POST", "inputs/chat", "{\"data\":1}"), 401);
    CHECK_STATUS(service, visit(&scene, reader, "GET", "outputs/log", NULL), 401);
}

CHANGE(name_session, "UPDATE sessions SET external_id = 'order' WHERE id = $1");

SERVICE_TEST(a_token_and_its_session_go_by_external_id_too)
{
    static const char path[] = "/api/v1/sessions/by-external-id/inputs/chat?external_id=";
    struct scene scene;
    CHECK(scene_set(service, &scene));
    CHECK(service_change(service, &name_session, &V_TEXT(scene.session), 1, 1));
    const char *bearer = grant(&scene, "session.input.send", ",\"external_id\":\"order\"", "");
    CHECK(*bearer);
    CHECK_STR(service_text(service, "scope.session_id"), scene.session);
    CHECK_STATUS(service,
                 service_ask(service, bearer, "POST",
                             arena_printf(&service->arena, "%sorder", path), "{\"data\":1}"),
                 201);
    CHECK_STATUS(service,
                 service_ask(service, bearer, "POST",
                             arena_printf(&service->arena, "%sother", path), "{\"data\":1}"),
                 401);
}

SERVICE_TEST(uses_are_counted_when_something_was_done)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *once =
        grant(&scene, "session.input.send", of_session(&scene, ""), ",\"max_uses\":2");
    CHECK_STATUS(service, visit(&scene, once, "POST", "inputs/chat", "{\"more\":1}"), 400);
    CHECK_STATUS(service,
                 visit(&scene, once, "POST", "inputs/chat",
                       "{\"data\":1,\"idempotency_key\":\"k\"}"),
                 201);
    CHECK_STATUS(service,
                 visit(&scene, once, "POST", "inputs/chat",
                       "{\"data\":1,\"idempotency_key\":\"k\"}"),
                 200);
    CHECK_STATUS(service, visit(&scene, once, "POST", "inputs/chat", "{\"data\":2}"), 201);
    CHECK_STATUS(service, visit(&scene, once, "POST", "inputs/chat", "{\"data\":3}"), 401);
    const char *glance =
        grant(&scene, "session.output.read", of_session(&scene, ""), ",\"max_uses\":1");
    CHECK_STATUS(service, visit(&scene, glance, "GET", "outputs/none", NULL), 404);
    CHECK_STATUS(service, visit(&scene, glance, "GET", "outputs/log", NULL), 200);
    CHECK_STATUS(service, visit(&scene, glance, "GET", "outputs/log", NULL), 401);
    CHECK_STATUS(service, scene_get(&scene, "inputs/chat"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "records") == 2);
}

SERVICE_TEST(a_token_ends_by_time_and_by_revocation)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *bearer = grant(&scene, "session.output.read", of_session(&scene, ""), "");
    const char *id = service_text(service, "id");
    CHECK_STATUS(service, visit(&scene, bearer, "GET", "outputs/log", NULL), 200);
    CHECK(service_change(service, &token_ages, &V_TEXT(id), 1, 1));
    CHECK_STATUS(service, visit(&scene, bearer, "GET", "outputs/log", NULL), 401);
    bearer = grant(&scene, "session.output.read", of_session(&scene, ""), "");
    id = service_text(service, "id");
    CHECK_STATUS(service,
                 service_ask(service, scene.key, "DELETE",
                             arena_printf(&service->arena, "/api/public-access-tokens/%s", id),
                             NULL),
                 204);
    CHECK_STATUS(service, visit(&scene, bearer, "GET", "outputs/log", NULL), 401);
}

SERVICE_TEST(who_grants_must_be_allowed_what_is_granted)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *key = scene.key;
    scene.key = service_make_key(service, "\"session-streams:read\"");
    CHECK(*grant(&scene, "session.output.read", of_session(&scene, ""), ""));
    CHECK(!*grant(&scene, "session.input.send", of_session(&scene, ""), ""));
    CHECK_STR(service_text(service, "code"), "permission_required");
    scene.key = key;
    CHECK(*grant(&scene, "session.input.send", of_session(&scene, ""), ""));
    const char *path =
        arena_printf(&service->arena, "/api/public-access-tokens/%s", service_text(service, "id"));
    scene.key = service_make_key(service, "\"session-streams:read\"");
    CHECK_STATUS(service, service_ask(service, scene.key, "DELETE", path, NULL), 403);
    scene.key = service_make_key(service, "\"runs:read\"");
    CHECK(!*grant(&scene, "session.output.read", of_session(&scene, ""), ""));
    CHECK_STR(service_text(service, "code"), "permission_required");
}

SERVICE_TEST(scopes_that_say_too_little_or_too_much_are_refused)
{
    struct scene scene;
    const struct {
        const char *type, *scope, *code;
    } cases[] = {
        {"session.input.send",  "",                                            "invalid_request"  },
        {"session.input.send",  ",\"session_id\":\"x\",\"external_id\":\"y\"", "invalid_request"  },
        {"session.input.send",  ",\"session_id\":\"x\",\"token_id\":\"y\"",    "invalid_request"  },
        {"session.input.send",  ",\"session_id\":\"x\",\"stream\":\"-\"",      "invalid_request"  },
        {"session.input.send",  ",\"session_id\":\"x\"",                       "session_not_found"},
        {"session.output.read", ",\"external_id\":\"nobody\"",                 "session_not_found"},
        {"session.other",       ",\"session_id\":\"x\"",                       "invalid_request"  },
        {"token.complete",      ",\"session_id\":\"x\"",                       "invalid_request"  },
    };
    CHECK(scene_set(service, &scene));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK(!*grant(&scene, cases[i].type, cases[i].scope, ""));
        CHECK_STR(service_text(service, "code"), cases[i].code);
    }
}

SERVICE_TEST(pages_of_other_origins_may_use_them)
{
    struct scene scene;
    CHECK(scene_set(service, &scene));
    const char *bearer = grant(&scene, "session.output.read", of_session(&scene, ""), "");
    const char *paths[] = {"inputs/chat", "outputs/log", "outputs/log/read"};
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        CHECK_STATUS(service, visit(&scene, NULL, "OPTIONS", paths[i], NULL), 204);
    CHECK_STATUS(service, visit(&scene, bearer, "GET", "outputs/log", NULL), 200);
}

TEST_MAIN()
