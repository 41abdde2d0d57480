#include <poll.h>

#include "base/time.h"
#include "base/wait.h"
#include "image/build_bench.h"

enum { PATIENCE_MS = 20 * 1000, TURN_MS = 50 };

/* Run steps that meet: each waits inside until `wanted` of them are there. */
struct meeting {
    struct bench *bench;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int wanted, n_here, most;
    bool was_late;
};

static bool meet(void *arg, const struct image_step_run *step, struct error *err)
{
    struct meeting *meeting = arg;
    int64_t left = PATIENCE_MS;

    pthread_mutex_lock(&meeting->lock);
    meeting->n_here++;
    meeting->most = meeting->n_here > meeting->most ? meeting->n_here : meeting->most;
    pthread_cond_broadcast(&meeting->changed);
    for (; meeting->most < meeting->wanted && left > 0; left -= TURN_MS)
        (void)wait_ms(&meeting->changed, &meeting->lock, TURN_MS);
    meeting->was_late = meeting->was_late || left <= 0;
    pthread_mutex_unlock(&meeting->lock);
    bool ok = run_in_chroot(meeting->bench, step, err);
    pthread_mutex_lock(&meeting->lock);
    meeting->n_here--;
    pthread_mutex_unlock(&meeting->lock);
    return ok;
}

#define MEETING(bench_, wanted_)          \
    {.bench = &(bench_),                  \
     .lock = PTHREAD_MUTEX_INITIALIZER,   \
     .changed = PTHREAD_COND_INITIALIZER, \
     .wanted = (wanted_)}

#define ONE   OTHER("one", RUN("echo 1 > /one"))
#define TWO   OTHER("two", RUN("echo 2 > /two"))
#define THREE OTHER("three", RUN("echo 3 > /three"))

static void meet_in(struct bench *bench, struct meeting *meeting, size_t parallel)
{
    prepare(bench);
    bench->hooks = (struct image_build_hooks){.run = meet, .arg = meeting};
    bench->job.parallel = parallel;
}

TEST(images_that_do_not_need_each_other_are_built_at_the_same_time)
{
    AUTO(bench_finish) struct bench b = {0};
    struct meeting meeting = MEETING(b, 3), alone = MEETING(b, 1);
    const struct image *images;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    meet_in(&b, &meeting, 3);
    CHECK(build_plans(&b, "[" ONE "," TWO "," THREE "]", &images));
    CHECK(!meeting.was_late && b.n_run == 3);
    CHECK(export_image(&b, &images[1]) &&
          testing_reads(testing_path(&b.testing, "out/two"), "2\n"));

    meet_in(&b, &alone, 1);
    b.job.no_cache = true;
    CHECK(build_plans(&b, "[" ONE "," TWO "," THREE "]", &images));
    CHECK(alone.most == 1 && b.n_run == 3);
}

TEST(an_image_two_others_copy_from_is_built_once_and_first)
{
    AUTO(bench_finish) struct bench b = {0};
    const struct image *images;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    prepare(&b);
    b.job.no_cache = true;
    CHECK(build_plans(
        &b,
        "[" OTHER(
            "left",
            "{\"kind\":\"copyFrom\",\"dest\":\"/"
            "l\",\"image\":\"tools\",\"path\":\"/t\"}") "," OTHER("right",
                                                                  "{\"kind\":\"copyFrom\",\"dest\":"
                                                                  "\"/"
                                                                  "r\",\"image\":\"tools\","
                                                                  "\"path\":\"/"
                                                                  "t\"}") "," OTHER("tools",
                                                                                    RUN("echo t > "
                                                                                        "/t")) "]",
        &images));
    CHECK(b.n_run == 1);
    CHECK(export_image(&b, &images[0]) && testing_reads(testing_path(&b.testing, "out/l"), "t\n"));
    CHECK(export_image(&b, &images[1]) && testing_reads(testing_path(&b.testing, "out/r"), "t\n"));
}

