#include "server/account.h"

#include <pthread.h>
#include <sodium.h>

#include "base/time.h"
#include "server/caller.h"
#include "server/server.h"
#include "server/service_suite.h"
#include "server/session.h"
#include "store/queries.h"

#define OWNER       "ada@example.test"
#define PASSWORD    "correct horse battery"
#define SETUP_TOKEN "a setup token for tests"

static const char setup_body[] =
    "{\"setup_token\":\"" SETUP_TOKEN "\",\"email\":\" Ada@Example.test\","
    "\"password\":\"" PASSWORD "\",\"organization\":{\"slug\":\"acme\","
    "\"name\":\"Acme\"}}";

/* Tokens of the last answer's cookie. */
static const char *token_of(struct service *service)
{
    const char *at = strchr(service->set_cookie, '=');
    return at ? arena_printf(&service->arena, "%.*s", (int)strcspn(at + 1, ";"), at + 1) : "";
}

static bool offer_setup(struct service *service)
{
    struct error err;
    service->config.setup_token = secret_create(STR(SETUP_TOKEN));
    return account_offer_setup(service->server, &err);
}

static bool set_up(struct service *service)
{
    return offer_setup(service) &&
           service_ask(service, NULL, "POST", "/api/auth/setup", setup_body) == 201;
}

static int login(struct service *service, const char *email, const char *password)
{
    const char *body =
        arena_printf(&service->arena, "{\"email\":\"%s\",\"password\":\"%s\"}", email, password);
    return service_ask(service, NULL, "POST", "/api/auth/login", body);
}

static int ask_with(struct service *service, const char *path, const char *body,
                    const char *const *headers)
{
    const struct http_request request = {.method = body ? "POST" : "GET",
                                         .path = path,
                                         .body = body ? str_of(body) : (struct str){0},
                                         .headers = headers};
    return service_send(service, NULL, &request);
}

static const char *cookie_line(struct service *service, const char *token)
{
    return arena_printf(&service->arena, "Cookie: " SESSION_COOKIE "=%s", token);
}

SERVICE_TEST(the_first_owner_is_made_once_by_the_token)
{
    CHECK(offer_setup(service));
    CHECK_STATUS(service,
                 service_ask(service, NULL, "POST", "/api/auth/setup",
                             "{\"setup_token\":\"another\",\"email\":\"" OWNER
                             "\",\"password\":\"" PASSWORD "\"}"),
                 401);
    CHECK_STR(service_text(service, "code"), "setup_token_invalid");
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/setup", setup_body), 201);
    CHECK_STR(service_text(service, "redirect_after"), "/");
    const char *token = token_of(service);
    CHECK_STATUS(service, service_ask(service, token, "GET", "/api/me", NULL), 200);
    CHECK_STR(service_text(service, "user.email"), OWNER);
    CHECK_STR(service_text(service, "user.display_name"), "ada");
    CHECK_STR(service_text(service, "role"), "owner");
    CHECK_STR(service_text(service, "organization.slug"), "acme");
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/setup", setup_body), 409);
    CHECK_STR(service_text(service, "code"), "setup_done");
    CHECK_STATUS(service, login(service, "ADA@example.test", PASSWORD), 200);
    CHECK(strcmp(token, token_of(service)) != 0);
}

SERVICE_TEST(without_a_token_offered_nobody_sets_up)
{
    CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/setup", setup_body), 401);
    CHECK_STATUS(service,
                 service_ask(service, NULL, "POST", "/api/auth/setup",
                             "{\"setup_token\":\"\",\"email\":\"" OWNER
                             "\",\"password\":\"" PASSWORD "\"}"),
                 401);
}

/* One of several who ask the same at once. */
struct asker {
    const char *url, *path;
    struct str body;
    pthread_t thread;
    int status;
};

static void *ask_alone(void *arg)
{
    struct asker *asker = arg;
    struct http_client *client = NULL;
    struct http_answer answer = {.body.max = 65536};
    const struct http_request request = {.method = "POST",
                                         .path = asker->path,
                                         .body = asker->body};
    struct error err;
    asker->status = http_client_create(asker->url, &client, &err) &&
                            http_client_send(client, &request, &answer, &err)
                        ? answer.status
                        : -1;
    buf_finish(&answer.body);
    http_client_destroy(client);
    return NULL;
}

enum { ASKERS_MAX = 16 };

static bool ask_together(const struct service *service, const char *path, struct str body,
                         struct asker askers[ASKERS_MAX], size_t n)
{
    size_t started = 0;
    for (; started < n; started++) {
        struct asker *asker = &askers[started];
        *asker = (struct asker){.url = service->url, .path = path, .body = body};
        if (pthread_create(&asker->thread, NULL, ask_alone, asker) != 0)
            break;
    }
    for (size_t i = 0; i < started; i++)
        pthread_join(askers[i].thread, NULL);
    return started == n;
}

