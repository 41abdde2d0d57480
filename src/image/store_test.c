#include "image/store.h"

#include <pthread.h>
#include <sys/wait.h>

#include "image/config.h"
#include "image/reference.h"
#include "image/store_testing.h"

TEST(an_imported_folder_is_found_by_every_name_it_has)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    const char *names[] = {"tool:1", "docker.io/library/tool:1", "library/tool:1", digest, NULL};
    struct image image;

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    for (size_t i = 0; names[i]; i++) {
        CHECK(image_find(o.store, names[i], &o.arena, &image, &o.testing.err));
        CHECK_STR(image.digest, digest);
        CHECK(image.n_layers == 1 && str_equal(image.config.workdir, STR("/app")));
        CHECK(str_equal(image.config.user, STR("nobody")) && image.config.n_env == 1);
        CHECK(str_equal(image.config.env[0], STR("PATH=/bin")));
    }
    CHECK(!image_find(o.store, "tool:2", &o.arena, &image, &o.testing.err));
    CHECK(o.testing.err.code == ERR_NOT_FOUND);
    CHECK(!image_find(o.store, "Tool:1", &o.arena, &image, &o.testing.err));
    CHECK(o.testing.err.code == ERR_INVALID);
}

TEST(a_reference_moves_to_the_newest_import)
{
    AUTO(opened_finish) struct opened o = {0};
    char first[DIGEST_TEXT], second[DIGEST_TEXT], again[DIGEST_TEXT];
    const struct image_entry *entries;
    struct image image;
    size_t n;

    CHECK(opened_init(&o));
    CHECK(opened_import(&o, "tool:1", "one", first) && opened_import(&o, "tool:1", "two", second));
    CHECK(opened_import(&o, "other:1", "two", again));
    CHECK(strcmp(first, second) != 0);
    CHECK(image_find(o.store, "tool:1", &o.arena, &image, &o.testing.err));
    CHECK_STR(image.digest, second);
    CHECK(image_find(o.store, first, &o.arena, &image, &o.testing.err));
    CHECK(image_list(o.store, &o.arena, &entries, &n, &o.testing.err) && n == 2);
    CHECK(str_equal(entries[0].reference, STR("docker.io/library/tool:1")));
    CHECK(entries[0].size > 100 && entries[0].created_ms > 0);
}

TEST(layers_are_unpacked_once_and_whole)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT], path[512];
    const char *const *folders;
    struct image image;

    if (geteuid() != 0)
        SKIP("owners need root");
    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    CHECK(image_find(o.store, "tool:1", &o.arena, &image, &o.testing.err));
    CHECK(image_unpack(o.store, &image, &o.arena, &folders, &o.testing.err));
    (void)snprintf(path, sizeof path, "%s/file", folders[0]);
    CHECK(testing_reads(path, "content"));
    CHECK(testing_sh(&o.testing,
                     "rm work/oci/blobs/sha256/* && test $(stat -c %a work/layers) = 700"));
    CHECK(image_unpack(o.store, &image, &o.arena, &folders, &o.testing.err));
}

TEST(damaged_blobs_are_not_believed)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    const char *const *folders;
    struct image image;

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    CHECK(image_find(o.store, "tool:1", &o.arena, &image, &o.testing.err));
    const char *blob =
        testing_path(&o.testing, "work/oci/blobs/sha256/%s", image.layers[0].digest + 7);
    AUTO_FD int fd = open(blob, O_RDWR | O_CLOEXEC);
    CHECK(testing_damage(fd, image.layers[0].size / 2));
    CHECK(!image_unpack(o.store, &image, &o.arena, &folders, &o.testing.err));
    CHECK(testing_sh(&o.testing, "test -z \"$(ls work/layers)$(ls work/oci/tmp)\""));
    CHECK(testing_file(testing_path(&o.testing, "work/oci/blobs/sha256/%s", digest + 7), "{}"));
    CHECK(!image_find(o.store, "tool:1", &o.arena, &image, &o.testing.err));
    CHECK(o.testing.err.code == ERR_CONTENT_HASH);
}

struct unpacker {
    struct opened *opened;
    bool ok;
};

