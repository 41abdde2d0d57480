/* Tokens and everybody who may complete one: keys, public access tokens, callback URLs. */
#include <pthread.h>
#include <stdlib.h>

#include "base/json.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"
#include "store/queries.h"

#define PERMISSIONS \
    OPERATOR ",\"tokens:create\",\"tokens:read\",\"tokens:complete\",\"tokens:cancel\""

enum { COMPLETERS = 8 };

CHANGE(token_ages, "UPDATE tokens SET timeout_at_ms = 1 WHERE id = $1");
CHANGE(public_ages, "UPDATE public_access_tokens SET expires_ms = 1 WHERE id = $1");
CHANGE(publics_age, "UPDATE public_access_tokens SET expires_ms = 1 WHERE token_id = $1");

struct made {
    struct service *service;
    const char *key, *id, *callback, *bearer;
};

static bool make(struct service *service, struct made *made, const char *body)
{
    if (!made->key)
        *made = (struct made){.service = service, .key = service_make_key(service, PERMISSIONS)};
    int status = service_ask(service, made->key, "POST", "/api/tokens", body);
    if (status != 201 && (status != 200 || !service_says(service, "\"is_cached\":true")))
        return false;
    made->id = service_text(service, "id");
    made->bearer = service_text(service, "public_access_token");
    const char *url = service_text(service, "callback_url");
    const char *path = strstr(url, "/api/v1/tokens/");
    made->callback = path ? path : "";
    return path;
}

static int complete_as(struct made *made, const char *bearer, const char *body)
{
    return service_ask(made->service, bearer, "POST",
                       arena_printf(&made->service->arena, "/api/v1/tokens/%s/complete", made->id),
                       body);
}

static int complete(struct made *made, const char *body)
{
    return service_ask(made->service, made->key, "POST",
                       arena_printf(&made->service->arena, "/api/tokens/%s/complete", made->id),
                       body);
}

static int look(struct made *made, const char *bearer)
{
    return service_ask(made->service, bearer, "GET",
                       arena_printf(&made->service->arena, "/api/v1/tokens/%s", made->id), NULL);
}

static const char *token_raw(struct made *made, const char *name)
{
    struct service *service = made->service;
    struct str value;

    if (service_ask(service, made->key, "GET",
                    arena_printf(&service->arena, "/api/tokens/%s", made->id), NULL) != 200 ||
        !json_find_raw(buf_str(&service->answer.body), name, &service->arena, &value))
        return "";
    return arena_text(&service->arena, value);
}

/* A public access token for made->id, with members of its own: its bearer. */
static const char *make_public(struct made *made, const char *more)
{
    struct service *service = made->service;
    const char *body =
        arena_printf(&service->arena,
                     "{\"scope\":{\"type\":\"token.complete\",\"token_id\":\"%s\"}%s}", made->id,
                     more);

    return service_ask(service, made->key, "POST", "/api/public-access-tokens", body) == 201
               ? service_text(service, "public_access_token")
               : "";
}

SERVICE_TEST(completing_again_with_equal_data_is_the_same)
{
    struct made made = {0};
    CHECK(make(service, &made, "{\"timeout\":\"1h\",\"tags\":[\"x\"],\"metadata\":{\"a\":1}}"));
    CHECK_STR(service_text(service, "status"), "pending");
    CHECK_STATUS(service, complete(&made, "{\"data\":{\"b\":[1,2],\"a\":\"x\"}}"), 200);
    CHECK_STR(service_text(service, "status"), "completed");
    CHECK_STR(service_text(service, "token.completed_by.type"), "key");
    CHECK_STATUS(service, complete(&made, "{ \"data\" : {\"a\":\"\\u0078\", \"b\":[1, 2]} }"), 200);
    CHECK_STR(service_text(service, "status"), "already_completed");
    CHECK_STATUS(service, complete(&made, "{\"data\":{\"b\":[2,1],\"a\":\"x\"}}"), 409);
    CHECK_STR(service_text(service, "code"), "token_completion_conflict");
    CHECK_STATUS(service, complete(&made, "{}"), 409);
    CHECK_STR(token_raw(&made, "data"), "{\"a\":\"x\",\"b\":[1,2]}");
    CHECK_STATUS(service,
                 service_ask(service, made.key, "POST",
                             arena_printf(&service->arena, "/api/tokens/%s/cancel", made.id), "{}"),
                 409);
}