static size_t answered(const struct asker *askers, size_t n, int status)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += askers[i].status == status;
    return found;
}

SERVICE_TEST(of_several_who_set_up_at_once_one_wins)
{
    const struct str body = {setup_body, sizeof setup_body - 1};
    struct asker askers[ASKERS_MAX];
    CHECK(offer_setup(service));
    CHECK(ask_together(service, "/api/auth/setup", body, askers, 4));
    CHECK(answered(askers, 4, 201) == 1 && answered(askers, 4, 409) == 3);
}

SERVICE_TEST(who_does_not_exist_costs_the_same_work_and_gets_the_same_answer)
{
    CHECK(set_up(service));
    struct password_gate *gate = &service->server->passwords;
    unsigned long before = atomic_load(&gate->n_worked);
    CHECK_STATUS(service, login(service, OWNER, "a wrong password"), 401);
    unsigned long known = atomic_load(&gate->n_worked) - before;
    const char *text = service_text(service, "error");
    before = atomic_load(&gate->n_worked);
    CHECK_STATUS(service, login(service, "nobody@example.test", "a wrong password"), 401);
    CHECK(known == 1 && atomic_load(&gate->n_worked) - before == known);
    CHECK_STR(service_text(service, "error"), text);
    CHECK_STR(service_text(service, "code"), "invalid_credentials");

    /* Without a password, too: the local owner has none. */
    before = atomic_load(&gate->n_worked);
    CHECK_STATUS(service, login(service, LOCAL_OWNER, "nobody's password"), 401);
    CHECK(atomic_load(&gate->n_worked) - before == known);
}

TEST(nobodys_hash_costs_as_much_as_everybodys)
{
    struct password_gate gate = {0};
    struct error err;
    char hash[PASSWORD_HASH_TEXT];
    CHECK(sodium_init() >= 0);
    CHECK(crypto_pwhash_str_needs_rehash(password_nobody, crypto_pwhash_OPSLIMIT_INTERACTIVE,
                                         crypto_pwhash_MEMLIMIT_INTERACTIVE) == 0);
    CHECK(password_hash(&gate, STR(PASSWORD), hash, &err));
    CHECK(strncmp(hash, "$argon2id$", 10) == 0);
    CHECK(password_fits(&gate, str_of(hash), STR(PASSWORD)));
    CHECK(!password_fits(&gate, str_of(hash), STR(PASSWORD "!")));
    CHECK(!password_fits(&gate, STR(""), STR("nobody's password")));
    CHECK(atomic_load(&gate.n_worked) == 4);
}

SERVICE_TEST(tries_are_limited_by_account_and_address_and_shut_out_nobody_else)
{
    CHECK(set_up(service));
    /* Ten a minute: a slow machine gets one more every six seconds. */
    int64_t begun = time_boot_ms(), fair = 10;
    unsigned long worked = 0;
    int status = 401, tries = -1;
    for (; status == 401 && tries < fair; tries++) {
        worked = atomic_load(&service->server->passwords.n_worked);
        status = login(service, "eve@example.test", "a wrong password");
        fair = 10 + (time_boot_ms() - begun) / 6000;
    }
    CHECK(tries >= 10);
    CHECK_STATUS(service, status, 429);
    CHECK_STR(service_text(service, "code"), "rate_limited");
    CHECK(atomic_load(&service->server->passwords.n_worked) == worked);
    CHECK_STATUS(service, login(service, OWNER, PASSWORD), 200);
}

TEST(a_bucket_holds_its_minute_and_fills_again)
{
    struct rate rate;
    int64_t wait = 0;
    int taken = 0;
    rate_init(&rate);
    while (rate_take(&rate, STR("a"), 100, 1000, &wait))
        taken++;
    bool other = rate_take(&rate, STR("b"), 100, 1000, &wait);
    bool early = rate_take(&rate, STR("a"), 100, 1000 + 599, &wait);
    bool later = rate_take(&rate, STR("a"), 100, 1000 + 600, &wait);
    bool again = rate_take(&rate, STR("a"), 100, 1000 + 600, &wait);
    rate_finish(&rate);
    CHECK(taken == 100 && wait == 600);
    CHECK(other && !early && later && !again);
}

TEST(a_flood_of_keys_does_not_grow_the_limits_for_ever)
{
    struct rate rate;
    int64_t wait = 0;
    rate_init(&rate);
    for (int i = 0; i < 70000; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        (void)rate_take(&rate, str_of(key), 10, i, &wait);
    }
    size_t count = rate.keys.count;
    rate_finish(&rate);
    CHECK(count > 0 && count <= 65536);
}

