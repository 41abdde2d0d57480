/* Who is told what: challenges answered, and credentials that stay where they belong. */
#include "image/registry_faults.h"
#include "image/registry_testing.h"

struct guarded {
    struct registry_test test;
    struct fault_server server, other;
    struct arena arena;
    char name[128], challenge[256];
    char digest[DIGEST_TEXT];
};

static bool guarded_init(struct guarded *guarded)
{
    struct registry_test *test = &guarded->test;
    struct image image;

    if (!registry_test_init(test) ||
        !image_find(test->here, test->digest, &guarded->arena, &image, &test->err) ||
        !store_read_blob(test->here, test->digest, MIB(4), &guarded->arena,
                         &guarded->server.manifest, &test->err))
        return false;
    guarded->server.store = guarded->other.store = test->here;
    memcpy(guarded->server.layer, image.layers[0].digest, DIGEST_TEXT);
    memcpy(guarded->other.layer, image.layers[0].digest, DIGEST_TEXT);
    if (!fault_server_start(&guarded->server, "127.0.0.1") ||
        !fault_server_start(&guarded->other, "127.0.0.2"))
        return false;
    guarded->server.other = guarded->other.address;
    (void)snprintf(guarded->name, sizeof guarded->name, "%s/a/thing:1", guarded->server.address);
    return true;
}

static void guarded_finish(struct guarded *guarded)
{
    fault_server_stop(&guarded->server);
    fault_server_stop(&guarded->other);
    arena_finish(&guarded->arena);
    registry_test_finish(&guarded->test);
}

#define GUARDED(name)                               \
    AUTO(guarded_finish) struct guarded name = {0}; \
    if (!guarded_init(&(name)))                     \
    abort()

/* "me:sesame", for the registry's own host. */
static bool give_credentials(struct guarded *guarded, const char *entry)
{
    const char *path = testing_path(&guarded->test.testing, "auth.json");
    char text[512];

    (void)snprintf(text, sizeof text, "{\"auths\":{\"%s\":%s}}", guarded->server.address, entry);
    return testing_file(path, text) &&
           registry_test_settings(&guarded->test, &(struct registry_settings){.auth_file = path});
}

#define ENTRY "{\"auth\":\"bWU6c2VzYW1l\"}"
#define BASIC "Basic bWU6c2VzYW1l"

static bool pull(struct guarded *guarded)
{
    struct registry_test *test = &guarded->test;

    if (image_pull(test->there, &test->transfer, guarded->name, guarded->digest, &test->err))
        return true;
    printf("# %s\n", test->err.text);
    return false;
}

/* The token service at a server, as its challenge names it. */
static void ask_for_token(struct guarded *guarded, const char *realm)
{
    (void)snprintf(guarded->challenge, sizeof guarded->challenge,
                   "Bearer realm=\"%s\",service=\"test\",scope=\"repository:b/other:push\"", realm);
    guarded->server.challenge = guarded->challenge;
    guarded->server.wanted = "Bearer ticket";
}

TEST(a_user_and_a_password_are_sent_when_asked_for)
{
    GUARDED(guarded);

    guarded.server.challenge = "Basic realm=\"test\"";
    guarded.server.wanted = BASIC;
    CHECK(give_credentials(&guarded, ENTRY));
    CHECK(pull(&guarded));
    CHECK(guarded.server.authorized < guarded.server.requests);
}

TEST(nothing_is_sent_to_a_registry_that_does_not_ask)
{
    GUARDED(guarded);

    CHECK(give_credentials(&guarded, ENTRY));
    CHECK(pull(&guarded));
    CHECK(guarded.server.authorized == 0);
}

TEST(credentials_do_not_follow_a_redirect_to_another_host)
{
    GUARDED(guarded);

    guarded.server.challenge = "Basic realm=\"test\"";
    guarded.server.wanted = BASIC;
    guarded.server.fault = FAULT_REDIRECT;
    CHECK(give_credentials(&guarded, ENTRY));
    CHECK(pull(&guarded));
    CHECK(guarded.other.layers == 1);
    CHECK(guarded.other.authorized == 0);
}

TEST(a_token_is_fetched_once_and_used_for_all)
{
    GUARDED(guarded);
    char realm[64];

    (void)snprintf(realm, sizeof realm, "http://%s/token", guarded.server.address);
    ask_for_token(&guarded, realm);
    guarded.server.token = "{\"token\":\"ticket\",\"expires_in\":300}";
    CHECK(pull(&guarded));
    CHECK(guarded.server.tokens == 1);
    /* Only what is needed is asked for, whatever the registry would like. */
    CHECK_STR(guarded.server.last_token_query,
              "/token?service=test&scope=repository%3Aa%2Fthing%3Apull");
}

TEST(a_token_service_of_the_same_host_gets_the_password)
{
    GUARDED(guarded);
    char realm[64];

    (void)snprintf(realm, sizeof realm, "http://%s/token", guarded.server.address);
    ask_for_token(&guarded, realm);
    guarded.server.token = "{\"access_token\":\"ticket\"}";
    guarded.server.token_wanted = BASIC;
    CHECK(give_credentials(&guarded, ENTRY));
    CHECK(pull(&guarded));
}

