#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/time.h"
#include "engine/fixture.h"
#include "engine/instance.h"
#include "engine/saved.h"

static struct sandbox_spec spec_of(const struct fixture *fixture, const char *const *layers)
{
    struct sandbox_spec spec = {.kind = "run",
                                .layout = LAYOUT_AGENT,
                                .platform = fixture->platform,
                                .layers = layers,
                                .n_layers = 1,
                                .vcpus = 1,
                                .memory_mib = 256,
                                .disk_mib = 64,
                                .network = NETWORK_OFF};

    id_make(spec.id);
    return spec;
}

static void check_probe(const struct engine *engine, const char *runtime)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct engine_result result;
    struct error err = {0};
    char tag[16];

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, runtime);
    if (why)
        SKIP(why);

    struct engine_settings settings = fixture_settings(&fixture);
    if (!engine_host_open(&settings, &host, &err))
        printf("# %s\n", err.text);
    CHECK(err.text[0] == '\0');
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    engine->probe(host, fixture.platform, (const char *const[]){fixture.layer}, 1, &result);
    if (!result.usable)
        printf("# %s\n", result.reason);
    CHECK(engine_host_free_slots(host) == 4);
    fixture_host_close(&host);
    CHECK(result.usable);
    CHECK(fixture_nothing_left(&fixture, tag));
}

TEST(gvisor_starts_a_guest_to_its_hello_and_leaves_nothing)
{
    check_probe(&engine_gvisor, "runsc");
}

TEST(a_container_starts_a_guest_to_its_hello_and_leaves_nothing)
{
    check_probe(&engine_container, "runc");
}

TEST(a_running_sandbox_takes_a_slot_until_it_is_destroyed)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct instance *instance;
    struct error err = {0};
    struct instance_usage usage;
    char tag[16], byte;

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, "runsc");
    if (why)
        SKIP(why);

    struct engine_settings settings = fixture_settings(&fixture);
    CHECK(engine_host_open(&settings, &host, &err));
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    const char *const layers[] = {fixture.layer};
    struct sandbox_spec spec = spec_of(&fixture, layers);
    CHECK(engine_gvisor.start(host, &spec, &instance, &err));
    CHECK(engine_host_free_slots(host) == 3);
    CHECK(recv(instance_channel(instance), &byte, 1, MSG_PEEK) == 1);
    CHECK(instance_usage(instance, &usage, &err));
    CHECK(usage.memory_peak_bytes > 0 && usage.cpu_ms > 0 && !usage.oom_killed);

    /* The same id again is refused and does not disturb the first. */
    struct instance *second;
    CHECK(!engine_gvisor.start(host, &spec, &second, &err));
    CHECK(err.code == ERR_CONFLICT);
    CHECK(instance_destroy(instance, &err));
    CHECK(engine_host_free_slots(host) == 4);
    fixture_host_close(&host);
    CHECK(fixture_nothing_left(&fixture, tag));
}

/* Of the sandbox's processes, its own and those of its programs. */
static bool may_set_cpuid(pid_t pid)
{
    char path[64], text[4096];

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[got < 0 ? 0 : got] = '\0';
    return !strstr(text, "\nSeccomp:\t2\n");
}

TEST(a_program_in_gvisor_asks_the_processor_itself)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct instance *instance;
    struct error err = {0};
    char byte;

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, "runsc");
    if (why)
        SKIP(why);
    struct engine_settings settings = fixture_settings(&fixture);
    CHECK(engine_host_open(&settings, &host, &err));
    struct sandbox_spec spec = spec_of(&fixture, (const char *const[]){fixture.layer});
    CHECK(engine_gvisor.start(host, &spec, &instance, &err));
    CHECK(recv(instance_channel(instance), &byte, 1, MSG_PEEK) == 1);
    bool may = may_set_cpuid(instance->process.pid);
    CHECK(instance_destroy(instance, &err));
    CHECK(!may);
}

static bool has_ended(const struct instance *instance, int wait_ms)
{
    struct pollfd watched = {.fd = instance_pidfd(instance), .events = POLLIN};

    return poll(&watched, 1, wait_ms) != 0;
}

/* A folder in memory is the only place where what a sandbox held may lie in the clear. */
TEST(a_saved_sandbox_ends_and_its_memory_starts_another)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct instance *instance = NULL;
    struct error err = {0};
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(saved_image_finish) struct saved_image kept = SAVED_IMAGE_NONE;
    struct stat file;
    char hello[16];

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, "runsc");
    if (why)
        SKIP(why);
    struct engine_settings settings = fixture_settings(&fixture);
    CHECK(engine_host_open(&settings, &host, &err));
    struct sandbox_spec spec = spec_of(&fixture, (const char *const[]){fixture.layer});
    CHECK(engine_gvisor.start(host, &spec, &instance, &err));
    CHECK(recv(instance_channel(instance), hello, sizeof hello, 0) > 0);

    CHECK(saved_image_make(&engine_gvisor, MIB(64), &image, &err));
    if (!engine_gvisor.save(instance, &image, 10000, &err))
        printf("# %s\n", err.text);
    CHECK(has_ended(instance, 5000));
    CHECK(instance_destroy(instance, &err));
    CHECK(fstatat(image.folder, GVISOR_IMAGE, &file, 0) == 0 && file.st_size > 0);

    CHECK(saved_image_make(&engine_gvisor, MIB(256), &kept, &err));
    CHECK(saved_copy(&image, &kept, &err));
    for (int i = 0; i < 2; i++) {
        id_make(spec.id);
        CHECK(engine_gvisor.restore(host, &spec, i ? &kept : &image, &instance, &err));
        bool is_over = has_ended(instance, 500);
        if (is_over)
            printf("# %.*s\n", (int)instance_log_tail(instance).len,
                   instance_log_tail(instance).ptr);
        CHECK(instance_destroy(instance, &err));
        CHECK(!is_over);
    }
}

ENGINE_TEST_MAIN()
