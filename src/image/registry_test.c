/* Against Debian's docker-registry on loopback. */
#include "image/registry.h"

#include "base/time.h"
#include "image/config.h"
#include "image/registry_testing.h"

#define INDEX_TYPE "application/vnd.oci.image.index.v1+json"

struct server {
    struct process process;
    int port;
    char name[64]; /* 127.0.0.1:port */
};

static void server_finish(struct server *server)
{
    process_finish(&server->process);
}

static bool has_program(const char *name)
{
    const char *argv[] = {"sh", "-c", "command -v \"$0\"", name, NULL};
    struct process_spec spec = {.argv = argv};
    struct error err;
    int status = -1;

    return process_run(&spec, (struct str){0}, 10000, NULL, NULL, &status, &err) && status == 0;
}

static bool accepts(int port)
{
    AUTO_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };

    return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
}

/* `more` is YAML: below http: with two spaces, then whatever else. */
static bool server_start(struct server *server, const struct testing *testing, const char *more)
{
    const char *path = testing_path(testing, "registry.yml");
    const char *argv[] = {"docker-registry", "serve", path, NULL};
    struct process_spec spec = {.argv = argv, .die_with_parent = true};
    struct error err;
    char text[4096];

    server->port = registry_test_port();
    (void)snprintf(server->name, sizeof server->name, "127.0.0.1:%d", server->port);
    (void)snprintf(text, sizeof text,
                   "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n"
                   "    rootdirectory: %s/registry\nhttp:\n  addr: %s\n%s",
                   testing->path, server->name, more);
    if (!testing_file(path, text) || !process_start(&spec, &server->process, &err))
        return false;
    for (int64_t end = time_boot_ms() + 10000; time_boot_ms() < end; (void)usleep(20000))
        if (accepts(server->port))
            return true;
    return false;
}

static const char *named(const struct server *server, const char *rest)
{
    static char names[4][256];
    static size_t next;
    char *name = names[next++ % COUNT_OF(names)];

    (void)snprintf(name, sizeof names[0], "%s/%s", server->name, rest);
    return name;
}

static bool moves(struct registry_test *test, const char *name)
{
    char digest[DIGEST_TEXT] = "";

    return image_push(test->here, &test->transfer, "local.test/thing:1", name, digest,
                      &test->err) &&
           strcmp(digest, test->digest) == 0 &&
           image_pull(test->there, &test->transfer, name, digest, &test->err) &&
           strcmp(digest, test->digest) == 0;
}

/* The same tree comes out of the image as went in. */
static bool is_same_tree(struct registry_test *test, const char *name)
{
    AUTO(arena_finish) struct arena arena = {0};
    char before[DIGEST_TEXT] = "", after[DIGEST_TEXT] = "";
    const char *const *folders;
    struct image image;

    return image_find(test->there, name, &arena, &image, &test->err) &&
           image_unpack(test->there, &image, &arena, &folders, &test->err) &&
           testing_hash(testing_path(&test->testing, "tree"), LAYER_OF_PROJECT, before,
                        &test->err) &&
           testing_hash(folders[0], LAYER_OF_PROJECT, after, &test->err) &&
           strcmp(before, after) == 0;
}

#define NEEDS(program)         \
    if (!has_program(program)) \
    SKIP(program " is not installed")

#define CHECK_OK(condition)                  \
    do {                                     \
        bool ok_ = (condition);              \
        if (!ok_)                            \
            printf("# %s\n", test.err.text); \
        CHECK(ok_);                          \
    } while (0)

TEST(what_is_pushed_can_be_pulled)
{
    NEEDS("docker-registry");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};
    char digest[DIGEST_TEXT] = "";
    size_t references = 0;

    CHECK(server_start(&server, &test.testing, ""));
    CHECK_OK(moves(&test, named(&server, "some/thing:1.0")));
    CHECK(strstr(test.lines, "some/thing:1.0: 1 of 1 layers, "));
    CHECK_OK(is_same_tree(&test, named(&server, "some/thing:1.0")));
    CHECK(registry_test_store_is_sound(test.there, &references));
    CHECK(references == 1);
    CHECK_OK(image_resolve(test.there, &test.transfer, named(&server, "some/thing:1.0"), digest,
                           &test.err));
    CHECK_STR(digest, test.digest);
}

TEST(uploads_go_where_the_registry_says)
{
    NEEDS("docker-registry");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};

    CHECK(server_start(&server, &test.testing, "  relativeurls: true\n"));
    CHECK_OK(moves(&test, named(&server, "thing:1")));
    test.n_lines = 0;
    CHECK_OK(moves(&test, named(&server, "thing:2")));
    CHECK(strstr(test.lines, "thing:2: 1 of 1 layers"));
    CHECK_OK(is_same_tree(&test, named(&server, "thing:2")));
}

