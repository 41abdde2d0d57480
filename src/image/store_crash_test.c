/* Several processes at one store, some of which are killed at any instruction. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/time.h"
#include "image/config.h"
#include "image/store_testing.h"

enum { BUILDS = 30, KILLS = 32, KILL_WITHIN_US = 30000 };

static const char plan[] =
    "[{\"id\":\"main\",\"steps\":[{\"kind\":\"from\",\"ref\":\"base:1\"},"
    "{\"kind\":\"workdir\",\"path\":\"/app\"},"
    "{\"kind\":\"copy\",\"dest\":\"/app/one\",\"source\":{\"file\":\"one\"}},"
    "{\"kind\":\"copy\",\"dest\":\"/app/two\",\"source\":{\"file\":\"two\"}}]}]";

static void note_step(void *arg UNUSED, const struct image_step_note *note UNUSED)
{
}

static bool build_once(struct opened *o, const char *name, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int work = -1;
    const struct image_build_hooks hooks = {.step = note_step};
    const struct image_build job = {
        .plans = str_of(plan),
        .source_dir = arena_text(&arena, str_of(testing_path(&o->testing, "project"))),
        .cache_dir = arena_text(&arena, str_of(testing_path(&o->testing, "work/caches/p"))),
        .scope = "p",
    };
    const struct image *images;
    const char *const *folders;
    size_t n;

    /* As a worker does it: the work ends when the result has its name. */
    return image_work(o->store, &work, err) &&
           image_build(o->store, &job, &hooks, &arena, &images, &n, err) && sched_yield() == 0 &&
           image_unpack(o->store, &images[0], &arena, &folders, err) &&
           image_tag(o->store, name, images[0].digest, err);
}

/* Everything a finished build has named must be whole, whatever collectors do. */
static bool is_whole(struct opened *o, const char *name, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest_blobs blobs;
    struct image image;
    struct stat facts;

    if (!image_find(o->store, name, &arena, &image, err) ||
        !manifest_load(o->store, image.digest, &arena, &blobs, err))
        return false;
    for (size_t i = 0; i < blobs.n; i++)
        if (!store_look(o->store, blobs.items[i].digest, &facts))
            return error_set(err, ERR_NOT_FOUND, "%s was lost", blobs.items[i].digest);
    return true;
}

static int build_often(struct opened *o)
{
    struct error err = {0};

    for (int i = 0; i < BUILDS; i++) {
        bool ok = build_once(o, "result:1", &err) && is_whole(o, "result:1", &err) &&
                  image_untag(o->store, "result:1", &err);
        if (!ok) {
            printf("# build %d: %s\n", i, err.text);
            return 1;
        }
    }
    return build_once(o, "result:1", &err) ? 0 : 1;
}

static int remove_until_told(struct opened *o, int stop)
{
    const struct image_budget nothing = {0};
    struct image_collected went;
    struct error err;
    char told;

    while (read(stop, &told, 1) < 0 && errno == EAGAIN) {
        if (!image_collect(o->store, &(struct image_collection){.steps = true}, &went, &err) ||
            (!image_evict(o->store, &nothing, &went, &err) && err.code != ERR_CONFLICT)) {
            printf("# collector: %s\n", err.text);
            return 1;
        }
    }
    return 0;
}

/* A process with a handle of its own on the store. */
static pid_t start(struct opened *o, int (*body)(struct opened *, int), int arg)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    struct opened own = {.testing = o->testing};
    struct error err;
    int code = 2;
    if (image_store_open(testing_path(&o->testing, "work"), &own.store, &err))
        code = body(&own, arg);
    (void)fflush(stdout);
    _exit(code);
}

static int body_build(struct opened *o, int arg UNUSED)
{
    return build_often(o);
}

static bool prepare(struct opened *o, char digest[DIGEST_TEXT])
{
    return opened_init(o) && opened_import(o, "base:1", "base", digest) &&
           testing_sh(&o->testing, "mkdir project; echo 1 > project/one; echo 2 > project/two");
}

