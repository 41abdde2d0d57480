#include <sys/file.h>

#include "image/config.h"
#include "image/reference.h"
#include "image/store_testing.h"

/* How many blobs, unpacked layers and steps there are, by looking. */
static bool has(struct opened *o, int blobs, int layers, int steps)
{
    char script[512];

    (void)snprintf(script, sizeof script,
                   "cd work; b=$(ls oci/blobs/sha256 | wc -l) l=$(ls layers | wc -l) "
                   "s=$(find oci/steps -type f | wc -l); test \"$b $l $s\" = '%d %d %d' || "
                   "{ echo \"$b blobs, $l layers, $s steps\" >&2; false; }",
                   blobs, layers, steps);
    return testing_sh(&o->testing, script);
}

static bool unpack(struct opened *o, const char *reference, const char *const **folders)
{
    struct image image;

    return image_find(o->store, reference, &o->arena, &image, &o->testing.err) &&
           image_unpack(o->store, &image, &o->arena, folders, &o->testing.err);
}

/* As old as something that was not used for a day. */
static bool age(struct opened *o)
{
    return testing_sh(&o->testing,
                      "cd work; mkdir -p caches bundles drives; { "
                      "find oci/blobs oci/unpacked oci/steps drives -type f; "
                      "find caches -name '.*.lock'; find bundles -mindepth 1 -maxdepth 1; "
                      "} | xargs -r touch -d '1 day ago'");
}

static bool collect(struct opened *o, bool steps, struct image_collected *went)
{
    bool ok =
        image_collect(o->store, &(struct image_collection){.steps = steps}, went, &o->testing.err);
    if (!ok)
        printf("# %s\n", o->testing.err.text);
    return ok;
}

static bool evict(struct opened *o, int64_t bytes, int64_t idle_ms, struct image_collected *went)
{
    const struct image_budget budget = {.bytes = bytes, .idle_ms = idle_ms};
    bool ok = image_evict(o->store, &budget, went, &o->testing.err);

    if (!ok)
        printf("# %s\n", o->testing.err.text);
    return ok;
}

/* A finished step that made the only layer of the image. */
static bool record_step(struct opened *o, const char *reference, const char *key)
{
    struct image image;
    char script[512];

    if (!image_find(o->store, reference, &o->arena, &image, &o->testing.err))
        return false;
    (void)snprintf(script, sizeof script,
                   "mkdir -p work/oci/steps/p; echo '{\"format\":1,\"has_layer\":true,\"digest\":"
                   "\"%s\",\"diff_id\":\"%s\"}' > work/oci/steps/p/%s.json",
                   image.layers[0].digest, image.layers[0].diff_id, key);
    return testing_sh(&o->testing, script);
}

TEST(what_a_name_reaches_stays_and_the_rest_goes)
{
    AUTO(opened_finish) struct opened o = {0};
    char first[DIGEST_TEXT], second[DIGEST_TEXT];
    const char *const *folders;
    struct image_collected went;

    if (geteuid() != 0)
        SKIP("owners need root");
    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", first));
    CHECK(unpack(&o, "tool:1", &folders) && opened_import(&o, "tool:1", "two", second));
    CHECK(unpack(&o, "tool:1", &folders) && has(&o, 6, 2, 0) && age(&o));
    CHECK(collect(&o, false, &went));
    CHECK(went.blobs == 3 && went.layers == 1 && went.bytes > 0 && went.kept_bytes > 0);
    CHECK(has(&o, 3, 1, 0) && unpack(&o, second, &folders));
    CHECK(testing_sh(&o.testing, "test -z \"$(ls -A work/oci/tmp)\""));
    CHECK(collect(&o, false, &went) && went.blobs == 0 && went.bytes == 0);
}

TEST(a_dry_collection_counts_and_removes_nothing)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_collected dry, wet;
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(image_untag(o.store, "tool:1", &o.testing.err) && age(&o));
    CHECK(image_collect(o.store, &(struct image_collection){.is_dry = true}, &dry, &o.testing.err));
    CHECK(dry.blobs == 3 && has(&o, 3, 0, 0));
    CHECK(collect(&o, false, &wet) && wet.bytes == dry.bytes && wet.blobs == 3);
    CHECK(has(&o, 0, 0, 0));
}

