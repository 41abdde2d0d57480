#include "base/time.h"
#include "engine/fixture_kill.h"
#include "engine/probe.h"
#include "engine/saved.h"

enum { PATIENCE_MS = 600 * 1000, MEMORY_MIB = 128 };

/* A machine to go on from: a worker that boots one for each of its lives would take very long. */
struct rest {
    struct saved_image image;
    uint8_t nonce[CHANNEL_NONCE_LEN];
};

static struct sandbox_spec spec_of(void)
{
    struct sandbox_spec spec = {.kind = "run",
                                .vcpus = 1,
                                .memory_mib = MEMORY_MIB,
                                .drives = {.scratch_bytes = 1 << 20},
                                .network = NETWORK_OPEN,
                                .deadline_ms = time_boot_ms() + PATIENCE_MS};

    id_make(spec.id);
    return spec;
}

static bool rest_make(const struct fixture *fixture, struct rest *rest, struct error *err)
{
    struct engine_settings settings = fixture_kill_settings(fixture);
    struct sandbox_spec spec = spec_of();
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct instance *instance;

    if (!engine_host_open(&settings, &host, err) ||
        !saved_image_make(&engine_qemu, (int64_t)2 * MEMORY_MIB << 20, &rest->image, err) ||
        !engine_qemu.start(host, &spec, &instance, err))
        return false;
    bool ok = probe_meet(instance, spec.deadline_ms, err) &&
              probe_pause(instance, spec.deadline_ms, rest->nonce, err) &&
              engine_qemu.save(instance, &rest->image, PATIENCE_MS, err);
    struct error ignored;
    return instance_destroy(instance, ok ? err : &ignored) && ok;
}

static int worker_life(const struct fixture *fixture, void *arg)
{
    const struct rest *rest = arg;
    struct engine_settings settings = fixture_kill_settings(fixture);
    struct sandbox_spec spec = spec_of();
    struct engine_host *host;
    struct instance *instance;
    struct error err = {0};

    if (!engine_host_open(&settings, &host, &err) ||
        !engine_qemu.restore(host, &spec, &rest->image, &instance, &err) ||
        !probe_wake(instance, spec.deadline_ms, rest->nonce, &err) ||
        !instance_destroy(instance, &err)) {
        printf("# %s\n", err.text);
        return 1;
    }
    engine_host_close(host);
    return 0;
}

TEST(kill_at_each_journal_step_leaves_no_stray_of_a_machine)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    struct rest rest = {.image = SAVED_IMAGE_NONE};
    struct error err = {0};

    CHECK(fixture_open(&fixture));
    const char *why = fixture_machine();
    if (why)
        SKIP(why);
    bool is_made = rest_make(&fixture, &rest, &err);
    int n = is_made ? fixture_kill_at_each(&fixture, worker_life, &rest) : 0;
    saved_image_finish(&rest.image);
    CHECK_STR(err.text, "");
    CHECK(is_made && n > 14);
}

ENGINE_TEST_MAIN()