SERVICE_TEST(a_token_is_made_once_for_a_key)
{
    struct made made = {0};
    CHECK(make(service, &made, "{\"idempotency_key\":\"k\",\"timeout\":\"1d\"}"));
    const char *id = made.id, *bearer = made.bearer, *callback = made.callback;
    CHECK(make(service, &made,
               "{\"idempotency_key\":\"k\",\"timeout\":\"24h\","
               "\"idempotency_key_options\":{\"key\":[\"a\"],\"scope\":\"run\"}}"));
    CHECK(service_says(service, "\"is_cached\":true"));
    CHECK_STR(made.id, id);
    CHECK_STR(made.bearer, bearer);
    CHECK_STR(made.callback, callback);
    CHECK(!make(service, &made, "{\"idempotency_key\":\"k\",\"timeout\":\"2d\"}"));
    CHECK_STR(service_text(service, "code"), "idempotency_fingerprint_mismatch");
    CHECK(!make(service, &made, "{\"idempotency_key\":\"j\",\"idempotency_key_ttl\":\"366d\"}"));
    CHECK(make(service, &made, "{\"idempotency_key\":\"j\",\"idempotency_key_ttl\":\"1h\"}") &&
          !service_says(service, "is_cached"));
    /* Given to whoever made it, and shown to nobody afterwards. */
    CHECK_STR(token_raw(&made, "public_access_token"), "");
    CHECK_STR(token_raw(&made, "callback_url"), "");
}

SERVICE_TEST(tokens_are_listed_by_status)
{
    struct made made = {0};
    for (int i = 0; i < 3; i++)
        CHECK(make(service, &made, "{}"));
    CHECK_STATUS(service, complete(&made, "{}"), 200);
    CHECK_STATUS(service, service_ask(service, made.key, "GET", "/api/tokens?status=pending", NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "tokens") == 2);
    CHECK_STATUS(service, service_ask(service, made.key, "GET", "/api/tokens?limit=2", NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "tokens") == 2);
    CHECK_STR(service_text(service, "tokens.0.id"), made.id);
    const char *next = arena_printf(&service->arena, "/api/tokens?limit=2&cursor=%s",
                                    service_text(service, "next_cursor"));
    CHECK_STATUS(service, service_ask(service, made.key, "GET", next, NULL), 200);
    CHECK(json_count(buf_str(&service->answer.body), "tokens") == 1);
    CHECK_STATUS(service, service_ask(service, made.key, "GET", "/api/tokens?status=late", NULL),
                 400);
}

SERVICE_TEST(a_token_of_another_environment_is_not_found)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    CHECK(service_sign_in(service));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "POST", "/api/projects/main/environments",
                             "{\"name\":\"Other\"}"),
                 201);
    const char *other =
        arena_printf(&service->arena, "/api/projects/main/environments/other/tokens/%s", made.id);
    CHECK_STATUS(service, service_ask(service, service->session, "GET", other, NULL), 404);
    CHECK_STR(service_text(service, "code"), "token_not_found");
    CHECK_STATUS(service,
                 service_ask(service, service->session, "POST",
                             arena_printf(&service->arena, "%s/complete", other), "{}"),
                 404);
    CHECK_STATUS(service, complete(&made, "{}"), 200);
}

SERVICE_TEST(a_public_access_token_completes_its_own_token_and_no_other)
{
    struct made made = {0}, other = {0};
    CHECK(make(service, &other, "{}"));
    CHECK(make(service, &made, "{\"metadata\":{\"prompt\":\"ok?\"}}"));
    CHECK_STATUS(service, look(&made, made.bearer), 200);
    CHECK_STR(service_text(service, "metadata.prompt"), "ok?");
    CHECK_STR(service_text(service, "run_id"), "");
    CHECK_STATUS(service, complete_as(&made, other.bearer, "{}"), 401);
    CHECK_STR(service_text(service, "code"), "token_scope_denied");
    CHECK_STATUS(service, complete_as(&made, made.key, "{}"), 401);
    CHECK_STATUS(service, look(&made, NULL), 401);
    /* Nor does it open anything else. */
    CHECK_STATUS(service, service_ask(service, made.bearer, "GET", "/api/tokens", NULL), 401);
    CHECK_STATUS(service, complete_as(&made, made.bearer, "{\"data\":7}"), 200);
    CHECK_STR(service_text(service, "token.completed_by.type"), "public_access_token");
    CHECK_STATUS(service, complete_as(&made, made.bearer, "{\"data\":7}"), 200);
    CHECK_STR(service_text(service, "status"), "already_completed");
    CHECK_STATUS(service, look(&made, made.bearer), 200);
    CHECK_STR(service_text(service, "status"), "completed");
}

