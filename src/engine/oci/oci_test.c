#include <fcntl.h>
#include <sys/socket.h>

#include "base/time.h"
#include "engine/fixture.h"

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

ENGINE_TEST_MAIN()
