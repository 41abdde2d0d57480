/* Builds for tests: steps run in a plain chroot over a real overlay, in a mount namespace of
 * their own, on a base image of a few programs of this machine.
 */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "image/config.h"
#include "image/testing.h"

struct bench {
    struct testing testing;
    struct image_store *store;
    struct arena arena;
    atomic_int n_run, n_cached, n_done, n_started, n_failed, n_said;
    pthread_mutex_t lock; /* of the texts */
    char log[8192];       /* what steps printed */
    char said[8192];      /* what the builder said */
    const char *secret;   /* the value of every secret */
    struct image_build job;
    struct image_build_hooks hooks;
};

/* A root of a few programs of this machine and the libraries they need. */
static const char base_root[] =
    "mkdir -p base/bin base/etc base/tmp base/usr/data base/dev && chmod 1777 base/tmp && "
    "ln -s usr/data base/data && ln -s ../../.. base/usr/up && "
    "for p in sh cat mkdir rm ls mv ln env pwd id chmod; do q=$(command -v $p || true); "
    "  case $q in /*) cp -L $q base/bin/$p;; *) cp -L /bin/$p base/bin/$p;; esac; "
    "  for l in $(ldd base/bin/$p | grep -o '/[^ ]*'); do "
    "    mkdir -p base$(dirname $l) && cp -Ln $l base$l || true; done; done";

static inline bool bench_init(struct bench *bench)
{
    static const struct str env[] = {
        {"PATH=/bin", 9}
    };
    struct image_config config = {STR("/"), STR(""), env, 1};
    char digest[DIGEST_TEXT];

    *bench = (struct bench){.lock = PTHREAD_MUTEX_INITIALIZER};
    testing_init(&bench->testing);
    return testing_sh(&bench->testing, base_root) &&
           testing_sh(&bench->testing, "mkdir project caches") &&
           image_store_open(testing_path(&bench->testing, "work"), &bench->store,
                            &bench->testing.err) &&
           image_import_directory(bench->store, "base:1", testing_path(&bench->testing, "base"),
                                  &config, digest, &bench->testing.err);
}

static inline void bench_finish(struct bench *bench)
{
    image_store_close(bench->store);
    arena_finish(&bench->arena);
    testing_finish(&bench->testing);
}

struct chroot_job {
    const struct image_step_run *step;
    char options[8192], root[512], folder[256];
};

/* The folders of a path inside the root; the last one too when told. */
static inline void make_way(char *path, size_t from, bool with_last)
{
    for (char *at = path + from + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        (void)mkdir(path, 0755);
    }
    if (with_last)
        (void)mkdir(path, 0755);
}

static inline bool place_secret(const struct chroot_job *job, size_t i, struct error *err)
{
    const struct image_secret *secret = &job->step->secrets[i];
    char target[1024], source[1024];
    int len = snprintf(source, sizeof source, "%s/secrets/%zu", job->folder, i);

    (void)snprintf(target, sizeof target, "%s%s", job->root, secret->path);
    make_way(target, strlen(job->root), false);
    if (len < 0 || !file_publish(source, secret_reveal(secret->value), 0400, err))
        return false;
    AUTO_FD int placeholder = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return mount(source, target, NULL, MS_BIND, NULL) == 0 || error_errno(err, "mount a secret");
}

static inline bool place_secrets(const struct chroot_job *job, struct error *err)
{
    char folder[1024];

    if (job->step->n_secrets == 0)
        return true;
    (void)snprintf(folder, sizeof folder, "%s/secrets", job->folder);
    if (mkdir(folder, 0700) != 0 || mount("none", folder, "tmpfs", 0, NULL) != 0)
        return error_errno(err, "make a place for secrets");
    for (size_t i = 0; i < job->step->n_secrets; i++)
        if (!place_secret(job, i, err))
            return false;
    return true;
}

static inline bool enter_root(void *arg, struct error *err)
{
    struct chroot_job *job = arg;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("overlay", job->root, "overlay", 0, job->options) != 0)
        return error_errno(err, "mount the root");
    for (size_t i = 0; i < job->step->n_mounts; i++) {
        char target[1024];
        (void)snprintf(target, sizeof target, "%s%s", job->root, job->step->mounts[i].target);
        make_way(target, strlen(job->root), true);
        if (mount(job->step->mounts[i].source, target, NULL, MS_BIND, NULL) != 0)
            return error_errno(err, "mount a cache");
    }
    if (!place_secrets(job, err))
        return false;
    return (chroot(job->root) == 0 && chdir(job->step->workdir) == 0) ||
           error_errno(err, "enter the root");
}

static inline void append(struct bench *bench, char *text, size_t size, struct str more)
{
    pthread_mutex_lock(&bench->lock);
    size_t len = strlen(text);
    (void)snprintf(text + len, size - len, "%.*s", (int)more.len, more.len ? more.ptr : "");
    pthread_mutex_unlock(&bench->lock);
}

