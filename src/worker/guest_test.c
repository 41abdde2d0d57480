#include "worker/guest.h"

#include "base/time.h"
#include "engine/fixture.h"
#include "worker/redact.h"
#include "worker/worker.h"

/* A worker without a server: enough of it to start sandboxes of build steps. */
struct rig {
    struct fixture fixture;
    struct worker worker;
    struct failure failure;
    struct arena arena;
    struct image image;
    const char *const *layers;
    char upper[PATH_MAX + 16];
    struct buf out;
};

static void rig_close(struct rig *rig)
{
    engine_host_close(rig->worker.host);
    image_store_close(rig->worker.images);
    arena_finish(&rig->arena);
    buf_finish(&rig->out);
    fixture_close(&rig->fixture);
}

/* An image of one layer, with the probe in it. */
static bool make_image(struct rig *rig, struct error *err)
{
    char digest[DIGEST_TEXT];

    return image_store_open(rig->fixture.work_dir, &rig->worker.images, err) &&
           image_import_directory(rig->worker.images, "probe:1", rig->fixture.layer, NULL, digest,
                                  err) &&
           image_find(rig->worker.images, "probe:1", &rig->arena, &rig->image, err) &&
           image_unpack(rig->worker.images, &rig->image, &rig->arena, &rig->layers, err);
}

/* NULL, or why a step cannot be tried here. */
static const char *rig_open(struct rig *rig, const struct engine *engine, const char *runtime)
{
    const char *build = getenv("HELMR_BUILD_ROOT");
    char from[PATH_MAX], bin[PATH_MAX + 16];
    struct error err = {0};

    rig->out.max = MIB(1);
    rig->worker.engine = rig->worker.build_engine = engine;
    if (!fixture_open(&rig->fixture))
        return "there is no folder";
    const char *why = fixture_agent(&rig->fixture, runtime);
    if (why)
        return why;
    snprintf(from, sizeof from, "%s/src/guest/guest_probe", build ? build : ".");
    snprintf(bin, sizeof bin, "%s/bin", rig->fixture.layer);
    snprintf(rig->upper, sizeof rig->upper, "%s/upper", rig->fixture.work_dir);
    struct engine_settings settings = fixture_settings(&rig->fixture);
    if (!directory_make(bin, 0755, &err) || !directory_make(rig->upper, 0755, &err) ||
        !fixture_run((const char *const[]){"cp", from, bin, NULL}) || !make_image(rig, &err) ||
        !engine_host_open(&settings, &rig->worker.host, &err)) {
        printf("# %s\n", err.text);
        return "the rig cannot be made";
    }
    return NULL;
}

static bool take_output(void *arg, enum guest_stream stream UNUSED, struct str bytes)
{
    return redaction_feed(arg, bytes);
}

static bool collect(void *arg, struct str bytes)
{
    struct error err;

    return buf_append(arg, bytes, &err);
}

struct step {
    const char *const *argv;
    const struct secret *value; /* at /run/secrets/key, or NULL */
    int64_t limit_ms;
    bool was_timed_out;
    struct guest_result result;
};

static bool run_step(struct rig *rig, struct step *step, struct error *err)
{
    const struct guest_secret secret = {
        "/run/secrets/key", step->value, SECRET_IN_FILE, 0400, NULL, NULL};
    const struct image_config config = {.workdir = STR("/")};
    struct redactor *redactor = redactor_create(&step->value, step->value ? 1 : 0);
    struct redaction redaction;
    struct guest *guest = NULL;
    struct sandbox_spec spec = {
        .kind = "build",
        .layout = LAYOUT_DIRECT,
        .platform = rig->fixture.platform,
        .layers = rig->layers,
        .n_layers = rig->image.n_layers,
        .upper = rig->upper,
        .vcpus = 1,
        .memory_mib = 128,
        .disk_mib = 64,
        .network = NETWORK_OFF,
        .deadline_ms = time_boot_ms() + 30000,
    };
    struct guest_setup setup = {.spec = &spec, .config = &config, .is_layer = true};
    struct guest_program program = {
        .kind = PROGRAM_STEP,
        .argv = step->argv,
        .listener = {take_output, NULL, &redaction},
        .secrets = &secret,
        .n_secrets = step->value ? 1 : 0,
    };

    id_make(spec.id);
    redaction_init(&redaction, redactor, collect, &rig->out);
    bool is_fine = guest_start(&rig->worker, NULL, &spec, &rig->failure, &guest, err) &&
                   guest_set_up(guest, &setup, err) && guest_launch(guest, &program, err) &&
                   guest_follow(guest, time_boot_ms() + step->limit_ms, &step->result, err);
    step->was_timed_out = is_fine && guest_was_timed_out(guest);
    guest_stop(guest);
    is_fine &= redaction_end(&redaction);
    redactor_destroy(redactor);
    if (!is_fine)
        printf("# %s\n", err->text);
    return is_fine;
}

