#include "server/config.h"

#include <stdlib.h>

#include "base/test.h"

static struct arena arena;
static struct server_config config;
static struct error err;

static bool load(const struct server_flags *flags)
{
    server_config_finish(&config);
    return server_config_load(flags, &arena, &config, &err);
}

static void clear(void)
{
    static const char *const names[] = {
        "HELMR_DATA_DIR",    "HELMR_DATABASE_URL",   "HELMR_CONTROL_ADDR", "HELMR_LEASE_TTL",
        "HELMR_CAS_URI",     "HELMR_LOG_LEVEL",      "HELMR_DEV_LOGIN",    "HELMR_PUBLIC_URL",
        "HELMR_PLAIN_HTTP",  "HELMR_TLS_CERT_FILE",  "HELMR_TLS_KEY_FILE", "HELMR_TRUSTED_PROXIES",
        "HELMR_OIDC_ISSUER", "HELMR_OIDC_CLIENT_ID", "HELMR_SETUP_TOKEN",  "HELMR_SCHEDULE_JITTER",
        "HELMR_PREVIEW_URL", "HELMR_PREVIEW_ADDR"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unsetenv(names[i]);
    setenv("HELMR_LOG_LEVEL", "error", 1);
}

TEST(a_data_directory_is_all_that_is_needed)
{
    clear();
    const struct server_flags flags = {.data_dir = "/nonexistent/data"};
    CHECK(load(&flags));
    CHECK_STR(config.database_url, "sqlite:/nonexistent/data/helmr.db");
    CHECK_STR(config.store_dir, "/nonexistent/data/store");
    CHECK_STR(config.address, "127.0.0.1:8080");
    CHECK(config.lease_ttl_ms == 60000 && config.max_dispatches == 10 && config.dev_login);
    CHECK(config.schedule_jitter_ms == 30000);
    const struct server_flags none = {0};
    CHECK(!load(&none));
}

TEST(a_flag_beats_a_variable_and_a_variable_the_default)
{
    clear();
    setenv("HELMR_CONTROL_ADDR", "127.0.0.1:9000", 1);
    setenv("HELMR_LEASE_TTL", "90s", 1);
    setenv("HELMR_SCHEDULE_JITTER", "0", 1);
    const struct server_flags quiet = {.data_dir = "/nonexistent/data"};
    CHECK(load(&quiet));
    CHECK_STR(config.address, "127.0.0.1:9000");
    CHECK(config.lease_ttl_ms == 90000 && config.schedule_jitter_ms == 0);
    const struct server_flags loud = {.data_dir = "/nonexistent/data", .address = "127.0.0.1:9001"};
    CHECK(load(&loud));
    CHECK_STR(config.address, "127.0.0.1:9001");
}

TEST(an_invalid_value_names_its_variable)
{
    static const struct {
        const char *name, *value;
    } cases[] = {
        {"HELMR_LEASE_TTL",       "soon"              },
        {"HELMR_CAS_URI",         "s3://bucket"       },
        {"HELMR_SCHEDULE_JITTER", "a bit"             },
        {"HELMR_LOG_LEVEL",       "loud"              },
        {"HELMR_DEV_LOGIN",       "on"                },
        {"HELMR_CONTROL_ADDR",    "0.0.0.0:80"        },
        {"HELMR_PUBLIC_URL",      "http://example.com"},
        {"HELMR_PUBLIC_URL",      "helmr.example.com" },
        {"HELMR_PLAIN_HTTP",      "maybe"             },
        {"HELMR_TLS_CERT_FILE",   "/some/cert.pem"    },
        {"HELMR_TLS_KEY_FILE",    "/some/key.pem"     },
        {"HELMR_TRUSTED_PROXIES", "the proxy"         },
        {"HELMR_TRUSTED_PROXIES", "10.0.0.0/33"       },
    };
    const struct server_flags flags = {.data_dir = "/nonexistent/data"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        clear();
        setenv(cases[i].name, cases[i].value, 1);
        CHECK(!load(&flags));
        CHECK(strstr(err.text, cases[i].name));
    }
}

TEST(an_open_listener_needs_tls_or_a_word)
{
    static const struct {
        const char *name, *value, *other, *other_value;
    } ways[] = {
        {"HELMR_PLAIN_HTTP", "1"},
        {"HELMR_TRUSTED_PROXIES", "10.0.0.0/8,::1"},
        {"HELMR_TLS_CERT_FILE", "/some/cert.pem", "HELMR_TLS_KEY_FILE", "/some/key.pem"},
    };
    const struct server_flags flags = {.data_dir = "/nonexistent/data", .address = "0.0.0.0:80"};
    clear();
    CHECK(!load(&flags));
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        clear();
        setenv(ways[i].name, ways[i].value, 1);
        if (ways[i].other)
            setenv(ways[i].other, ways[i].other_value, 1);
        CHECK(load(&flags));
    }
    CHECK_STR(config.tls_certificate, "/some/cert.pem");
}