SERVICE_TEST(a_sign_in_ends_the_session_the_browser_came_with)
{
    CHECK(set_up(service));
    const char *before = token_of(service);
    const char *const fixed[] = {cookie_line(service, "hlmr_us_chosen-by-somebody-else"), NULL};
    const char *const old[] = {cookie_line(service, before), NULL};
    static const char body[] = "{\"email\":\"" OWNER "\",\"password\":\"" PASSWORD "\"}";
    CHECK_STATUS(service, ask_with(service, "/api/auth/login", body, fixed), 200);
    CHECK(strcmp(token_of(service), "hlmr_us_chosen-by-somebody-else") != 0);
    CHECK_STATUS(service,
                 service_ask(service, "hlmr_us_chosen-by-somebody-else", "GET", "/api/me", NULL),
                 401);
    CHECK_STATUS(service, service_ask(service, before, "GET", "/api/me", NULL), 200);
    CHECK_STATUS(service, ask_with(service, "/api/auth/login", body, old), 200);
    const char *after = token_of(service);
    CHECK_STATUS(service, service_ask(service, before, "GET", "/api/me", NULL), 401);
    CHECK_STATUS(service, service_ask(service, after, "GET", "/api/me", NULL), 200);
}

SERVICE_TEST(another_sites_page_can_neither_sign_in_nor_act)
{
    CHECK(set_up(service));
    const char *token = token_of(service);
    const char *const evil[] = {"Origin: https://evil.example", NULL};
    const char *const null[] = {cookie_line(service, token), "Origin: null", NULL};
    const char *const none[] = {cookie_line(service, token), NULL};
    static const char body[] = "{\"email\":\"" OWNER "\",\"password\":\"" PASSWORD "\"}";
    CHECK_STATUS(service, ask_with(service, "/api/auth/login", body, evil), 403);
    CHECK_STR(service_text(service, "code"), "origin_refused");
    CHECK_STATUS(service, ask_with(service, "/api/auth/setup", setup_body, evil), 403);
    CHECK_STATUS(service, ask_with(service, "/api/auth/logout", "{}", null), 403);
    CHECK_STATUS(service, ask_with(service, "/api/auth/logout", "{}", none), 403);
    CHECK_STATUS(service, ask_with(service, "/api/auth/password", "{}", none), 403);
    CHECK_STATUS(service, ask_with(service, "/api/me", NULL, none), 200);
}

SERVICE_TEST(a_sign_in_leads_nowhere_but_to_this_server)
{
    static const struct {
        const char *next, *want;
    } cases[] = {
        {"/runs/1?x=%2F#a",       "/runs/1?x=%2F#a"},
        {"https://evil.example/", "/"              },
        {"//evil.example/",       "/"              },
        {"/\\\\\\\\evil.example", "/"              },
        {"/\\tx",                 "/"              },
        {"javascript:alert(1)",   "/"              },
        {"/\\u00e9",              "/"              },
        {"",                      "/"              },
    };
    CHECK(set_up(service));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *body =
            arena_printf(&service->arena,
                         "{\"email\":\"" OWNER "\",\"password\":\"" PASSWORD "\",\"next\":\"%s\"}",
                         cases[i].next);
        CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/login", body), 200);
        CHECK_STR(service_text(service, "redirect_after"), cases[i].want);
    }
}

SERVICE_TEST(the_cookie_is_for_this_server_and_no_script)
{
    CHECK(set_up(service));
    CHECK(strncmp(service->set_cookie, SESSION_COOKIE "=hlmr_us_", 26) == 0);
    CHECK(strstr(service->set_cookie, "; Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000"));
    CHECK(!strstr(service->set_cookie, "Domain"));

    /* Behind https the name itself demands more of the browser. */
    const char *plain = service->server->public_url;
    const char *const crossed[] = {cookie_line(service, token_of(service)), NULL};
    service->server->public_url = "https://helmr.example";
    int status = login(service, OWNER, PASSWORD);
    bool is_hosted = strncmp(service->set_cookie, "__Host-helmr_session=hlmr_us_", 29) == 0;
    bool is_secure = strstr(service->set_cookie, "; Path=/;") &&
                     strstr(service->set_cookie, "; Secure") &&
                     strstr(service->set_cookie, "HttpOnly");
    int by_other_name = ask_with(service, "/api/me", NULL, crossed);
    service->server->public_url = plain;
    CHECK(status == 200 && is_hosted && is_secure);
    CHECK(by_other_name == 401);
}

/* As if the session had been opened and used so long ago. */
static bool age(struct service *service, const char *token, int64_t opened_ms, int64_t used_ms)
{
    static const struct query change = {
        .name = "test_age",
        .n_params = 3,
        .sqlite = "UPDATE user_sessions SET expires_ms = $2, used_ms = $3 WHERE token_hash = $1",
        .postgres = "UPDATE user_sessions SET expires_ms = $2, used_ms = $3 WHERE token_hash = $1",
    };
    struct error err;
    uint8_t hash[BLAKE2B_LEN];
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;
    keys_hash_token(&service->server->keys, str_of(token), hash);
    caller_cache_clear(&service->server->callers);
    return store_begin(service->server->store, &tx, &err) &&
           STORE(tx, &change, NULL, NULL, &err,
                 V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_INT(now - opened_ms + SESSION_TOTAL_MS), V_INT(now - used_ms)) &&
           store_commit(&tx, &err);
}

