/* Where a base comes from: the local store, a registry, and in which order. */
#include "image/config.h"
#include "image/registry_faults.h"
#include "image/registry_testing.h"

struct search_test {
    struct registry_test test;
    struct fault_server server;
    struct arena arena;
    struct image_search search;
    char name[128]; /* of the image there */
    char digest[DIGEST_TEXT];
    bool cached;
};

static bool serve(struct search_test *search, const char *digest)
{
    struct registry_test *test = &search->test;
    struct image image;

    if (!image_find(test->here, digest, &search->arena, &image, &test->err) ||
        !store_read_blob(test->here, digest, MIB(4), &search->arena, &search->server.manifest,
                         &test->err))
        return false;
    search->server.store = test->here;
    memcpy(search->server.layer, image.layers[0].digest, DIGEST_TEXT);
    return true;
}

static bool search_init(struct search_test *search)
{
    struct registry_test *test = &search->test;

    if (!registry_test_init(test) || !serve(search, test->digest) ||
        !fault_server_start(&search->server, "127.0.0.1"))
        return false;
    (void)snprintf(search->name, sizeof search->name, "%s/thing:1", search->server.address);
    /* Silence is what some of these are about: a second of it is enough to be sure. */
    test->registries->pace.stall_ms = 1000;
    search->search = (struct image_search){
        .registries = test->registries,
        .progress = registry_test_line,
        .arg = test,
    };
    return true;
}

static void search_finish(struct search_test *search)
{
    fault_server_stop(&search->server);
    arena_finish(&search->arena);
    registry_test_finish(&search->test);
}

#define SEARCH(name)                                   \
    AUTO(search_finish) struct search_test name = {0}; \
    if (!search_init(&(name)))                         \
    abort()

static bool obtain(struct search_test *search)
{
    return image_obtain(search->test.there, &search->search, search->name, search->digest,
                        &search->cached, &search->test.err);
}

TEST(what_is_in_the_store_is_not_asked_for)
{
    SEARCH(s);

    CHECK(obtain(&s) && !s.cached && s.server.layers == 1);
    CHECK_STR(s.digest, s.test.digest);
    s.server.requests = 0;
    CHECK(obtain(&s) && s.cached && s.server.requests == 0);
    CHECK_STR(s.digest, s.test.digest);
}

TEST(an_image_that_lost_a_layer_is_brought_again)
{
    SEARCH(s);
    char script[256];

    CHECK(obtain(&s));
    (void)snprintf(script, sizeof script, "rm there/oci/blobs/sha256/%s",
                   digest_hex(s.server.layer));
    CHECK(testing_sh(&s.test.testing, script));
    CHECK(obtain(&s) && !s.cached && s.server.layers == 2);
}

TEST(a_registry_asked_first_may_mean_another_image_now)
{
    SEARCH(s);
    char newer[DIGEST_TEXT];

    CHECK(obtain(&s));
    CHECK(testing_sh(&s.test.testing, "echo newer >tree/etc/motd"));
    CHECK(image_import_directory(s.test.here, "local.test/thing:2",
                                 testing_path(&s.test.testing, "tree"), NULL, newer, &s.test.err));
    CHECK(serve(&s, newer));
    CHECK(obtain(&s) && s.cached && strcmp(s.digest, s.test.digest) == 0);
    s.search.is_registry_first = true;
    CHECK(obtain(&s) && !s.cached);
    CHECK_STR(s.digest, newer);
}

TEST(a_stored_image_stands_in_only_where_no_registry_answers)
{
    SEARCH(s);

    CHECK(obtain(&s));
    s.search.is_registry_first = true;
    s.server.fault = FAULT_MUTE;
    CHECK(obtain(&s) && s.cached);
    CHECK(strstr(s.test.lines, "of the local store is used"));
    CHECK_STR(s.digest, s.test.digest);

    s.server.fault = FAULT_NONE;
    s.server.challenge = "Basic realm=\"thing\"";
    s.server.wanted = "Basic nobody";
    CHECK(!obtain(&s) && s.test.err.code == ERR_UNAUTHENTICATED);
}

TEST(a_base_that_cannot_be_made_says_why_it_is_missing)
{
    SEARCH(s);

    s.server.fault = FAULT_MUTE;
    CHECK(!obtain(&s) && s.test.err.code == ERR_UNAVAILABLE);
    s.search.registries = NULL;
    CHECK(!obtain(&s) && s.test.err.code == ERR_UNAVAILABLE);
    CHECK(strstr(s.test.err.text, "helmr image bootstrap"));
}

TEST_MAIN()