static void note_origin(void *arg, struct str name, struct str value)
{
    if (str_equal_nocase(name, STR("access-control-allow-origin")))
        *(bool *)arg = str_equal(value, STR("*"));
}

static bool allows_origins(struct service *service, const char *method, const char *path,
                           int *status)
{
    bool allowed = false;
    const struct http_request request = {
        .method = method,
        .path = path,
        .body = strcmp(method, "POST") == 0 ? STR("{}") : (struct str){0},
        .on_header = note_origin,
        .on_header_arg = &allowed,
    };
    *status = service_send(service, NULL, &request);
    return allowed;
}

SERVICE_TEST(other_origins_may_use_public_access_tokens_and_nothing_else)
{
    struct made made = {0};
    int status;
    CHECK(make(service, &made, "{}"));
    const char *one = arena_printf(&service->arena, "/api/v1/tokens/%s", made.id);
    const char *finish = arena_printf(&service->arena, "%s/complete", one);
    CHECK(allows_origins(service, "OPTIONS", one, &status) && status == 204);
    CHECK(allows_origins(service, "OPTIONS", finish, &status) && status == 204);
    CHECK(allows_origins(service, "GET", one, &status) && status == 401);
    CHECK(allows_origins(service, "POST", finish, &status) && status == 401);
    CHECK(!allows_origins(service, "OPTIONS", made.callback, &status) && status == 405);
    CHECK(!allows_origins(service, "POST", made.callback, &status) && status == 200);
    CHECK(!allows_origins(service, "OPTIONS", "/api/tokens", &status) && status == 405);
}

SERVICE_TEST(uses_are_counted_on_success_only)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    const char *bearer = make_public(&made, ",\"max_uses\":1");
    CHECK(*bearer && service_int(service, "max_uses") == 1);
    CHECK_STATUS(service, look(&made, bearer), 200);
    CHECK_STATUS(service, complete_as(&made, bearer, "{\"data\""), 400);
    CHECK_STATUS(service, complete_as(&made, bearer, "{\"data\":1}"), 200);
    CHECK_STATUS(service, complete_as(&made, bearer, "{\"data\":1}"), 200);
    CHECK_STR(service_text(service, "status"), "already_completed");
    CHECK_STATUS(service, complete_as(&made, bearer, "{\"data\":2}"), 409);
    CHECK_STATUS(service, look(&made, bearer), 401);
}

SERVICE_TEST(a_link_to_answer_leads_to_a_page_that_knows_nothing)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    const char *bearer = make_public(&made, "");
    const char *url = service_text(service, "url");
    const char *page = arena_printf(&service->arena, "/answer/%s", made.id);
    CHECK_STR(url,
              arena_printf(&service->arena, "%s%s#%s", service->server->public_url, page, bearer));
    CHECK_STATUS(service, service_ask(service, NULL, "GET", page, NULL), 200);
    CHECK(service_says(service, "<script defer src=\"/answer.js\">") &&
          !service_says(service, made.id));
    CHECK_STATUS(service, service_ask(service, NULL, "GET", "/answer.js", NULL), 200);
    CHECK(service_says(service, "/api/v1/tokens/"));
}

SERVICE_TEST(a_public_access_token_ends_by_time_and_by_revocation)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    const char *bearer = make_public(&made, "");
    const char *id = service_text(service, "id");
    CHECK(service_change(service, &public_ages, &V_TEXT(id), 1, 1));
    CHECK_STATUS(service, complete_as(&made, bearer, "{}"), 401);
    bearer = make_public(&made, ",\"expires_at\":\"2020-01-01T00:00:00Z\"");
    CHECK_STR(bearer, "");
    bearer = make_public(&made, "");
    id = arena_printf(&service->arena, "/api/public-access-tokens/%s", service_text(service, "id"));
    CHECK_STATUS(service, service_ask(service, made.key, "DELETE", id, NULL), 204);
    CHECK_STATUS(service, complete_as(&made, bearer, "{}"), 401);
    CHECK_STATUS(service, look(&made, bearer), 401);
    /* The one that came with the token ends with it, and says why. */
    CHECK(service_change(service, &token_ages, &V_TEXT(made.id), 1, 1));
    CHECK(service_change(service, &publics_age, &V_TEXT(made.id), 1, 3));
    CHECK_STATUS(service, complete_as(&made, made.bearer, "{}"), 410);
    CHECK_STR(service_text(service, "code"), "token_expired");
}

