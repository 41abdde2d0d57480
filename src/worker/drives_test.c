#include "worker/drives.h"

#include <pthread.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "image/image.h"
#include "image/testing.h"
#include "worker/guest.h"
#include "worker/worker.h"

#define LAYER  "1111111111111111111111111111111111111111111111111111111111111111"
#define BUNDLE "2222222222222222222222222222222222222222222222222222222222222222"

/* A work folder with one layer and one bundle, and the sandbox that wants them. */
struct place {
    struct testing testing;
    char work[128], layer[256], bundle[256];
    const char *layers[1];
    struct sandbox_spec spec;
};

static void place_finish(struct place *place)
{
    testing_finish(&place->testing);
}

static bool place_init(struct place *place)
{
    testing_init(&place->testing);
    (void)snprintf(place->work, sizeof place->work, "%s/work", place->testing.path);
    (void)snprintf(place->layer, sizeof place->layer, "%s/layers/" LAYER, place->work);
    (void)snprintf(place->bundle, sizeof place->bundle, "%s/bundles/" BUNDLE, place->work);
    place->layers[0] = place->layer;
    place->spec = (struct sandbox_spec){.layers = place->layers,
                                        .n_layers = 1,
                                        .bundle = place->bundle,
                                        .disk_mib = 64};
    return testing_sh(&place->testing,
                      "mkdir -p work/layers/" LAYER "/etc work/bundles/" BUNDLE
                      "/task && cd work &&"
                      "echo layer >layers/" LAYER "/etc/file && echo task >bundles/" BUNDLE
                      "/task/main.js && head -c 3000000 /dev/urandom >layers/" LAYER "/random");
}

static bool open_all(struct place *place, struct drives *drives)
{
    if (drives_open(place->work, &place->spec, drives, &place->testing.err))
        return true;
    printf("# %s\n", place->testing.err.text);
    return false;
}

static ino_t inode_of(const char *path)
{
    struct stat facts;

    return path && stat(path, &facts) == 0 ? facts.st_ino : 0;
}

TEST(drives_are_made_once_and_only_read)
{
    AUTO(place_finish) struct place place = {0};
    AUTO(drives_finish) struct drives first = {0}, again = {0};
    struct stat facts;

    CHECK(place_init(&place));
    CHECK(open_all(&place, &first) && open_all(&place, &again));
    for (size_t i = 0; i < DRIVE_KINDS; i++) {
        CHECK_STR(first.held[i].path, again.held[i].path);
        CHECK(stat(first.held[i].path, &facts) == 0 && (facts.st_mode & 07777) == 0444);
        CHECK(facts.st_nlink == 1);
    }
    struct sandbox_drives paths = drives_paths(&first, &place.spec);
    CHECK_STR(paths.root, first.held[DRIVE_ROOT].path);
    CHECK(paths.scratch_bytes == 64 << 20 && stat(paths.scratch, &facts) == 0);
    CHECK(facts.st_size == paths.scratch_bytes);
    CHECK(testing_sh(&place.testing, "test -z \"$(ls work/tmp)\" && cd work/drives && "
                                     "for i in *.ext4; do e2fsck -fn $i >&2; done"));

    place.spec.bundle = NULL;
    place.spec.disk_mib = 65;
    AUTO(drives_finish) struct drives other = {0};
    CHECK(open_all(&place, &other) && !other.held[DRIVE_BUNDLE].path);
    CHECK(inode_of(other.held[DRIVE_ROOT].path) == inode_of(paths.root));
    CHECK(inode_of(other.held[DRIVE_SCRATCH].path) != inode_of(paths.scratch));
}

enum { THREADS = 4, PROCESSES = 3 };

static void *open_on_thread(void *arg)
{
    struct place place = *(struct place *)arg;
    AUTO(drives_finish) struct drives drives = {0};

    return open_all(&place, &drives) ? (void *)inode_of(drives.held[DRIVE_ROOT].path) : NULL;
}

/* The root drive they all got, or 0. */
static ino_t open_on_threads(struct place *place)
{
    pthread_t threads[THREADS];
    ino_t found = 0;
    bool is_same = true;

    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, open_on_thread, place) != 0)
            abort();
    for (size_t i = 0; i < THREADS; i++) {
        void *inode;
        (void)pthread_join(threads[i], &inode);
        is_same = is_same && (i == 0 || found == (ino_t)inode);
        found = (ino_t)inode;
    }
    return is_same ? found : 0;
}

TEST(many_that_want_a_drive_get_the_same)
{
    AUTO(place_finish) struct place place = {0};
    int ends[2];

    CHECK(place_init(&place) && pipe(ends) == 0);
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            ino_t inode = open_on_threads(&place);
            _exit(write(ends[1], &inode, sizeof inode) == sizeof inode ? 0 : 1);
        }
    ino_t first = open_on_threads(&place), other = 0;
    CHECK(first != 0);
    for (int i = 0; i < PROCESSES; i++) {
        CHECK(read(ends[0], &other, sizeof other) == sizeof other && other == first);
        CHECK(wait(NULL) > 0);
    }
    close(ends[0]);
    close(ends[1]);
    CHECK(testing_sh(&place.testing, "test -z \"$(ls work/tmp)\""));
}

