#include <poll.h>
#include <sys/socket.h>

#include "base/time.h"
#include "engine/fixture_kill.h"
#include "engine/host_state.h"

enum { WAIT_MS = 10000 };

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

static int worker_life(const struct fixture *fixture, void *arg UNUSED)
{
    struct engine_settings settings = fixture_kill_settings(fixture);
    const char *const layers[] = {fixture->layer};
    struct sandbox_spec spec = spec_of(fixture, layers);
    struct engine_host *host;
    struct instance *instance;
    struct error err = {0};
    char byte;

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

TEST(kill_at_each_journal_step_leaves_no_stray)
{
    AUTO(fixture_close) struct fixture fixture = {0};

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, "runsc");
    if (why)
        SKIP(why);
    CHECK(fixture_kill_at_each(&fixture, worker_life, NULL) > 14);
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
    struct engine_settings settings = fixture_kill_settings(fixture);
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
    CHECK(fixture_reclaims(&fixture));
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
    CHECK(fixture_live(&fixture, worker_life, NULL, 14, &status) && WIFSIGNALED(status));
    settings = fixture_kill_settings(&fixture);
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