TEST(names_are_given_moved_and_taken_away)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    struct image image;

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(image_tag(o.store, "helmr.local/p/i:1", digest, &o.testing.err));
    CHECK(image_untag(o.store, "tool:1", &o.testing.err));
    CHECK(image_find(o.store, "helmr.local/p/i:1", &o.arena, &image, &o.testing.err));
    CHECK(!image_untag(o.store, "tool:1", &o.testing.err) && o.testing.err.code == ERR_NOT_FOUND);
    CHECK(!image_tag(o.store, "tool:2", "sha256:00", &o.testing.err));
    CHECK(!image_tag(o.store, digest, digest, &o.testing.err));
}

TEST(an_image_without_all_its_layers_gets_no_name)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    struct image image;

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(image_find(o.store, digest, &o.arena, &image, &o.testing.err));
    CHECK(unlinkat(o.store->blobs_fd, image.layers[0].digest + 7, 0) == 0);
    CHECK(!image_tag(o.store, "tool:2", digest, &o.testing.err));
    CHECK(o.testing.err.code == ERR_NOT_FOUND);
    CHECK(image_tag(o.store, "helmr.local/p/i:1", digest, &o.testing.err));
    CHECK(unlinkat(o.store->blobs_fd, image.config_digest + 7, 0) == 0);
    CHECK(!image_tag(o.store, "helmr.local/p/i:2", digest, &o.testing.err));
}

TEST(held_images_are_left_alone_until_the_holder_is_gone)
{
    AUTO(opened_finish) struct opened o = {0};
    AUTO_FD int hold = -1, again = -1, layers = -1;
    char digest[DIGEST_TEXT];
    const char *const *folders;
    struct image_collected went;

    if (geteuid() != 0)
        SKIP("owners need root");
    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(unpack(&o, digest, &folders) && image_untag(o.store, "tool:1", &o.testing.err));
    CHECK(image_hold(o.store, digest, &hold, &o.testing.err));
    CHECK(image_hold(o.store, digest, &again, &o.testing.err) && age(&o));
    CHECK(collect(&o, true, &went) && went.bytes == 0 && evict(&o, 0, 0, &went));
    CHECK(went.bytes == 0 && has(&o, 3, 1, 0));
    close(take_fd(&hold));
    CHECK(collect(&o, true, &went) && has(&o, 3, 1, 0));
    close(take_fd(&again));
    /* A sandbox holds its folders only. */
    CHECK(image_hold_folders(o.store, folders, 1, &layers, &o.testing.err) && age(&o));
    CHECK(collect(&o, true, &went) && has(&o, 0, 1, 0));
    close(take_fd(&layers));
    CHECK(age(&o) && collect(&o, true, &went) && has(&o, 0, 0, 0));
    CHECK(testing_sh(&o.testing, "test -z \"$(ls -A work/oci/holds)\""));
    CHECK(!image_hold(o.store, digest, &hold, &o.testing.err));
    CHECK(!image_hold_folders(o.store, folders, 1, &layers, &o.testing.err));
    CHECK(o.testing.err.code == ERR_NOT_FOUND);
}

TEST(work_under_way_keeps_what_it_made_and_what_it_found)
{
    AUTO(opened_finish) struct opened o = {0};
    AUTO_FD int work = -1;
    char digest[DIGEST_TEXT], made[DIGEST_TEXT];
    struct image_collected went;

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(image_untag(o.store, "tool:1", &o.testing.err) && age(&o));
    CHECK(image_work(o.store, &work, &o.testing.err));
    CHECK(store_has_blob(o.store, digest));
    CHECK(store_put_blob(o.store, STR("new"), made, &o.testing.err));
    CHECK(collect(&o, true, &went) && went.blobs == 2 && has(&o, 2, 0, 0));
    CHECK(store_has_blob(o.store, digest) && store_has_blob(o.store, made));
    close(take_fd(&work));
    CHECK(age(&o) && collect(&o, true, &went) && has(&o, 0, 0, 0));
}

