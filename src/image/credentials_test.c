#include "image/credentials.h"

#include "base/test.h"

static struct credential credential;
static struct error err;

static bool find(const char *text, const char *host, const char *repository)
{
    credential_finish(&credential);
    credential = (struct credential){0};
    return credentials_read(str_of(text), str_of(host), str_of(repository), &credential, &err);
}

static const char *basic(void)
{
    static char text[256];
    struct str value =
        secret_is_set(&credential.basic) ? secret_reveal(&credential.basic) : STR("(none)");

    (void)snprintf(text, sizeof text, "%.*s", (int)value.len, value.ptr);
    return text;
}

TEST(a_key_is_found_in_each_form_docker_has_written)
{
    static const struct {
        const char *key, *host;
    } rows[] = {
        {"registry.example",             "registry.example"     },
        {"https://registry.example",     "registry.example"     },
        {"https://registry.example/v1/", "registry.example"     },
        {"http://registry.example/v2",   "registry.example"     },
        {"Registry.Example",             "registry.example"     },
        {"registry.example:5000",        "registry.example:5000"},
        {"https://index.docker.io/v1/",  "docker.io"            },
        {"docker.io",                    "docker.io"            },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[256];
        (void)snprintf(text, sizeof text, "{\"auths\":{\"%s\":{\"auth\":\"bWU6cGFzczp3b3Jk\"}}}",
                       rows[i].key);
        CHECK(find(text, rows[i].host, "a/b"));
        CHECK_STR(basic(), "me:pass:word");
        CHECK(find(text, "other.example", "a/b"));
        CHECK_STR(basic(), "(none)");
    }
}

TEST(the_longest_repository_wins)
{
    const char *text = "{\"auths\":{\"h.example/a\":{\"username\":\"one\",\"password\":\"1\"},"
                       "\"h.example\":{\"username\":\"all\",\"password\":\"0\"},"
                       "\"h.example/a/b\":{\"username\":\"two\",\"password\":\"2\"}}}";

    CHECK(find(text, "h.example", "a/b/c"));
    CHECK_STR(basic(), "two:2");
    CHECK(find(text, "h.example", "a/x"));
    CHECK_STR(basic(), "one:1");
    CHECK(find(text, "h.example", "ab"));
    CHECK_STR(basic(), "all:0");
}

TEST(an_identity_token_is_used_instead_of_a_password)
{
    CHECK(find("{\"auths\":{\"h\":{\"auth\":\"PHRva2VuPjo=\",\"identitytoken\":\"t0k\"}}}", "h",
               "a"));
    CHECK_STR(basic(), "(none)");
    CHECK(secret_equals(&credential.identity, STR("t0k")));
}

TEST(a_helper_is_named_when_nothing_else_is_there)
{
    const char *text = "{\"credsStore\":\"pass\",\"credHelpers\":{\"h.example\":\"ecr-login\"},"
                       "\"auths\":{\"k.example\":{\"auth\":\"YTpi\"},\"l.example\":{}}}";

    CHECK(find(text, "h.example", "a"));
    CHECK_STR(credential.helper, "docker-credential-ecr-login");
    CHECK(find(text, "l.example", "a"));
    CHECK_STR(credential.helper, "docker-credential-pass");
    CHECK(find(text, "k.example", "a"));
    CHECK_STR(credential.helper, "");
    CHECK_STR(basic(), "a:b");
}

TEST(a_malformed_file_is_refused_without_its_text)
{
    static const char *const texts[] = {
        "sesame",
        "[]",
        "{\"auths\":[\"sesame\"]}",
        "{\"auths\":{\"h\":\"sesame\"}}",
        "{\"auths\":{\"h\":{\"auth\":\"sesame!!\"}}}",
        "{\"auths\":{\"h\":{\"auth\":\"c2VzYW1l\"}}}",
        "{\"auths\":{\"h\":{\"auth\":7}}}",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        CHECK(!find(texts[i], "h", "a"));
        CHECK(err.code == ERR_INVALID);
        CHECK(!strstr(err.text, "sesame"));
        CHECK(!strstr(err.text, "c2VzYW1l"));
    }
}

TEST(an_entry_of_another_host_is_not_looked_at)
{
    CHECK(find("{\"auths\":{\"h\":{\"auth\":\"broken\"},\"k\":{\"auth\":\"YTpi\"}}}", "k", "a"));
    CHECK_STR(basic(), "a:b");
}

TEST(a_missing_file_is_an_error_that_names_it)
{
    CHECK(!credentials_find("/nonexistent/config.json", "h", "a", &credential, &err));
    CHECK(strstr(err.text, "/nonexistent/config.json"));
}

TEST_MAIN()