TEST(a_token_service_elsewhere_gets_no_password)
{
    GUARDED(guarded);
    char realm[64];

    (void)snprintf(realm, sizeof realm, "http://%s/token", guarded.other.address);
    ask_for_token(&guarded, realm);
    guarded.other.token = "{\"token\":\"ticket\"}";
    CHECK(give_credentials(&guarded, ENTRY));
    CHECK(pull(&guarded));
    CHECK(guarded.other.tokens == 1);
    CHECK(guarded.other.authorized == 0);
}

TEST(an_identity_token_is_traded_for_a_ticket)
{
    GUARDED(guarded);
    char realm[64];

    (void)snprintf(realm, sizeof realm, "http://%s/token", guarded.server.address);
    ask_for_token(&guarded, realm);
    guarded.server.token = "{\"access_token\":\"ticket\"}";
    CHECK(give_credentials(&guarded, "{\"identitytoken\":\"open sesame\"}"));
    CHECK(pull(&guarded));
    CHECK_STR(guarded.server.last_token_query, "/token");
}

TEST(a_token_service_in_clear_text_is_refused)
{
    GUARDED(guarded);
    struct registry_test *test = &guarded.test;

    ask_for_token(&guarded, "http://tokens.example/token");
    CHECK(give_credentials(&guarded, ENTRY));
    CHECK(!image_pull(test->there, &test->transfer, guarded.name, guarded.digest, &test->err));
    CHECK(test->err.code == ERR_UNAUTHENTICATED);
    CHECK(strstr(test->err.text, "neither https nor http to this machine"));
}

TEST(credentials_are_in_no_error)
{
    GUARDED(guarded);
    struct registry_test *test = &guarded.test;

    guarded.server.challenge = "Basic realm=\"test\"";
    CHECK(give_credentials(&guarded, ENTRY));
    CHECK(!image_pull(test->there, &test->transfer, guarded.name, guarded.digest, &test->err));
    CHECK(test->err.code == ERR_UNAUTHENTICATED);
    CHECK(!strstr(test->err.text, "sesame"));
    CHECK(!strstr(test->err.text, "bWU6c2VzYW1l"));
}

TEST(a_helper_is_named_instead_of_run)
{
    GUARDED(guarded);
    struct registry_test *test = &guarded.test;
    const char *path = testing_path(&test->testing, "auth.json");

    guarded.server.challenge = "Basic realm=\"test\"";
    CHECK(testing_file(path, "{\"credsStore\":\"pass\"}"));
    CHECK(registry_test_settings(test, &(struct registry_settings){.auth_file = path}));
    CHECK(!image_pull(test->there, &test->transfer, guarded.name, guarded.digest, &test->err));
    CHECK(test->err.code == ERR_UNAUTHENTICATED);
    CHECK(strstr(test->err.text, "docker-credential-pass, and helpers are not run"));
}

TEST(hosts_of_one_domain_are_related_and_others_not)
{
    static const struct {
        const char *one, *other;
        bool are_related;
    } rows[] = {
        {"registry-1.docker.io",   "auth.docker.io",  true },
        {"registry.gitlab.com",    "gitlab.com",      true },
        {"ghcr.io",                "ghcr.io",         true },
        {"a.example.co.uk",        "b.example.co.uk", true },
        {"a.co.uk",                "b.co.uk",         false},
        {"docker.io.evil.example", "docker.io",       false},
        {"evildocker.io",          "docker.io",       false},
        {"one.github.io",          "two.github.io",   false},
        {"127.0.0.1",              "127.0.0.2",       false},
        {"10.0.0.1",               "10.9.0.1",        false},
        {"localhost",              "other",           false},
        {"com",                    "com.com",         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(registry_hosts_are_related(rows[i].one, rows[i].other) == rows[i].are_related);
        CHECK(registry_hosts_are_related(rows[i].other, rows[i].one) == rows[i].are_related);
    }
}

TEST(settings_that_cannot_be_used_are_named)
{
    static const struct {
        struct registry_settings settings;
        const char *text;
    } rows[] = {
        {{.mirrors = "docker.io"},                       "HELMR_REGISTRY_MIRRORS"  },
        {{.mirrors = "docker.io=http://mirror.example"}, "HELMR_REGISTRY_MIRRORS"  },
        {{.mirrors = "docker.io=https://u:p@mirror"},    "HELMR_REGISTRY_MIRRORS"  },
        {{.mirrors = "hub=https://mirror.example"},      "HELMR_REGISTRY_MIRRORS"  },
        {{.ca_file = "/nonexistent"},                    "HELMR_REGISTRY_CA_FILE"  },
        {{.ca_file = "/etc/passwd"},                     "HELMR_REGISTRY_CA_FILE"  },
        {{.auth_file = "/nonexistent"},                  "HELMR_REGISTRY_AUTH_FILE"},
        {{.auth_file = "/etc/passwd"},                   "HELMR_REGISTRY_AUTH_FILE"},
    };
    struct registries *registries = NULL;
    struct error err;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CHECK(!registries_open(&rows[i].settings, &registries, &err));
        CHECK(err.code == ERR_INVALID);
        CHECK(strstr(err.text, rows[i].text));
    }
    CHECK(registries_open(&(struct registry_settings){.mirrors = " docker.io=https://a/x , "},
                          &registries, &err));
    registries_close(registries);
}

TEST_MAIN()