TEST(finished_steps_keep_their_layers_unless_all_is_asked_for)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_collected went;
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(record_step(&o, "tool:1", "a") && image_untag(o.store, "tool:1", &o.testing.err));
    CHECK(age(&o) && collect(&o, false, &went) && went.blobs == 2 && has(&o, 1, 0, 1));
    CHECK(collect(&o, true, &went) && went.blobs == 1 && went.steps == 1 && has(&o, 0, 0, 0));
    /* A step without its layer says nothing. */
    CHECK(opened_import(&o, "tool:1", "two", digest) && record_step(&o, "tool:1", "b"));
    CHECK(testing_sh(&o.testing, "rm work/oci/blobs/sha256/*") && age(&o));
    CHECK(image_untag(o.store, "tool:1", &o.testing.err) && collect(&o, false, &went));
    CHECK(went.steps == 1 && has(&o, 0, 0, 0));
}

TEST(a_step_of_a_named_image_survives_the_collection_of_all_steps)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_collected went;
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(record_step(&o, "tool:1", "a") && age(&o));
    CHECK(collect(&o, true, &went) && went.steps == 0 && has(&o, 3, 0, 1));
}

TEST(within_the_budget_nothing_goes)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_collected went;
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest) && age(&o));
    CHECK(evict(&o, 1 << 20, 0, &went) && went.bytes == 0 && went.kept_bytes > 100);
    CHECK(has(&o, 3, 0, 0));
}

TEST(images_that_only_this_host_has_are_never_evicted)
{
    AUTO(opened_finish) struct opened o = {0};
    char base[DIGEST_TEXT], mine[DIGEST_TEXT];
    const char *const *folders;
    struct image_collected went;
    struct image image;

    if (geteuid() != 0)
        SKIP("owners need root");
    CHECK(opened_init(&o) && opened_import(&o, "base:1", "one", base));
    CHECK(opened_import(&o, "helmr.local/p/i:1", "two", mine) && unpack(&o, "base:1", &folders));
    CHECK(age(&o) && evict(&o, 0, 0, &went));
    /* The deployment's layer is with the server; its manifest and configuration tell what to ask
     * for. The base can be unpacked again. */
    CHECK(went.blobs == 1 && went.layers == 1 && has(&o, 5, 0, 0));
    CHECK(unpack(&o, "base:1", &folders));
    CHECK(image_find(o.store, "helmr.local/p/i:1", &o.arena, &image, &o.testing.err));
    CHECK(!image_unpack(o.store, &image, &o.arena, &folders, &o.testing.err));
    CHECK(o.testing.err.code == ERR_NOT_FOUND);
}

TEST(the_least_recently_used_goes_first_and_no_more_than_needed)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    struct image_collected went;
    struct image old, young;

    CHECK(opened_init(&o) && opened_import(&o, "helmr.local/p/i:1", "one", digest));
    CHECK(image_find(o.store, "helmr.local/p/i:1", &o.arena, &old, &o.testing.err));
    CHECK(opened_import(&o, "helmr.local/p/i:2", "two", digest) && age(&o));
    CHECK(image_find(o.store, "helmr.local/p/i:2", &o.arena, &young, &o.testing.err));
    CHECK(testing_sh(&o.testing, arena_printf(&o.arena,
                                              "touch -d '1 hour ago' "
                                              "work/oci/blobs/sha256/%s",
                                              young.layers[0].digest + 7)));
    CHECK(evict(&o, 1 << 20, 0, &went));
    CHECK(evict(&o, went.kept_bytes - 1, 0, &went) && went.blobs == 1);
    CHECK(!store_has_blob(o.store, old.layers[0].digest));
    CHECK(store_has_blob(o.store, young.layers[0].digest));
    /* What was used within the idle time stays, budget or not. */
    CHECK(evict(&o, 0, 60000, &went) && went.blobs == 0);
}