SERVICE_TEST(a_scope_needs_its_permission_and_its_token)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    CHECK_STATUS(service,
                 service_ask(service, made.key, "POST", "/api/public-access-tokens",
                             "{\"scope\":{\"type\":\"session.input.send\",\"session_id\":\"s\","
                             "\"stream\":\"x\"}}"),
                 403);
    CHECK_STATUS(service,
                 service_ask(service, made.key, "POST", "/api/public-access-tokens",
                             "{\"scope\":{\"type\":\"token.complete\"}}"),
                 400);
    CHECK_STATUS(service,
                 service_ask(service, made.key, "POST", "/api/public-access-tokens",
                             "{\"scope\":{\"type\":\"token.complete\",\"token_id\":"
                             "\"0190a000-0000-7000-8000-000000000001\"}}"),
                 404);
}

SERVICE_TEST(a_callback_takes_every_form_of_body)
{
    static const struct {
        const char *body, *data;
    } forms[] = {
        {"",                         "null"                   },
        {"{\"data\":{\"ok\":true}}", "{\"ok\":true}"          },
        {"{\"data\":null}",          "null"                   },
        {"{\"data\":1,\"more\":2}",  "{\"data\":1,\"more\":2}"},
        {"{\"event\":\"merged\"}",   "{\"event\":\"merged\"}" },
        {"[1,2]",                    "[1,2]"                  },
        {"\"yes\"",                  "\"yes\""                },
        {"{}",                       "{}"                     },
    };
    struct made made = {0};
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        CHECK(make(service, &made, "{}"));
        CHECK_STATUS(service, service_ask(service, NULL, "POST", made.callback, forms[i].body),
                     200);
        CHECK_STR(service_text(service, "token.completed_by.type"), "callback");
        CHECK_STR(token_raw(&made, "data"), forms[i].data);
    }
    CHECK(make(service, &made, "{}"));
    CHECK_STATUS(service, service_ask(service, NULL, "POST", made.callback, "{\"data\":"), 400);
    /* One letter of the secret is wrong. */
    char *wrong = arena_text(&service->arena, str_of(made.callback));
    size_t last = strlen(wrong) - 2;
    wrong[last] = wrong[last] == 'A' ? 'B' : 'A';
    CHECK_STATUS(service, service_ask(service, NULL, "POST", wrong, "{}"), 401);
    CHECK_STR(service_text(service, "code"), "token_scope_denied");
    CHECK_STR(token_raw(&made, "status"), "\"pending\"");
}

SERVICE_TEST(wrong_secrets_are_not_listened_to_for_long)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    int refused = 0, status = 401;
    while (refused < 200 && (status = complete_as(&made, "hlmr_pat_wrong", "{}")) == 401)
        refused++;
    CHECK(status == 429 && refused >= 90 && refused <= 110);
    CHECK_STATUS(service, complete_as(&made, made.bearer, "{}"), 429);
    CHECK_STATUS(service, complete(&made, "{}"), 200);
}

SERVICE_TEST(what_is_completed_too_late_says_so)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    CHECK(service_change(service, &token_ages, &V_TEXT(made.id), 1, 1));
    CHECK_STATUS(service, complete(&made, "{}"), 410);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", made.callback, "{}"), 410);
    CHECK_STR(service_text(service, "code"), "token_expired");
}

SERVICE_TEST(too_much_data_is_refused)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    size_t n = (size_t)300 * 1024;
    char *text = arena_alloc(&service->arena, n + 1);
    memset(text, 'x', n);
    CHECK_STATUS(service, complete(&made, arena_printf(&service->arena, "{\"data\":\"%s\"}", text)),
                 413);
    CHECK_STR(token_raw(&made, "status"), "\"pending\"");
}