static inline bool run_in(struct bench *bench, struct chroot_job *job, struct error *err)
{
    const struct image_step_run *step = job->step;
    AUTO(buf_finish) struct buf out = {.max = 1 << 16}, errors = {.max = 1 << 16};
    char work[600];
    int status = 0;

    (void)snprintf(job->root, sizeof job->root, "%s/root", job->folder);
    (void)snprintf(work, sizeof work, "%s/work", job->folder);
    if (mkdir(job->root, 0755) != 0 || mkdir(work, 0755) != 0)
        return error_errno(err, "make folders");
    int len = snprintf(job->options, sizeof job->options,
                       "upperdir=%s,workdir=%s,lowerdir=", step->upper, work);
    for (size_t i = step->n_layers; i-- > 0;)
        len += snprintf(job->options + len, sizeof job->options - (size_t)len, "%s%s",
                        step->layers[i], i ? ":" : "");
    const struct process_spec spec = {.argv = step->argv,
                                      .env = step->env,
                                      .prepare = enter_root,
                                      .prepare_arg = job};
    if (!process_run(&spec, (struct str){0}, (int)step->limit_ms, &out, &errors, &status, err))
        return false;
    append(bench, bench->log, sizeof bench->log, buf_str(&out));
    append(bench, bench->log, sizeof bench->log, buf_str(&errors));
    return status == 0 ||
           error_set(err, ERR_UNPROCESSABLE, "exited with code %d", WEXITSTATUS(status));
}

static inline bool run_in_chroot(void *arg, const struct image_step_run *step, struct error *err)
{
    struct bench *bench = arg;
    struct chroot_job job = {.step = step};
    struct error ignored;

    bench->n_run++;
    (void)snprintf(job.folder, sizeof job.folder, "%s/step-XXXXXX", bench->testing.path);
    if (!mkdtemp(job.folder))
        return error_errno(err, "mkdtemp");
    bool ok = run_in(bench, &job, err);
    if (!folder_remove(job.folder, &ignored))
        printf("# left behind: %s\n", ignored.text);
    return ok;
}

static inline void note_step(void *arg, const struct image_step_note *note)
{
    struct bench *bench = arg;

    if (note->index < 1 || note->index > note->total)
        abort();
    bench->n_started += note->status == IMAGE_STEP_STARTED;
    bench->n_failed += note->status == IMAGE_STEP_FAILED;
    bench->n_cached += note->status == IMAGE_STEP_CACHED;
    bench->n_done += note->status == IMAGE_STEP_DONE || note->status == IMAGE_STEP_CACHED;
}

static inline void note_log(void *arg, struct str text)
{
    struct bench *bench = arg;

    append(bench, bench->said, sizeof bench->said, text);
    bench->n_said++;
}

static inline bool tell_secret(void *arg, const char *name, struct secret *value, struct error *err)
{
    const struct bench *bench = arg;

    if (!bench->secret)
        return error_set(err, ERR_SECRET_MISSING, "there is no secret %s", name);
    *value = secret_create(str_of(bench->secret));
    return true;
}

/* A build with everything as it normally is; tests change what they are about. */
static inline void prepare(struct bench *bench)
{
    bench->hooks = (struct image_build_hooks){
        .run = run_in_chroot,
        .step = note_step,
        .log = note_log,
        .secret = tell_secret,
        .arg = bench,
    };
    bench->job = (struct image_build){
        .source_dir = arena_text(&bench->arena, str_of(testing_path(&bench->testing, "project"))),
        .cache_dir = arena_text(&bench->arena, str_of(testing_path(&bench->testing, "caches"))),
        .scope = "project",
        .parallel = 4,
        .step_limit_ms = 60000,
    };
}

static inline bool build_plans(struct bench *bench, const char *plans, const struct image **images)
{
    size_t n = 0;

    bench->n_run = bench->n_cached = bench->n_done = bench->n_started = bench->n_failed = 0;
    bench->n_said = 0;
    bench->log[0] = bench->said[0] = '\0';
    bench->job.plans = str_of(plans);
    return image_build(bench->store, &bench->job, &bench->hooks, &bench->arena, images, &n,
                       &bench->testing.err);
}

/* An image called main, after `others` when there are any. */
static inline bool build(struct bench *bench, const char *steps, const char *others, bool no_cache,
                         struct image *image)
{
    const struct image *images = NULL;
    const char *plans = arena_printf(
        &bench->arena,
        "[{\"id\":\"main\",\"steps\":[{\"kind\":\"from\",\"ref\":\"base:1\"}%s%s]}%s%s]",
        *steps ? "," : "", steps, others ? "," : "", others ? others : "");

    prepare(bench);
    bench->job.no_cache = no_cache;
    if (!build_plans(bench, plans, &images))
        return false;
    *image = images[0];
    return true;
}

#define MUST_BUILD(bench, steps, others, image)                              \
    do {                                                                     \
        bool built_ = build(bench, steps, others, false, image);             \
        if (!built_)                                                         \
            printf("# %s\n# %s\n", (bench)->testing.err.text, (bench)->log); \
        CHECK(built_);                                                       \
    } while (0)

/* The merged image as a plain folder, to look at with the shell. */
static inline bool export_image(struct bench *bench, const struct image *image)
{
    const char *const *folders;
    char script[16384] = "rm -rf out && mkdir out";
    size_t len = strlen(script);

    if (!image_unpack(bench->store, image, &bench->arena, &folders, &bench->testing.err))
        return false;
    /* Only for layers without whiteouts. */
    for (size_t i = 0; i < image->n_layers; i++)
        len +=
            (size_t)snprintf(script + len, sizeof script - len, " && cp -a %s/. out", folders[i]);
    return testing_sh(&bench->testing, script);
}

#define NEEDS_ROOT()                                     \
    do {                                                 \
        if (geteuid() != 0)                              \
            SKIP("overlay mounts and chroot need root"); \
    } while (0)

#define RUN(script) "{\"kind\":\"run\",\"argv\":[\"sh\",\"-ceu\",\"" script "\"]}"

#define OTHER(id, steps) \
    "{\"id\":\"" id "\",\"steps\":[{\"kind\":\"from\",\"ref\":\"base:1\"}," steps "]}"