#define ON_BOTH_ENGINES(name)                                           \
    static void name(const struct engine *engine, const char *runtime); \
    TEST(name##_in_gvisor)                                              \
    {                                                                   \
        name(&engine_gvisor, "runsc");                                  \
    }                                                                   \
    TEST(name##_in_a_container)                                         \
    {                                                                   \
        name(&engine_container, "runc");                                \
    }                                                                   \
    static void name(const struct engine *engine, const char *runtime)

ON_BOTH_ENGINES(a_step_reads_its_secret_and_nothing_of_it_stays)
{
    AUTO(rig_close) struct rig rig = {0};
    AUTO(secret_finish) struct secret value = secret_create(STR("k3y-of-this-step\n"));
    struct step step = {
        .argv = (const char *const[]){"guest_probe", "cat", "/run/secrets/key", NULL},
        .value = &value,
        .limit_ms = 60000,
    };
    struct error err = {0};
    char left[PATH_MAX + 64];

    const char *why = rig_open(&rig, engine, runtime);
    if (why)
        SKIP(why);
    CHECK(run_step(&rig, &step, &err));
    CHECK(step.result.exit_code == 0 && step.result.signal == 0);
    CHECK(str_equal(buf_str(&rig.out), STR("[redacted]\n")));

    snprintf(left, sizeof left, "%s/run/secrets", rig.upper);
    CHECK(access(left, F_OK) != 0);
    CHECK(fixture_run((const char *const[]){"sh", "-c", "! grep -rqa k3y-of-this \"$0\"",
                                            rig.fixture.folder, NULL}));
}

ON_BOTH_ENGINES(a_step_that_takes_too_much_memory_is_told_so)
{
    AUTO(rig_close) struct rig rig = {0};
    struct step step = {
        .argv = (const char *const[]){"guest_probe", "eat", NULL},
        .limit_ms = 120000,
    };
    struct error err = {0};

    const char *why = rig_open(&rig, engine, runtime);
    if (why)
        SKIP(why);
    CHECK(run_step(&rig, &step, &err));
    CHECK(step.result.oom && !step.was_timed_out);
}

ON_BOTH_ENGINES(a_step_that_takes_too_long_is_told_so)
{
    AUTO(rig_close) struct rig rig = {0};
    struct step step = {
        .argv = (const char *const[]){"guest_probe", "signal", NULL},
        .limit_ms = 500,
    };
    struct error err = {0};

    const char *why = rig_open(&rig, engine, runtime);
    if (why)
        SKIP(why);
    CHECK(run_step(&rig, &step, &err));
    CHECK(step.was_timed_out && !step.result.oom);
}

TEST(a_command_that_is_not_there_is_the_images_fault)
{
    AUTO(rig_close) struct rig rig = {0};
    struct step step = {
        .argv = (const char *const[]){"missing", NULL},
        .limit_ms = 60000,
    };
    struct error err = {0};

    const char *why = rig_open(&rig, &engine_gvisor, "runsc");
    if (why)
        SKIP(why);
    CHECK(!run_step(&rig, &step, &err));
    CHECK(err.code == ERR_UNPROCESSABLE && !rig.failure.retryable);
    CHECK_STR(rig.failure.text, "missing: No such file or directory");
}

ENGINE_TEST_MAIN()