static void *unpack_it(void *arg)
{
    struct unpacker *unpacker = arg;
    AUTO(arena_finish) struct arena arena = {0};
    const char *const *folders;
    struct image image;
    struct error err;

    unpacker->ok = image_find(unpacker->opened->store, "tool:1", &arena, &image, &err) &&
                   image_unpack(unpacker->opened->store, &image, &arena, &folders, &err);
    return NULL;
}

TEST(several_threads_unpack_the_same_image)
{
    AUTO(opened_finish) struct opened o = {0};
    struct unpacker unpackers[4];
    pthread_t threads[COUNT_OF(unpackers)];
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    for (size_t i = 0; i < COUNT_OF(unpackers); i++) {
        unpackers[i] = (struct unpacker){&o, false};
        CHECK(pthread_create(&threads[i], NULL, unpack_it, &unpackers[i]) == 0);
    }
    for (size_t i = 0; i < COUNT_OF(unpackers); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < COUNT_OF(unpackers); i++)
        CHECK(unpackers[i].ok);
    CHECK(testing_sh(&o.testing,
                     "test $(ls work/layers | wc -l) = 1 && test -z \"$(ls work/oci/tmp)\""));
}

TEST(two_processes_put_references_without_losing_one)
{
    AUTO(opened_finish) struct opened o = {0};
    enum { EACH = 10 };
    const struct image_entry *entries;
    size_t n;
    int status = -1;

    CHECK(opened_init(&o) && testing_folder(testing_path(&o.testing, "tree")));
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0; i < EACH; i++) {
        char name[32], digest[DIGEST_TEXT];
        (void)snprintf(name, sizeof name, "%s:%d", child ? "parent" : "child", i);
        bool ok = image_import_directory(o.store, name, testing_path(&o.testing, "tree"), NULL,
                                         digest, &o.testing.err);
        if (!child && !ok)
            _exit(1);
        CHECK(ok);
    }
    if (!child)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(image_list(o.store, &o.arena, &entries, &n, &o.testing.err));
    CHECK(n == (size_t)2 * EACH);
}

TEST(unfinished_work_is_wiped_only_when_nobody_has_the_store_open)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_store *second = NULL;

    CHECK(opened_init(&o));
    CHECK(testing_sh(&o.testing, "mkdir -p work/oci/tmp/.new-x/deep && : > work/oci/tmp/.new-y"));
    CHECK(image_store_open(testing_path(&o.testing, "work"), &second, &o.testing.err));
    image_store_close(second);
    CHECK(testing_sh(&o.testing, "test -e work/oci/tmp/.new-y"));
    image_store_close(o.store);
    CHECK(image_store_open(testing_path(&o.testing, "work"), &o.store, &o.testing.err));
    CHECK(testing_sh(&o.testing, "test -z \"$(ls -A work/oci/tmp)\""));
}

TEST(any_oci_tool_can_read_the_store)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "content", digest));
    if (!testing_sh(&o.testing, "command -v skopeo >/dev/null"))
        SKIP("skopeo is not installed");
    CHECK(
        testing_sh(&o.testing, "skopeo inspect oci:work/oci:docker.io/library/tool:1 >/dev/null"));
}

/* Takes a minute and the network: asked for by name. */
TEST(a_local_node_base_runs_node)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT], script[1024];
    const char *const *folders;
    struct image image;

    if (!getenv("HELMR_TEST_BOOTSTRAP"))
        SKIP("set HELMR_TEST_BOOTSTRAP=1 to make a base image from packages");
    CHECK(opened_init(&o));
    bool ok = image_bootstrap(o.store, "node:24-bookworm-slim", false, NULL, NULL, digest,
                              &o.testing.err);
    if (!ok)
        printf("# %s\n", o.testing.err.text);
    CHECK(ok);
    CHECK(image_find(o.store, "node:24-bookworm-slim", &o.arena, &image, &o.testing.err));
    CHECK(image_unpack(o.store, &image, &o.arena, &folders, &o.testing.err) && image.n_layers == 2);
    (void)snprintf(script, sizeof script,
                   "mkdir root && cp -a %s/. root && cp -a %s/. root && "
                   "chroot root node --version | grep -q ^v24 && chroot root npm --version && "
                   "chroot root su node -c 'test $(id -u) = 1000'",
                   folders[0], folders[1]);
    CHECK(testing_sh(&o.testing, script));
}

TEST_MAIN()