TEST(a_step_whose_layer_was_evicted_goes_with_it)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_collected went;
    char digest[DIGEST_TEXT];

    CHECK(opened_init(&o) && opened_import(&o, "helmr.local/p/i:1", "one", digest));
    CHECK(record_step(&o, "helmr.local/p/i:1", "a") && age(&o));
    CHECK(evict(&o, 0, 0, &went) && went.blobs == 1 && went.steps == 1 && has(&o, 2, 0, 0));
}

TEST(caches_bundles_and_drives_in_use_stay)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_collected went;

    CHECK(opened_init(&o));
    CHECK(testing_sh(&o.testing,
                     "cd work; mkdir -p caches/p/npm caches/p/apt bundles/aa bundles/bb drives; "
                     "echo x > drives/a.ext4; echo x > drives/b.ext4; : > drives/.lock-1; "
                     "echo x > caches/p/npm/f; echo x > caches/p/apt/f; echo x > bundles/aa/f; "
                     "echo x > bundles/bb/f; : > caches/p/.npm.lock; : > caches/p/.apt.lock"));
    CHECK(age(&o));
    AUTO_FD int bundle = open(testing_path(&o.testing, "work/bundles/aa"), O_RDONLY | O_CLOEXEC);
    AUTO_FD int caches = open(testing_path(&o.testing, "work/caches/p"), O_RDONLY | O_CLOEXEC);
    AUTO_FD int drive = open(testing_path(&o.testing, "work/drives/a.ext4"), O_RDONLY | O_CLOEXEC);
    AUTO_FD int cache = -1;
    CHECK(drive >= 0 && flock(drive, LOCK_SH) == 0);
    CHECK(bundle >= 0 && flock(bundle, LOCK_SH) == 0);
    CHECK(disk_try_lock(caches, ".npm.lock", &cache, &o.testing.err) && cache >= 0);
    CHECK(evict(&o, 0, 0, &went) && went.caches == 1 && went.bundles == 1 && went.bytes > 0);
    CHECK(went.drives == 1);
    CHECK(testing_sh(&o.testing, "cd work; test -e caches/p/npm/f && test ! -e caches/p/apt && "
                                 "test -e bundles/aa/f && test ! -e bundles/bb && "
                                 "test -e drives/a.ext4 && test ! -e drives/b.ext4"));
}

TEST(a_note_without_its_layer_is_cleared_and_one_without_a_note_is_counted)
{
    AUTO(opened_finish) struct opened o = {0};
    char digest[DIGEST_TEXT];
    const char *const *folders;
    struct image_collected went;

    if (geteuid() != 0)
        SKIP("owners need root");
    CHECK(opened_init(&o) && opened_import(&o, "tool:1", "one", digest));
    CHECK(unpack(&o, "tool:1", &folders));
    CHECK(testing_sh(&o.testing, "cd work/oci/unpacked; mv * ../../gone; echo x > dead"));
    CHECK(age(&o) && collect(&o, false, &went) && has(&o, 3, 1, 0));
    CHECK(testing_sh(&o.testing, "test -z \"$(ls work/oci/unpacked)\""));
    CHECK(unpack(&o, "tool:1", &folders));
    CHECK(testing_sh(&o.testing, "cd work/oci/unpacked; grep -q '\"bytes\":[1-9]' *"));
}

TEST(eviction_does_not_wait_for_another_collector)
{
    AUTO(opened_finish) struct opened o = {0};
    AUTO_FD int lock = -1;
    struct image_collected went;

    CHECK(opened_init(&o));
    CHECK(disk_lock(o.store->oci_fd, "collector-lock", false, &lock, &o.testing.err));
    CHECK(!evict(&o, 0, 0, &went) && o.testing.err.code == ERR_CONFLICT);
    close(take_fd(&lock));
    CHECK(evict(&o, 0, 0, &went));
}

TEST_MAIN()