TEST(a_digest_is_pulled_as_well_as_a_tag)
{
    NEEDS("docker-registry");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};
    char digest[DIGEST_TEXT] = "", name[256];

    CHECK(server_start(&server, &test.testing, ""));
    CHECK_OK(image_push(test.here, &test.transfer, test.digest, named(&server, "thing:1"), digest,
                        &test.err));
    (void)snprintf(name, sizeof name, "%s/thing@%s", server.name, test.digest);
    CHECK_OK(image_pull(test.there, &test.transfer, name, digest, &test.err));
    CHECK_STR(digest, test.digest);
    CHECK_OK(is_same_tree(&test, name));
}

/* A list whose second image is ours, put there as any tool would. */
static bool put_list(struct registry_test *test, const struct server *server, int64_t size,
                     char digest[DIGEST_TEXT])
{
    AUTO(registry_line_close) struct registry_line line = {0};
    AUTO_FREE struct registry_reply *reply = alloc(sizeof *reply);
    struct registry_endpoint endpoints[LINE_ENDPOINTS];
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"schemaVersion\":2,\"mediaType\":\"" INDEX_TYPE "\",\"manifests\":[{"
                   "\"mediaType\":\"" MANIFEST_TYPE "\",\"digest\":\"%s\",\"size\":%lld,"
                   "\"platform\":{\"os\":\"linux\",\"architecture\":\"" IMAGE_ARCHITECTURE "\"}}]}",
                   test->digest, (long long)size);
    digest_of(str_of(text), digest);
    (void)registry_endpoints(test->registries, server->name, endpoints);
    *reply = (struct registry_reply){.body.max = MIB(1)};
    struct registry_ask ask = {
        .path = "manifests/list",
        .http = {.method = "PUT", .body = str_of(text), .content_type = INDEX_TYPE},
    };
    bool ok = registry_line_open(&line, test->registries, &endpoints[0], "thing", "pull,push", NULL,
                                 &test->err) &&
              registry_line_try(&line, &ask, reply, &test->err);
    buf_finish(&reply->body);
    return ok && reply->status == 201;
}

TEST(a_list_of_images_is_pulled_by_tag_and_by_digest)
{
    NEEDS("docker-registry");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};
    AUTO(arena_finish) struct arena arena = {0};
    char digest[DIGEST_TEXT] = "", list[DIGEST_TEXT], name[256];
    struct image image;

    CHECK(server_start(&server, &test.testing, ""));
    CHECK_OK(moves(&test, named(&server, "thing:1")));
    CHECK_OK(image_find(test.here, test.digest, &arena, &image, &test.err));
    CHECK_OK(put_list(&test, &server, image.size, list));
    CHECK_OK(
        image_pull(test.there, &test.transfer, named(&server, "thing:list"), digest, &test.err));
    CHECK_STR(digest, test.digest);
    (void)snprintf(name, sizeof name, "%s/thing@%s", server.name, list);
    CHECK_OK(image_pull(test.there, &test.transfer, name, digest, &test.err));
    CHECK_STR(digest, test.digest);
    CHECK_OK(is_same_tree(&test, name));
    CHECK_OK(image_untag(test.there, name, &test.err));
}

TEST(an_image_in_dockers_format_goes_both_ways)
{
    NEEDS("docker-registry");
    NEEDS("skopeo");
    NEEDS("umoci");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};
    char before[DIGEST_TEXT] = "", after[DIGEST_TEXT] = "", script[2048];

    CHECK(server_start(&server, &test.testing, ""));
    (void)snprintf(script, sizeof script,
                   "umoci init --layout made && umoci new --image made:a\n"
                   "umoci insert --image made:a tree/etc /etc\n"
                   "skopeo copy -q --dest-tls-verify=false -f v2s2 oci:made:a docker://%s/thing:1",
                   server.name);
    CHECK(testing_sh(&test.testing, script));
    CHECK_OK(image_pull(test.there, &test.transfer, named(&server, "thing:1"), before, &test.err));
    CHECK_OK(image_push(test.there, &test.transfer, before, named(&server, "again:1"), after,
                        &test.err));
    CHECK_STR(after, before);
    (void)snprintf(script, sizeof script,
                   "skopeo inspect --raw --tls-verify=false docker://%s/again:1 >raw\n"
                   "grep -q docker.distribution.manifest.v2 raw\n"
                   "skopeo copy -q oci:there/oci:%s/thing:1 dir:back",
                   server.name, server.name);
    CHECK(testing_sh(&test.testing, script));
}

