#include "image/challenge.h"

#include "base/test.h"

static struct challenge challenge;

static bool read(const char *line)
{
    challenge = (struct challenge){0};
    return challenge_read(str_of(line), &challenge);
}

TEST(a_token_service_is_read_with_its_name)
{
    CHECK(read("Bearer realm=\"https://auth.example/token\",service=\"registry.example\","
               "scope=\"repository:a/b:pull\""));
    CHECK(challenge.scheme == CHALLENGE_BEARER);
    CHECK_STR(challenge.realm, "https://auth.example/token");
    CHECK_STR(challenge.service, "registry.example");
}

TEST(white_space_case_and_escapes_make_no_difference)
{
    CHECK(read("  bEARER   Realm = \"https://a/\\\"x\\\"\" , SERVICE=plain"));
    CHECK(challenge.scheme == CHALLENGE_BEARER);
    CHECK_STR(challenge.realm, "https://a/\"x\"");
    CHECK_STR(challenge.service, "plain");
    CHECK(read("Bearer service=plain"));
    CHECK_STR(challenge.service, "plain");
}

TEST(the_strongest_of_several_counts)
{
    static const char *const lines[] = {
        "Basic realm=\"r\", Bearer realm=\"https://t\"",
        "Bearer realm=\"https://t\", Basic realm=\"r\"",
        "Negotiate abc==, Bearer realm=\"https://t\"",
        "Negotiate, Basic, Bearer realm=\"https://t\"",
        "Digest qop=\"auth, Basic\", Bearer realm=\"https://t\", Bearer realm=\"https://u\"",
    };

    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        CHECK(read(lines[i]));
        CHECK(challenge.scheme == CHALLENGE_BEARER);
        CHECK_STR(challenge.realm, "https://t");
    }
}

TEST(lines_add_up)
{
    CHECK(read("Basic realm=\"r\""));
    CHECK(challenge.scheme == CHALLENGE_BASIC);
    CHECK(challenge_read(STR("Bearer realm=\"https://t\""), &challenge));
    CHECK(challenge_read(STR("Basic realm=\"other\""), &challenge));
    CHECK(challenge.scheme == CHALLENGE_BEARER);
    CHECK_STR(challenge.realm, "https://t");
}

TEST(a_scheme_that_is_not_spoken_asks_for_nothing)
{
    CHECK(read("Digest realm=\"r\", nonce=\"n\""));
    CHECK(challenge.scheme == CHALLENGE_NONE);
    CHECK(read(""));
    CHECK(challenge.scheme == CHALLENGE_NONE);
}

TEST(malformed_lines_are_refused_and_change_nothing)
{
    static const char *const lines[] = {
        "Bearer realm=\"https://t",
        "Bearer a=b, realm=",
        "Bearer realm=\"a\"b",
        "\"quoted\"",
        "Bearer realm=\"a\\",
        "Bearer realm=\"a\nb\"",
        "=x",
        "Bearer realm=\"a\" service=\"b\"",
        "Bearer;realm=\"https://t\"",
    };

    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        CHECK(read("Basic realm=\"kept\""));
        CHECK(!challenge_read(str_of(lines[i]), &challenge));
        CHECK(challenge.scheme == CHALLENGE_BASIC);
        CHECK_STR(challenge.realm, "kept");
    }
}

TEST(values_are_bounded)
{
    char line[4096] = "Bearer service=\"";
    size_t start = strlen(line);

    memset(line + start, 'x', 255);
    memcpy(line + start + 255, "\"", 2);
    CHECK(read(line));
    memset(line + start, 'x', 256);
    memcpy(line + start + 256, "\"", 2);
    CHECK(!read(line));
    memset(line + start, 'x', 2000);
    memcpy(line + start + 2000, "\"", 2);
    CHECK(!read(line));
}

TEST_MAIN()