SERVICE_TEST(a_session_ends_unused_after_a_week_and_at_last_after_thirty_days)
{
    static const int64_t hour = INT64_C(3600000), day = 24 * hour;
    static const struct {
        int64_t opened, used;
        int status;
    } cases[] = {
        {6 * day,         6 * day,        200},
        {8 * day,         7 * day + hour, 401},
        {29 * day,        hour,           200},
        {30 * day + hour, hour,           401},
    };
    CHECK(set_up(service));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK_STATUS(service, login(service, OWNER, PASSWORD), 200);
        const char *token = token_of(service);
        CHECK(age(service, token, cases[i].opened, cases[i].used));
        CHECK_STATUS(service, service_ask(service, token, "GET", "/api/me", NULL), cases[i].status);
    }
}

SERVICE_TEST(a_new_password_ends_every_other_session_and_renews_this_ones_token)
{
    CHECK(set_up(service));
    const char *here = token_of(service);
    CHECK_STATUS(service, login(service, OWNER, PASSWORD), 200);
    const char *there = token_of(service);
    const char *origin = arena_printf(&service->arena, "Origin: %s", service->url);
    const char *const ours[] = {cookie_line(service, here), origin, NULL};
    CHECK_STATUS(service,
                 ask_with(service, "/api/auth/password",
                          "{\"current_password\":\"not this one\",\"new_password\":\"" PASSWORD
                          " 2\"}",
                          ours),
                 401);
    CHECK_STATUS(service,
                 ask_with(service, "/api/auth/password",
                          "{\"current_password\":\"" PASSWORD "\",\"new_password\":\"short\"}",
                          ours),
                 400);
    CHECK_STATUS(service,
                 ask_with(service, "/api/auth/password",
                          "{\"current_password\":\"" PASSWORD "\",\"new_password\":\"" PASSWORD
                          " 2\"}",
                          ours),
                 204);
    const char *renewed = token_of(service);
    CHECK(*renewed && strcmp(renewed, here) != 0);
    CHECK_STATUS(service, service_ask(service, here, "GET", "/api/me", NULL), 401);
    CHECK_STATUS(service, service_ask(service, there, "GET", "/api/me", NULL), 401);
    CHECK_STATUS(service, service_ask(service, renewed, "GET", "/api/me", NULL), 200);
    CHECK_STATUS(service, login(service, OWNER, PASSWORD), 401);
    CHECK_STATUS(service, login(service, OWNER, PASSWORD " 2"), 200);
}

SERVICE_TEST(odd_input_is_refused_with_its_field)
{
    static const struct {
        const char *field, *email, *password;
    } cases[] = {
        {"/email",    "ada",              PASSWORD     },
        {"/email",    "@example.test",    PASSWORD     },
        {"/email",    "a@b@c",            PASSWORD     },
        {"/email",    "a b@example.test", PASSWORD     },
        {"/password", OWNER,              "eleven char"},
    };
    CHECK(offer_setup(service));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *body = arena_printf(&service->arena,
                                        "{\"setup_token\":\"" SETUP_TOKEN
                                        "\",\"email\":\"%s\",\"password\":\"%s\"}",
                                        cases[i].email, cases[i].password);
        CHECK_STATUS(service, service_ask(service, NULL, "POST", "/api/auth/setup", body), 400);
        CHECK(strstr(service_text(service, "error"), cases[i].field));
    }
}

SERVICE_TEST(logging_out_ends_the_session_and_takes_the_cookie)
{
    CHECK(set_up(service));
    const char *token = token_of(service);
    CHECK_STATUS(service, service_ask(service, token, "POST", "/api/auth/logout", NULL), 204);
    CHECK(strstr(service->set_cookie, "Max-Age=0"));
    CHECK_STATUS(service, service_ask(service, token, "GET", "/api/me", NULL), 401);
}

SERVICE_TEST(a_crowd_that_signs_in_gets_in_place_by_place)
{
    const struct str body = STR("{\"email\":\"" OWNER "\",\"password\":\"" PASSWORD "\"}");
    struct asker askers[ASKERS_MAX];
    CHECK(set_up(service));
    CHECK(ask_together(service, "/api/auth/login", body, askers, 9));
    CHECK(answered(askers, 9, 200) == 9);
    CHECK(atomic_load(&service->server->passwords.inside) == 0);
}

TEST_MAIN()