/* Fails when told to by its arguments, otherwise goes on until the build is given up. */
static bool fail_or_linger(void *arg, const struct image_step_run *step, struct error *err)
{
    struct bench *bench = arg;

    bench->n_run++;
    if (strcmp(step->argv[0], "fail") == 0) {
        /* Not before the other one is at work. */
        for (int left = PATIENCE_MS; bench->n_run < 2 && left > 0; left -= TURN_MS)
            (void)poll(NULL, 0, TURN_MS);
        return error_set(err, ERR_UNPROCESSABLE, "exited with code 7");
    }
    for (int left = PATIENCE_MS; !*bench->job.abort && left > 0; left -= TURN_MS)
        (void)poll(NULL, 0, TURN_MS);
    return error_set(err, ERR_CANCELLED, "given up");
}

TEST(the_first_failure_ends_the_others_and_is_the_one_reported)
{
    AUTO(bench_finish) struct bench b = {0};
    const struct image *images;
    volatile bool abort = false;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    prepare(&b);
    b.job.abort = &abort;
    b.hooks.run = fail_or_linger;
    CHECK(!build_plans(&b,
                       "[" OTHER("slow", "{\"kind\":\"run\",\"argv\":[\"linger\"]}") "," OTHER(
                           "bad", "{\"kind\":\"run\",\"argv\":[\"fail\"]}") "]",
                       &images));
    CHECK_STR(b.testing.err.text, "image bad: step 2 of 2: RUN fail exited with code 7");
    CHECK(b.testing.err.code == ERR_UNPROCESSABLE && abort);
    CHECK(b.n_failed == 1);
}

/* One of several users of the same store, each as separate as another process would be. */
struct rival {
    struct bench bench;
    const char *plans;
    const struct image *images;
    pthread_t thread;
    bool is_built;
};

static bool rival_init(struct rival *rival, const struct bench *host, const char *plans)
{
    *rival = (struct rival){
        .bench = {.testing = host->testing, .lock = PTHREAD_MUTEX_INITIALIZER},
        .plans = plans,
    };
    prepare(&rival->bench);
    return image_store_open(testing_path(&host->testing, "work"), &rival->bench.store,
                            &rival->bench.testing.err);
}

static void rival_finish(struct rival *rival)
{
    image_store_close(rival->bench.store);
    arena_finish(&rival->bench.arena);
}

static void *rival_main(void *arg)
{
    struct rival *rival = arg;

    rival->is_built = build_plans(&rival->bench, rival->plans, &rival->images);
    return NULL;
}

static bool comes_true(const atomic_int *number, int wanted)
{
    for (int left = PATIENCE_MS; left > 0; left -= TURN_MS) {
        if (*number >= wanted)
            return true;
        (void)poll(NULL, 0, TURN_MS);
    }
    return false;
}

/* The step is done only when somebody else has begun to wait for it. */
struct race {
    struct rival first, second;
    atomic_int n_begun;
    bool was_late;
};

static bool run_when_awaited(void *arg, const struct image_step_run *step, struct error *err)
{
    struct race *race = arg;

    race->n_begun++;
    /* The base, then this step. */
    race->was_late = !comes_true(&race->second.bench.n_started, 2);
    return run_in_chroot(&race->first.bench, step, err);
}

TEST(two_builds_that_reach_a_step_together_do_it_once)
{
    static const char plans[] = "[" OTHER("same", RUN("echo x > /x")) "]";
    AUTO(bench_finish) struct bench b = {0};
    struct race race = {0};

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(rival_init(&race.first, &b, plans) && rival_init(&race.second, &b, plans));
    race.first.bench.hooks = (struct image_build_hooks){.run = run_when_awaited, .arg = &race};
    CHECK(pthread_create(&race.first.thread, NULL, rival_main, &race.first) == 0);
    CHECK(comes_true(&race.n_begun, 1));
    rival_main(&race.second);
    CHECK(pthread_join(race.first.thread, NULL) == 0);
    CHECK(race.first.is_built && race.second.is_built && !race.was_late);
    CHECK(race.first.bench.n_run == 1 && race.second.bench.n_run == 0);
    CHECK(race.second.bench.n_cached == 2);
    CHECK_STR(race.second.images[0].digest, race.first.images[0].digest);
    CHECK(testing_sh(&b.testing, "test -z \"$(ls work/oci/locks)\""));
    rival_finish(&race.first);
    rival_finish(&race.second);
}