TEST(builds_lose_nothing_to_collectors_beside_them)
{
    AUTO(opened_finish) struct opened o = {0};
    struct image_verdict verdict;
    char digest[DIGEST_TEXT];
    int stop[2], status = -1;

    if (geteuid() != 0)
        SKIP("owners need root");
    CHECK(prepare(&o, digest) && pipe2(stop, O_CLOEXEC | O_NONBLOCK) == 0);
    pid_t collector = start(&o, remove_until_told, stop[0]);
    pid_t builder = start(&o, body_build, 0);
    CHECK(collector > 0 && builder > 0);
    bool has_built = waitpid(builder, &status, 0) == builder && status == 0;
    CHECK(write(stop[1], "x", 1) == 1);
    CHECK(waitpid(collector, &status, 0) == collector && status == 0);
    CHECK(has_built && is_whole(&o, "result:1", &o.testing.err) && opened_verifies(&o, &verdict));
    CHECK(verdict.references == 2);
    close(stop[0]);
    close(stop[1]);
}

/* From a folder of its own: the other process may be importing too. */
static int body_import(struct opened *o, int arg UNUSED)
{
    char folder[128], file[160], text[32], digest[DIGEST_TEXT];
    struct error err = {0};

    (void)snprintf(folder, sizeof folder, "%s/tree-%d", o->testing.path, (int)getpid());
    (void)snprintf(file, sizeof file, "%s/file", folder);
    for (int i = 0; testing_folder(folder); i++) {
        (void)snprintf(text, sizeof text, "%d %d", (int)getpid(), i);
        if (!testing_file(file, text) ||
            !image_import_directory(o->store, "tool:1", folder, NULL, digest, &err))
            break;
    }
    printf("# import: %s\n", err.text);
    return 1;
}

static int body_remove(struct opened *o, int stop)
{
    return remove_until_told(o, stop);
}

static int body_export(struct opened *o, int arg UNUSED)
{
    struct error err;

    for (;;) {
        AUTO_FD int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (!image_export(o->store, "base:1", fd, &err)) {
            printf("# %s\n", err.text);
            return 1;
        }
    }
}

static int body_build_forever(struct opened *o, int arg UNUSED)
{
    struct error err;

    for (;;)
        if (!build_once(o, "result:1", &err)) {
            printf("# %s\n", err.text);
            return 1;
        }
}

/* Killed after a random while; it must not have ended by itself. */
static bool kill_soon(pid_t child)
{
    const struct timespec wait = {.tv_nsec = (random() % KILL_WITHIN_US) * 1000L};
    int status = 0;

    (void)nanosleep(&wait, NULL);
    if (kill(child, SIGKILL) != 0 || waitpid(child, &status, 0) != child)
        return false;
    if (!WIFSIGNALED(status))
        printf("# ended by itself with %d\n", WEXITSTATUS(status));
    return WIFSIGNALED(status);
}

TEST(a_store_whose_processes_are_killed_at_any_moment_stays_sound)
{
    AUTO(opened_finish) struct opened o = {0};
    int (*const bodies[])(struct opened *, int) = {body_import, body_build_forever, body_export,
                                                   body_remove};
    struct image_verdict verdict;
    struct image_collected went;
    char digest[DIGEST_TEXT];
    int never[2];

    if (geteuid() != 0)
        SKIP("owners need root");
    srandom((unsigned)time_now_ms());
    CHECK(prepare(&o, digest) && pipe2(never, O_CLOEXEC | O_NONBLOCK) == 0);
    image_store_close(TAKE(o.store));
    for (int i = 0; i < KILLS; i++) {
        pid_t one = start(&o, bodies[i % (int)COUNT_OF(bodies)], never[0]);
        pid_t two = start(&o, bodies[random() % (int)COUNT_OF(bodies)], never[0]);
        CHECK(one > 0 && two > 0);
        bool fine = kill_soon(one);
        CHECK(kill_soon(two) && fine);
    }
    CHECK(image_store_open(testing_path(&o.testing, "work"), &o.store, &o.testing.err));
    CHECK(opened_verifies(&o, &verdict) && verdict.leftovers == 0 && verdict.absent == 0);
    CHECK(is_whole(&o, "base:1", &o.testing.err) && build_once(&o, "result:2", &o.testing.err));
    CHECK(image_collect(o.store, &(struct image_collection){.steps = true}, &went, &o.testing.err));
    CHECK(opened_verifies(&o, &verdict) && verdict.stale_steps == 0 && verdict.stray_layers == 0);
    CHECK(testing_sh(&o.testing, "test -z \"$(ls -A work/oci/holds work/oci/tmp | grep -v :)\""));
    close(never[0]);
    close(never[1]);
}

TEST_MAIN()