static bool evict(struct place *place, struct image_store *store, struct image_collected *went)
{
    const struct image_budget budget = {0};

    return testing_sh(&place->testing, "touch -d '1 hour ago' work/drives/*.ext4") &&
           image_evict(store, &budget, went, &place->testing.err);
}

TEST(a_drive_in_use_stays_and_one_that_went_is_made_again_the_same)
{
    AUTO(place_finish) struct place place = {0};
    AUTO(drives_finish) struct drives drives = {0};
    struct image_store *store = NULL;
    struct image_collected went;

    CHECK(place_init(&place) && open_all(&place, &drives));
    CHECK(image_store_open(place.work, &store, &place.testing.err));
    /* A budget of nothing takes layer and bundle, which come back; it is the drives that count. */
    CHECK(testing_sh(&place.testing, "cp -a work/layers work/bundles ."));
    bool is_kept = evict(&place, store, &went) && went.drives == 0;
    CHECK(testing_sh(&place.testing, "cp -r work/drives kept"));
    drives_finish(&drives);
    bool is_gone = evict(&place, store, &went) && went.drives == 3;
    image_store_close(store);
    CHECK(is_kept && is_gone);
    CHECK(testing_sh(&place.testing, "test -z \"$(ls work/drives)\" && "
                                     "rm -rf work/layers work/bundles && mv layers bundles work/"));
    CHECK(open_all(&place, &drives));
    CHECK(testing_sh(&place.testing, "diff -r kept work/drives"));
}

static struct sandbox_drives given;

/* An engine that looks at what it is given, and at the locks on it, and starts nothing. */
static bool look(struct engine_host *host UNUSED, const struct sandbox_spec *spec,
                 struct instance **instance UNUSED, struct error *err)
{
    const char *const paths[] = {spec->drives.root, spec->drives.bundle, spec->drives.scratch};

    given = spec->drives;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        AUTO_FD int fd = paths[i] ? open(paths[i], O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
            return error_set(err, ERR_INTERNAL, "a drive is absent, or nobody holds it");
    }
    return error_set(err, ERR_UNSUPPORTED, "seen");
}

TEST(a_machine_starts_from_drives_that_are_held)
{
    static const struct engine machine = {.name = "look", .start = look, .has_drives = true};
    static const struct engine plain = {.name = "plain", .start = look};
    static struct worker_settings settings;
    AUTO(place_finish) struct place place = {0};
    struct worker worker = {.settings = &settings, .engine = &machine, .build_engine = &plain};
    struct failure failure;
    struct guest *guest = NULL;
    struct error err;

    CHECK(place_init(&place));
    (void)snprintf(settings.work_dir, sizeof settings.work_dir, "%s", place.work);
    CHECK(image_store_open(place.work, &worker.images, &err));
    place.spec.kind = "run";
    bool is_started = guest_start(&worker, NULL, &place.spec, &failure, &guest, &err);
    guest_stop(TAKE(guest));
    CHECK(!is_started && err.code == ERR_UNSUPPORTED && given.scratch_bytes == 64 << 20);
    CHECK(testing_sh(&place.testing, "for i in work/drives/*.ext4; do flock -xn $i true; done"));

    /* Another engine is given none. */
    place.spec.kind = "build";
    is_started = guest_start(&worker, NULL, &place.spec, &failure, &guest, &err);
    guest_stop(TAKE(guest));
    image_store_close(worker.images);
    CHECK(!is_started && err.code == ERR_INTERNAL && !given.root);
}

TEST(what_is_not_named_by_its_content_makes_no_drive)
{
    AUTO(place_finish) struct place place = {0};
    struct drives drives = {0};

    CHECK(place_init(&place));
    place.layers[0] = "/etc";
    CHECK(!drives_open(place.work, &place.spec, &drives, &place.testing.err));
    CHECK(place.testing.err.code == ERR_INVALID);
    place.spec.n_layers = 0;
    CHECK(!drives_open(place.work, &place.spec, &drives, &place.testing.err));
    CHECK(place.testing.err.code == ERR_INVALID);
}

TEST(one_that_could_not_be_made_leaves_nothing)
{
    AUTO(place_finish) struct place place = {0};
    AUTO(drives_finish) struct drives drives = {0};

    CHECK(place_init(&place));
    CHECK(testing_sh(&place.testing, "mv work/layers work/away"));
    CHECK(!drives_open(place.work, &place.spec, &drives, &place.testing.err));
    CHECK(testing_sh(&place.testing, "test -z \"$(ls work/drives work/tmp | grep ext4)\" && "
                                     "test -z \"$(ls work/tmp)\" && mv work/away work/layers"));
    CHECK(open_all(&place, &drives));
}

TEST_MAIN()
