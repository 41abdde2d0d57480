/* Machines of a worker that is not root. A test that is root becomes nobody first. */
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/time.h"
#include "engine/fixture.h"
#include "engine/holders.h"
#include "engine/instance.h"
#include "engine/probe.h"
#include "engine/qemu/machine.h"
#include "engine/saved.h"
#include "engine/spaces.h"

/* Without hardware and with everything busy a boot takes a minute. Nobody measures here. */
enum { PATIENCE_MS = 600 * 1000, MEMORY_MIB = 192, SCRATCH_BYTES = 8 << 20, NOBODY = 65534 };

struct scene {
    struct fixture fixture;
    struct engine_host *host;
    struct sandbox_spec spec;
    struct saved_image image;
};

static void scene_close(struct scene *scene)
{
    saved_image_finish(&scene->image);
    fixture_host_close(&scene->host);
    fixture_close(&scene->fixture);
}

static const char *scene_open(struct scene *scene, struct error *err)
{
    *scene = (struct scene){.image = SAVED_IMAGE_NONE};
    if (!fixture_open(&scene->fixture))
        return "no folder can be made";
    const char *why = fixture_machine_of_user();
    if (why)
        return why;
    struct engine_settings settings = fixture_settings(&scene->fixture);
    settings.qemu_accel = QEMU_ACCEL_TCG;
    settings.network_enabled = true;
    if (!engine_host_open(&settings, &scene->host, err))
        return NULL;
    scene->spec = (struct sandbox_spec){
        .kind = "run",
        .vcpus = 1,
        .memory_mib = MEMORY_MIB,
        .drives = {.scratch_bytes = SCRATCH_BYTES},
        .network = NETWORK_OPEN,
        .deadline_ms = time_boot_ms() + PATIENCE_MS,
    };
    id_make(scene->spec.id);
    return NULL;
}

TEST(a_machine_of_a_user_boots_is_saved_and_comes_back)
{
    AUTO(scene_close) struct scene scene = {.image = SAVED_IMAGE_NONE};
    uint8_t nonce[CHANNEL_NONCE_LEN];
    struct instance *instance;
    struct instance_usage usage = {0};
    struct error err = {0};

    const char *why = scene_open(&scene, &err);
    if (why)
        SKIP(why);
    CHECK_STR(err.text, "");
    CHECK(scene.host && !engine_host_is_root(scene.host));
    if (!engine_host_has_spaces(scene.host))
        SKIP("users cannot make namespaces here");
    bool ok = saved_image_make(&engine_qemu, (int64_t)2 * MEMORY_MIB << 20, &scene.image, &err) &&
              engine_qemu.start(scene.host, &scene.spec, &instance, &err);
    CHECK_STR(err.text, "");
    CHECK(ok);
    ok = probe_meet(instance, scene.spec.deadline_ms, &err);
    CHECK(instance_usage(instance, &usage, &err) && usage.cpu_ms > 0);
    CHECK(usage.memory_peak_bytes > 0 && !usage.oom_killed);
    ok = ok && probe_pause(instance, scene.spec.deadline_ms, nonce, &err) &&
         engine_qemu.save(instance, &scene.image, PATIENCE_MS, &err);
    CHECK_STR(err.text, "");
    CHECK(instance_destroy(instance, &err) && ok);

    /* A copy, which is then saved with what it changed, and goes on once more. */
    AUTO(saved_image_finish) struct saved_image second = SAVED_IMAGE_NONE;
    id_make(scene.spec.id);
    ok = engine_qemu.restore(scene.host, &scene.spec, &scene.image, &instance, &err) &&
         probe_wake(instance, scene.spec.deadline_ms, nonce, &err) &&
         probe_pause(instance, scene.spec.deadline_ms, nonce, &err) &&
         saved_image_make(&engine_qemu, (int64_t)2 * MEMORY_MIB << 20, &second, &err) &&
         engine_qemu.save(instance, &second, PATIENCE_MS, &err);
    CHECK_STR(err.text, "");
    CHECK(instance_destroy(instance, &err) && ok);
    id_make(scene.spec.id);
    ok = engine_qemu.restore(scene.host, &scene.spec, &second, &instance, &err) &&
         probe_wake(instance, scene.spec.deadline_ms, nonce, &err);
    CHECK_STR(err.text, "");
    CHECK(instance_destroy(instance, &err) && ok);
}

/* In a process of its own: opens the host, starts a machine, and waits to be killed. */
static _Noreturn void worker_main(const struct fixture *fixture, int report)
{
    struct engine_settings settings = fixture_settings(fixture);
    struct engine_host *host;
    struct instance *instance;
    struct error err = {0};
    struct sandbox_spec spec = {.kind = "run",
                                .vcpus = 1,
                                .memory_mib = MEMORY_MIB,
                                .network = NETWORK_OFF,
                                .deadline_ms = time_boot_ms() + PATIENCE_MS};
    pid_t pid = -1;

    settings.qemu_accel = QEMU_ACCEL_TCG;
    id_make(spec.id);
    if (engine_host_open(&settings, &host, &err) && engine_qemu.start(host, &spec, &instance, &err))
        pid = instance->process.pid;
    else
        printf("# %s\n", err.text);
    if (write(report, &pid, sizeof(pid)) != (ssize_t)sizeof(pid))
        _exit(1);
    for (;;)
        pause();
}

/* Whoever inherited it may not have reaped it yet. */
static bool is_dead(pid_t pid)
{
    AUTO_FREE char *text = NULL;
    struct error absent;
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    return !file_read(path, 4096, &text, &absent) || strstr(text, ") Z");
}

TEST(a_killed_worker_leaves_no_machine_and_the_next_one_no_folder)
{
    AUTO(scene_close) struct scene scene = {.image = SAVED_IMAGE_NONE};
    struct error err = {0};
    int pair[2], status;
    pid_t machine = -1;
    size_t n = 0;

    if (!fixture_open(&scene.fixture))
        SKIP("no folder can be made");
    const char *why = fixture_machine_of_user();
    if (why)
        SKIP(why);
    CHECK(pipe(pair) == 0);
    fflush(stdout);
    pid_t worker = fork();
    if (worker == 0)
        worker_main(&scene.fixture, pair[1]);
    CHECK(read(pair[0], &machine, sizeof(machine)) == (ssize_t)sizeof(machine) && machine > 0);
    kill(worker, SIGKILL);
    CHECK(waitpid(worker, &status, 0) == worker);

    /* Opening waits for the guard, and finds by the journal what is left to remove. */
    struct engine_settings settings = fixture_settings(&scene.fixture);
    CHECK(engine_host_open(&settings, &scene.host, &err));
    CHECK(is_dead(machine));
    const struct reclaimed *reclaimed = engine_host_reclaimed(scene.host, &n);
    CHECK(n == 1 && reclaimed[0].gone);
    CHECK(engine_host_free_slots(scene.host) == settings.slots);
    close(pair[0]);
    close(pair[1]);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "guard") == 0)
        return engine_guard_main(argc - 1, argv + 1);
    if (geteuid() == 0) {
        if (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
            setresuid(NOBODY, NOBODY, NOBODY) != 0)
            return 2;
        execv("/proc/self/exe", argv); /* what it was before is forgotten by exec only */
        return 2;
    }
    return test_run_all();
}