TEST(a_public_url_is_https_where_the_server_is)
{
    const struct server_flags flags = {.data_dir = "/nonexistent/data"};
    clear();
    setenv("HELMR_PUBLIC_URL", "https://helmr.example.com/", 1);
    CHECK(load(&flags));
    CHECK_STR(config.public_url, "https://helmr.example.com");
    setenv("HELMR_TLS_CERT_FILE", "/some/cert.pem", 1);
    setenv("HELMR_TLS_KEY_FILE", "/some/key.pem", 1);
    CHECK(load(&flags));
    setenv("HELMR_PUBLIC_URL", "http://127.0.0.1:8080", 1);
    CHECK(!load(&flags) && strstr(err.text, "HELMR_PUBLIC_URL"));
    clear();
    server_config_finish(&config);
    arena_finish(&arena);
}

TEST(previews_have_an_origin_and_a_listener_of_their_own)
{
    static const struct {
        const char *public_url, *url, *address, *wrong;
    } cases[] = {
        {NULL,                "http://localhost:9",    "127.0.0.1:9", NULL                },
        {"https://a.example", "https://b.example/",    "127.0.0.1:9", NULL                },
        {"https://a.example", "https://a.example:444", "127.0.0.1:9", NULL                },
        {NULL,                "http://localhost:9",    NULL,          "HELMR_PREVIEW_ADDR"},
        {NULL,                NULL,                    "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {"https://a.example", "https://A.example:443", "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {NULL,                "http://127.0.0.1:8080", "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {NULL,                "https://b.example/x",   "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {NULL,                "https://u@b.example",   "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {NULL,                "https://",              "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {NULL,                "http://b.example",      "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {NULL,                "b.example",             "127.0.0.1:9", "HELMR_PREVIEW_URL" },
        {NULL,                "https://b.example",     "0.0.0.0:9",   "HELMR_PREVIEW_ADDR"},
    };
    const struct server_flags flags = {.data_dir = "/nonexistent/data"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        clear();
        if (cases[i].public_url)
            setenv("HELMR_PUBLIC_URL", cases[i].public_url, 1);
        if (cases[i].url)
            setenv("HELMR_PREVIEW_URL", cases[i].url, 1);
        if (cases[i].address)
            setenv("HELMR_PREVIEW_ADDR", cases[i].address, 1);
        CHECK(load(&flags) == !cases[i].wrong);
        CHECK(!cases[i].wrong || strstr(err.text, cases[i].wrong));
    }
    clear();
    CHECK(load(&flags) && !config.preview_url);
}

TEST(a_provider_is_https_and_whole_and_a_setup_token_is_long)
{
    static const struct {
        const char *issuer, *client, *token;
        bool is_fine;
    } cases[] = {
        {"https://id.example/realm", "helmr", NULL,               true },
        {"http://127.0.0.1:9",       "helmr", NULL,               true },
        {"http://id.example",        "helmr", NULL,               false},
        {"https://id.example?x",     "helmr", NULL,               false},
        {"https://id.example",       NULL,    NULL,               false},
        {NULL,                       "helmr", NULL,               false},
        {NULL,                       NULL,    "sixteen bytes it", true },
        {NULL,                       NULL,    "fifteen bytes!!",  false},
    };
    const struct server_flags flags = {.data_dir = "/nonexistent/data"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        clear();
        if (cases[i].issuer)
            setenv("HELMR_OIDC_ISSUER", cases[i].issuer, 1);
        if (cases[i].client)
            setenv("HELMR_OIDC_CLIENT_ID", cases[i].client, 1);
        if (cases[i].token)
            setenv("HELMR_SETUP_TOKEN", cases[i].token, 1);
        CHECK(load(&flags) == cases[i].is_fine);
        CHECK(cases[i].is_fine || strstr(err.text, "HELMR_"));
    }
    clear();
}

TEST_MAIN()