SERVICE_TEST(who_completed_is_in_the_audit_log)
{
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    CHECK_STATUS(service, service_ask(service, NULL, "POST", made.callback, "1"), 200);
    CHECK_STATUS(service, service_ask(service, NULL, "POST", made.callback, "1"), 200);
    CHECK(make(service, &made, "{}"));
    CHECK(*make_public(&made, ""));
    CHECK_STATUS(service,
                 service_ask(service, made.key, "POST",
                             arena_printf(&service->arena, "/api/tokens/%s/cancel", made.id), "{}"),
                 200);
    CHECK(service_sign_in(service));
    CHECK_STATUS(service,
                 service_ask(service, service->session, "GET", "/api/audit?action=token.complete",
                             NULL),
                 200);
    CHECK(json_count(buf_str(&service->answer.body), "entries") == 1);
    CHECK_STR(service_text(service, "entries.0.actor.name"), "callback URL");
    CHECK_STATUS(service, service_ask(service, service->session, "GET", "/api/audit", NULL), 200);
    CHECK(service_says(service, "\"token.cancel\"") &&
          service_says(service, "\"public_token.create\""));
}

struct completer {
    struct service *view;
    const char *path, *key;
    pthread_t thread;
    int status, number;
    const char *said;
};

static void *complete_once(void *arg)
{
    struct completer *one = arg;

    one->status = service_ask(one->view, one->key, "POST", one->path,
                              arena_printf(&one->view->arena, "{\"data\":%d}", one->number));
    one->said = service_text(one->view, one->status == 200 ? "status" : "code");
    return NULL;
}

/* All at once, half of them with the same answer: one completes it, the run goes on once. */
SERVICE_TEST(of_eight_completers_exactly_one_completes)
{
    struct test_worker worker = {0};
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    CHECK(worker_join(&worker, service, "one") && service_build(service, &worker, made.key) &&
          worker_carry(&worker, made.key));
    CHECK(lease_op(&worker, 1, "wait.open",
                   arena_printf(&service->arena, "{\"kind\":\"token\",\"token_id\":\"%s\"}",
                                made.id)));
    struct completer all[COMPLETERS];
    size_t completed = 0, already = 0, conflicts = 0;
    for (int i = 0; i < COMPLETERS; i++) {
        all[i] = (struct completer){
            .view = service_view(service),
            .key = made.key,
            .number = i % 2,
            .path = arena_printf(&service->arena, "/api/tokens/%s/complete", made.id),
        };
        if (pthread_create(&all[i].thread, NULL, complete_once, &all[i]) != 0)
            abort();
    }
    for (int i = 0; i < COMPLETERS; i++) {
        pthread_join(all[i].thread, NULL);
        completed += strcmp(all[i].said, "completed") == 0;
        already += strcmp(all[i].said, "already_completed") == 0;
        conflicts += strcmp(all[i].said, "token_completion_conflict") == 0;
        service_view_end(all[i].view);
    }
    CHECK(completed == 1 && already == COMPLETERS / 2 - 1 && conflicts == COMPLETERS / 2);
    CHECK(run_events_of(service, made.key, worker.subject, "run_wait.completed") == 1);
    CHECK_STR(run_text(service, made.key, worker.subject, "status"), "running");
    CHECK_STATUS(service, worker_poll(&worker, "[]", &large_room, 0, "[]"), 200);
    CHECK(json_count(buf_str(&service->answer.body), "messages") == 1);
}

/* A wait that is opened while its token is answered hears of it, in whichever order. */
SERVICE_TEST(a_wait_and_its_answer_never_miss_each_other)
{
    struct test_worker worker = {0};
    struct made made = {0};
    CHECK(make(service, &made, "{}"));
    CHECK(worker_join(&worker, service, "one") && service_build(service, &worker, made.key));
    for (int i = 0; i < 8; i++) {
        CHECK(make(service, &made, "{}") && worker_carry(&worker, made.key));
        struct completer one = {
            .view = service_view(service),
            .key = made.key,
            .path = arena_printf(&service->arena, "/api/tokens/%s/complete", made.id),
        };
        if (pthread_create(&one.thread, NULL, complete_once, &one) != 0)
            abort();
        bool opened = lease_op(&worker, 1, "wait.open",
                               arena_printf(&service->arena,
                                            "{\"kind\":\"token\",\"token_id\":\"%s\"}", made.id));
        pthread_join(one.thread, NULL);
        service_view_end(one.view);
        CHECK(opened && one.status == 200);
        CHECK_STR(run_text(service, made.key, worker.subject, "status"), "running");
        CHECK(run_events_of(service, made.key, worker.subject, "run_wait.completed") == 1);
        CHECK_STATUS(service, lease_report(&worker, "succeeded", ""), 200);
    }
}

TEST_MAIN()