/* In a child: a step leaves a mark each time it is really done. */
static bool run_and_mark(void *arg, const struct image_step_run *step, struct error *err)
{
    struct bench *bench = arg;
    AUTO_FD int marks = open(testing_path(&bench->testing, "marks"),
                             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    return fd_write_all(marks, STR("+"), err) && run_in_chroot(bench, step, err);
}

static pid_t fork_build(const struct bench *host, const char *plans, const int gate[2])
{
    struct rival rival;
    char byte;

    (void)fflush(stdout);
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    close(gate[1]);
    if (!rival_init(&rival, host, plans) || read(gate[0], &byte, 1) != 0)
        _exit(2);
    rival.bench.hooks.run = run_and_mark;
    rival_main(&rival);
    if (!rival.is_built)
        printf("# %s\n", rival.bench.testing.err.text);
    (void)fflush(stdout);
    _exit(rival.is_built ? 0 : 1);
}

TEST(processes_do_a_step_once_too)
{
    static const char plans[] =
        "[" OTHER("a", RUN("echo 1 > /1") "," RUN("echo 2 > /2") "," RUN("echo 3 > /3")) "]";
    AUTO(bench_finish) struct bench b = {0};
    pid_t children[4];
    int gate[2], status;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(pipe(gate) == 0);
    for (size_t i = 0; i < COUNT_OF(children); i++) {
        children[i] = fork_build(&b, plans, gate);
        CHECK(children[i] > 0);
    }
    /* All at once: they wait for the last end that can write. */
    close(gate[0]);
    close(gate[1]);
    for (size_t i = 0; i < COUNT_OF(children); i++)
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    CHECK(testing_reads(testing_path(&b.testing, "marks"), "+++"));
}

#define WITH_CACHE(script)                                         \
    "{\"kind\":\"run\",\"argv\":[\"sh\",\"-ceu\",\"" script "\"]," \
    "\"cache\":[{\"mount_path\":\"/cache\",\"cache\":\"npm\"}]}"

TEST(a_cache_in_use_is_waited_for_until_the_build_is_given_up)
{
    static const char plans[] = "[" OTHER("a", WITH_CACHE("echo 1 > /cache/x")) "]";
    AUTO(bench_finish) struct bench b = {0};
    AUTO(rival_finish) struct rival rival = {0};
    AUTO_FD int folder = -1, lock = -1;
    volatile bool abort = false;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    CHECK(rival_init(&rival, &b, plans));
    rival.bench.job.abort = &abort;
    folder = open(testing_path(&b.testing, "caches"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(disk_try_lock(folder, ".npm.lock", &lock, &b.testing.err) && lock >= 0);
    CHECK(pthread_create(&rival.thread, NULL, rival_main, &rival) == 0);
    CHECK(comes_true(&rival.bench.n_said, 2)); /* the base, the wait */
    abort = true;
    CHECK(pthread_join(rival.thread, NULL) == 0);
    CHECK(!rival.is_built && rival.bench.testing.err.code == ERR_CANCELLED);
    CHECK(rival.bench.n_run == 0 && rival.bench.n_failed == 0);
    CHECK(strstr(rival.bench.said, "waiting for cache npm, in use by another build\n"));

    close(lock);
    lock = -1;
    abort = false;
    rival_main(&rival);
    CHECK(rival.is_built && !strstr(rival.bench.said, "waiting"));
    CHECK(testing_sh(&b.testing, "test -e caches/npm/x"));
}

TEST(a_build_that_is_past_its_time_says_so)
{
    static const char plans[] = "[" OTHER("a", WITH_CACHE("true")) "]";
    AUTO(bench_finish) struct bench b = {0};
    AUTO_FD int folder = -1, lock = -1;
    const struct image *images;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    prepare(&b);
    folder = open(testing_path(&b.testing, "caches"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(disk_try_lock(folder, ".npm.lock", &lock, &b.testing.err) && lock >= 0);
    b.job.deadline_ms = time_boot_ms() + 300;
    CHECK(!build_plans(&b, plans, &images) && b.n_run == 0);
    CHECK(b.testing.err.code == ERR_UNPROCESSABLE && strstr(b.testing.err.text, "took longer"));
}

TEST(a_build_without_cache_does_every_step_again_but_none_twice)
{
    static const char plans[] = "[" OTHER("a", RUN("echo s > /s") "," RUN("echo a > /a")) "," OTHER(
        "b", RUN("echo s > /s") "," RUN("echo b > /b")) "]";
    AUTO(bench_finish) struct bench b = {0};
    const struct image *images;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    prepare(&b);
    CHECK(build_plans(&b, plans, &images) && b.n_run == 3);
    CHECK(build_plans(&b, plans, &images) && b.n_run == 0);
    b.job.no_cache = true;
    CHECK(build_plans(&b, plans, &images) && b.n_run == 3);
    b.job.no_cache = false;
    b.job.scope = "another-project";
    CHECK(build_plans(&b, plans, &images) && b.n_run == 3);
}

/* What the server would know, and another worker's store. */
struct exchange {
    struct bench *bench;
    char keys[4][DIGEST_TEXT];
    struct image_step_layer layers[4];
    atomic_int n, n_busy, n_fetched;
};

static bool find_shared(void *arg, const char *key, enum image_step_find *found,
                        struct image_step_layer *layer, struct error *err UNUSED)
{
    struct exchange *exchange = arg;

    *found = IMAGE_STEP_YOURS;
    for (int i = 0; i < exchange->n; i++)
        if (strcmp(exchange->keys[i], key) == 0) {
            /* The first answer is that somebody is at it. */
            *found = exchange->n_busy++ ? IMAGE_STEP_HIT : IMAGE_STEP_BUSY;
            *layer = exchange->layers[i];
        }
    return true;
}

static bool record_shared(void *arg, const char *key, const struct image_step_layer *layer,
                          struct error *err UNUSED)
{
    struct exchange *exchange = arg;
    int at = exchange->n++;

    (void)snprintf(exchange->keys[at], DIGEST_TEXT, "%s", key);
    exchange->layers[at] = *layer;
    return true;
}

static bool fetch_shared(void *arg, const char *digest, int64_t size, struct error *err)
{
    struct exchange *exchange = arg;
    const struct testing *testing = &exchange->bench->testing;
    char script[512];

    exchange->n_fetched++;
    (void)snprintf(script, sizeof script,
                   "test $(stat -c %%s work/oci/blobs/sha256/%s) = %lld && "
                   "cp work/oci/blobs/sha256/%s other/oci/blobs/sha256/",
                   digest_hex(digest), (long long)size, digest_hex(digest));
    return testing_sh(testing, script) || error_set(err, ERR_NOT_FOUND, "no such object");
}

static bool run_shared(void *arg, const struct image_step_run *step, struct error *err)
{
    return run_in_chroot(((struct exchange *)arg)->bench, step, err);
}

TEST(what_another_worker_did_is_fetched)
{
    static const char plans[] =
        "[" OTHER("a", RUN("true") "," RUN("echo 1 > /1") "," RUN("echo 2 > /2")) "]";
    AUTO(bench_finish) struct bench b = {0};
    AUTO(rival_finish) struct rival other = {0};
    struct exchange exchange = {.bench = &b};
    const struct image *first, *second;
    size_t n;

    NEEDS_ROOT();
    CHECK(bench_init(&b));
    prepare(&b);
    b.hooks = (struct image_build_hooks){.run = run_shared,
                                         .find = find_shared,
                                         .record = record_shared,
                                         .fetch = fetch_shared,
                                         .arg = &exchange};
    CHECK(build_plans(&b, plans, &first));
    CHECK(b.n_run == 3 && exchange.n == 3);
    CHECK(!exchange.layers[0].has_layer && exchange.layers[1].has_layer);

    CHECK(testing_sh(&b.testing,
                     arena_printf(&b.arena,
                                  "cp -a work other && rm -rf other/oci/steps/* other/layers/* "
                                  "other/oci/unpacked/* other/oci/blobs/sha256/%s "
                                  "other/oci/blobs/sha256/%s",
                                  digest_hex(exchange.layers[1].layer.digest),
                                  digest_hex(exchange.layers[2].layer.digest))));
    CHECK(image_store_open(testing_path(&b.testing, "other"), &other.bench.store, &b.testing.err));
    CHECK(image_build(other.bench.store, &b.job, &b.hooks, &other.bench.arena, &second, &n,
                      &b.testing.err) ||
          (printf("# %s\n", b.testing.err.text), false));
    CHECK(b.n_run == 3 && exchange.n_busy == 4 && exchange.n_fetched == 2);
    CHECK_STR(second[0].digest, first[0].digest);
}

TEST_MAIN()
