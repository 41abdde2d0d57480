#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/time.h"
#include "engine/fixture.h"
#include "engine/host_state.h"
#include "engine/journal.h"

enum { STEPS_MAX = 64, WAIT_MS = 10000 };

static struct engine_settings settings_of(const struct fixture *fixture)
{
    struct engine_settings settings = fixture_settings(fixture);

    settings.slots = 1; /* hence one prepared network: few steps, all of them met */
    settings.network_enabled = true;
    return settings;
}

static struct sandbox_spec spec_of(const struct fixture *fixture, const char *const *layers)
{
    struct sandbox_spec spec = {.kind = "run",
                                .lease_id = "01890000-0000-7000-8000-000000000001",
                                .platform = fixture->platform,
                                .layers = layers,
                                .n_layers = 1,
                                .vcpus = 1,
                                .memory_mib = 128,
                                .disk_mib = 64,
                                .network = NETWORK_OPEN};

    id_make(spec.id);
    return spec;
}

/* The whole life of a worker with one sandbox; 0: it got to the end. */
static int worker_life(const struct fixture *fixture, int die_at)
{
    struct engine_settings settings = settings_of(fixture);
    const char *const layers[] = {fixture->layer};
    struct sandbox_spec spec = spec_of(fixture, layers);
    struct engine_host *host;
    struct instance *instance;
    struct error err = {0};
    char byte;

    journal_die_at = die_at;
    if (!engine_host_open(&settings, &host, &err) ||
        !engine_gvisor.start(host, &spec, &instance, &err) ||
        recv(instance_channel(instance), &byte, 1, MSG_PEEK) != 1 ||
        !instance_destroy(instance, &err)) {
        printf("# %s\n", err.text);
        return 1;
    }
    engine_host_close(host);
    return 0;
}

static bool reclaims_everything(const struct fixture *fixture)
{
    struct engine_settings settings = settings_of(fixture);
    struct engine_host *host;
    struct error err = {0};
    char tag[16];

    settings.network_enabled = false;
    if (!engine_host_open(&settings, &host, &err)) {
        printf("# %s\n", err.text);
        return false;
    }
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    size_t n_quarantined = engine_host_quarantined(host, NULL, 0);
    engine_host_close(host);
    return n_quarantined == 0 && fixture_nothing_left(fixture, tag);
}

TEST(kill_at_each_journal_step_leaves_no_stray)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    int step = 1;
    bool has_ended = false;

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, "runsc");
    if (why)
        SKIP(why);
    for (; step < STEPS_MAX && !has_ended; step++) {
        int status;
        (void)fflush(stdout);
        pid_t pid = fork();
        if (pid == 0)
            _exit(worker_life(&fixture, step));
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        has_ended = status == 0;
        bool is_clean = reclaims_everything(&fixture);
        if (!is_clean)
            printf("# after a kill at step %d\n", step);
        CHECK(is_clean);
    }
    CHECK(has_ended && step > 15);
}

/* Everything of the tag in the unified or first hierarchy is empty. */
static bool groups_are_empty(const char *tag)
{
    char script[256];

    snprintf(script, sizeof(script),
             "test -z \"$(cat /sys/fs/cgroup/*/helmr-test/%s/*/cgroup.procs "
             "/sys/fs/cgroup/helmr-test/%s/*/cgroup.procs 2>/dev/null)\"",
             tag, tag);
    struct error err = {0};
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    return process_must(argv, (struct str){0}, 10000, NULL, &err);
}

static void worker_until_killed(const struct fixture *fixture, int report)
{
    struct engine_settings settings = settings_of(fixture);
    const char *const layers[] = {fixture->layer};
    struct sandbox_spec spec = spec_of(fixture, layers);
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct instance *instance;
    struct error err = {0};
    char byte, tag[TAG_LEN + 1] = "";

    if (engine_host_open(&settings, &host, &err) &&
        engine_gvisor.start(host, &spec, &instance, &err) &&
        recv(instance_channel(instance), &byte, 1, MSG_PEEK) == 1)
        snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    (void)!write(report, tag, sizeof(tag));
    (void)pause();
}

TEST(no_guest_outlives_its_killed_worker)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    char tag[TAG_LEN + 1] = "";
    int report[2];

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, "runsc");
    if (why)
        SKIP(why);
    CHECK(pipe(report) == 0);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        worker_until_killed(&fixture, report[1]);
    ssize_t got = read(report[0], tag, sizeof(tag));
    bool was_running = got == sizeof(tag) && tag[0] && !groups_are_empty(tag);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    /* Nobody but the guard is left to do it. */
    int64_t deadline = time_boot_ms() + WAIT_MS;
    bool is_empty = false;
    while (was_running && !(is_empty = groups_are_empty(tag)) && time_boot_ms() < deadline)
        (void)poll(NULL, 0, 10);
    close(report[0]);
    close(report[1]);
    CHECK(reclaims_everything(&fixture));
    CHECK(was_running && is_empty);
}

TEST(what_was_reclaimed_is_reported_with_its_lease)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    struct engine_settings settings;
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct error err = {0};
    size_t n, n_with_lease = 0;
    int status;

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, "runsc");
    if (why)
        SKIP(why);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(worker_life(&fixture, 14));
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    settings = settings_of(&fixture);
    settings.network_enabled = false;
    CHECK(engine_host_open(&settings, &host, &err));
    const struct reclaimed *list = engine_host_reclaimed(host, &n);
    for (size_t i = 0; i < n; i++) {
        n_with_lease += strcmp(list[i].lease_id, "01890000-0000-7000-8000-000000000001") == 0;
        CHECK(list[i].gone);
    }
    fixture_host_close(&host);
    CHECK(n >= 1 && n_with_lease == 1);
}

TEST(a_second_worker_of_the_same_directory_is_refused)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    struct engine_settings settings;
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct engine_host *second;
    struct error err = {0};

    if (geteuid() != 0)
        SKIP("needs root");
    CHECK(fixture_open(&fixture));
    settings = fixture_settings(&fixture);
    CHECK(engine_host_open(&settings, &host, &err));
    bool refused = !engine_host_open(&settings, &second, &err) && err.code == ERR_CONFLICT;
    fixture_host_close(&host);
    CHECK(refused);
}

ENGINE_TEST_MAIN()