TEST(what_is_not_there_is_said_to_be_missing)
{
    NEEDS("docker-registry");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};
    char digest[DIGEST_TEXT] = "";
    size_t references = 1;

    CHECK(server_start(&server, &test.testing, ""));
    CHECK(!image_pull(test.there, &test.transfer, named(&server, "no/such:thing"), digest,
                      &test.err));
    CHECK(test.err.code == ERR_NOT_FOUND);
    CHECK(strstr(test.err.text, "no/such:thing"));
    CHECK(registry_test_store_is_sound(test.there, &references));
    CHECK(references == 0);
}

TEST(a_registry_that_is_not_there_is_unavailable)
{
    REGISTRY_TEST(test);
    char digest[DIGEST_TEXT] = "", name[64];

    (void)snprintf(name, sizeof name, "127.0.0.1:%d/thing:1", registry_test_port());
    CHECK(!image_pull(test.there, &test.transfer, name, digest, &test.err));
    CHECK(test.err.code == ERR_UNAVAILABLE);
    CHECK(
        !image_pull(test.there, &test.transfer, "no-such-host.invalid/thing:1", digest, &test.err));
    CHECK(test.err.code == ERR_UNAVAILABLE);
}

static bool write_auth(struct registry_test *test, const struct server *server, const char *pair)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "printf '{\"auths\":{\"%s\":{\"auth\":\"%%s\"}}}' \"$(printf %s | base64)\" "
                   ">auth.json",
                   server->name, pair);
    return testing_sh(&test->testing, text) &&
           registry_test_settings(test, &(struct registry_settings){
                                            .auth_file = testing_path(&test->testing, "auth.json"),
                                        });
}

TEST(a_registry_with_passwords_is_used_with_the_right_one_only)
{
    NEEDS("docker-registry");
    NEEDS("htpasswd");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};
    char digest[DIGEST_TEXT] = "", more[512];

    CHECK(testing_sh(&test.testing, "htpasswd -Bbn me sesame >users"));
    (void)snprintf(more, sizeof more, "auth:\n  htpasswd:\n    realm: test\n    path: %s/users\n",
                   test.testing.path);
    CHECK(server_start(&server, &test.testing, more));

    CHECK(!moves(&test, named(&server, "thing:1")));
    CHECK(test.err.code == ERR_UNAUTHENTICATED);
    CHECK(write_auth(&test, &server, "me:wrongpass"));
    CHECK(!moves(&test, named(&server, "thing:1")));
    CHECK(test.err.code == ERR_UNAUTHENTICATED);
    CHECK(!strstr(test.err.text, "wrongpass"));
    CHECK(write_auth(&test, &server, "me:sesame"));
    CHECK_OK(moves(&test, named(&server, "thing:1")));
    CHECK_OK(is_same_tree(&test, named(&server, "thing:1")));
    CHECK(registry_test_settings(&test, &(struct registry_settings){0}));
    CHECK(!image_pull(test.there, &test.transfer, named(&server, "thing:1"), digest, &test.err));
    CHECK(test.err.code == ERR_UNAUTHENTICATED);
}

/* Two authorities, and a certificate for 127.0.0.1 by the first. */
static const char make_authorities[] =
    "for name in ca other; do\n"
    "  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \\\n"
    "    -keyout $name.key -out $name.pem -subj /CN=$name 2>>openssl.log\n"
    "done\n"
    "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key \\\n"
    "  -out server.csr -subj /CN=127.0.0.1 2>>openssl.log\n"
    "echo subjectAltName=IP:127.0.0.1 >san\n"
    "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \\\n"
    "  -extfile san -out server.pem 2>>openssl.log";

TEST(a_registry_with_tls_is_used_when_its_authority_is_known)
{
    NEEDS("docker-registry");
    NEEDS("openssl");
    REGISTRY_TEST(test);
    AUTO(server_finish) struct server server = {0};
    struct registry_settings settings = {0};
    char more[512];

    CHECK(testing_sh(&test.testing, make_authorities));
    (void)snprintf(more, sizeof more,
                   "  tls:\n    certificate: %s/server.pem\n    key: %s/server.key\n",
                   test.testing.path, test.testing.path);
    CHECK(server_start(&server, &test.testing, more));
    for (int i = 0; i < 2; i++) {
        CHECK(!moves(&test, named(&server, "thing:1")));
        CHECK(test.err.code == ERR_UNAVAILABLE);
        CHECK(strstr(test.err.text, "certificate"));
        settings.ca_file = testing_path(&test.testing, "other.pem");
        CHECK(registry_test_settings(&test, &settings));
    }
    settings.ca_file = testing_path(&test.testing, "ca.pem");
    CHECK(registry_test_settings(&test, &settings));
    CHECK_OK(moves(&test, named(&server, "thing:1")));
    CHECK_OK(is_same_tree(&test, named(&server, "thing:1")));
}

TEST_MAIN()
