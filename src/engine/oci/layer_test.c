#include <fcntl.h>
#include <poll.h>

#include "base/time.h"
#include "engine/fixture.h"
#include "protocol/channel.h"

enum { ANSWER_MS = 30000 };

/* A step of an image build, from hello to shutdown. */
struct step {
    struct channel channel;
    const char *const *argv;
    bool is_done;
    uint32_t exit_code;
    char failure[256];
};

static bool say_setup(struct step *step, struct error *err)
{
    static const char entropy[64];
    struct message_welcome welcome = {.protocol = MESSAGE_PROTOCOL, .instance = STR("test")};
    struct message_setup setup = {
        .id = 1,
        .entropy = {entropy, sizeof(entropy)},
        .machine_id = STR("0123456789abcdef0123456789abcdef"),
        .boot_id = STR("01234567-89ab-cdef-0123-456789abcdef"),
        .layout = SETUP_LAYOUT_DIRECT,
        .is_layer = 1
    };

    return channel_send(&step->channel, MESSAGE_WELCOME, &welcome, err) &&
           channel_send(&step->channel, MESSAGE_SETUP, &setup, err);
}

static bool say_launch(struct step *step, struct error *err)
{
    struct str argv[8];
    size_t n = 0;

    for (; step->argv[n]; n++)
        argv[n] = str_of(step->argv[n]);
    struct message_launch launch = {
        .id = 2,
        .program = 1,
        .kind = PROGRAM_STEP,
        .argv = {argv, n},
        .user = STR("0"),
        .cwd = STR("/"),
        .stdout_stream = 3,
        .stderr_stream = 5
    };
    return channel_open_stream(&step->channel, 3, CHANNEL_RECEIVES, err) &&
           channel_open_stream(&step->channel, 5, CHANNEL_RECEIVES, err) &&
           channel_send(&step->channel, MESSAGE_LAUNCH, &launch, err);
}

static bool on_message(void *arg, const struct message *message, struct error *err)
{
    struct step *step = arg;
    struct message_shutdown shutdown = {.id = 3, .deadline_ms = 5000};

    if (message->type == MESSAGE_HELLO)
        return say_setup(step, err);
    if (message->type == MESSAGE_SETUP_DONE)
        return say_launch(step, err);
    if (message->type == MESSAGE_EXITED)
        step->exit_code = message->exited.exit_code;
    if (message->type == MESSAGE_QUIESCED)
        return channel_send(&step->channel, MESSAGE_SHUTDOWN, &shutdown, err);
    if (message->type == MESSAGE_DONE)
        step->is_done = true;
    if (message->type == MESSAGE_LAUNCH_FAILED)
        return error_set(err, ERR_INTERNAL, "launch: %.*s", (int)message->launch_failed.text.len,
                         message->launch_failed.text.ptr);
    if (message->type == MESSAGE_ERROR)
        return error_set(err, ERR_INTERNAL, "agent: %.*s", (int)message->error.text.len,
                         message->error.text.ptr);
    return true;
}

static bool on_data(void *arg, uint16_t stream, struct str bytes, bool is_end, struct error *err)
{
    struct step *step = arg;

    (void)is_end;
    if (bytes.len)
        printf("# %.*s", (int)bytes.len, bytes.ptr);
    return channel_consumed(&step->channel, stream, bytes.len, err);
}

static bool step_talk(struct instance *instance, const char *const *argv, struct error *err)
{
    struct step step = {.argv = argv, .exit_code = 99};
    int fd = instance_channel(instance);
    bool ok = true, wants_write;

    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    channel_init(&step.channel, fd, fd, SIDE_HOST);
    while (ok && !step.is_done) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        ok = poll(&ready, 1, ANSWER_MS) == 1 || error_set(err, ERR_TIMEOUT, "no answer");
        ok = ok && channel_read(&step.channel, on_message, on_data, &step, err) &&
             channel_flush(&step.channel, &wants_write, err);
    }
    channel_finish(&step.channel);
    return ok && (step.exit_code == 0 ||
                  error_set(err, ERR_INTERNAL, "the step exits with %u", step.exit_code));
}

/* Two layers: the lower has the program, the upper a file for it to find. */
static const char *layers_make(struct fixture *fixture, char upper_layer[PATH_MAX])
{
    char source[PATH_MAX], target[PATH_MAX + 16];
    const char *build = getenv("HELMR_BUILD_ROOT");
    struct error err = {0};

    snprintf(source, sizeof(source), "%s/src/guest/guest_probe", build ? build : ".");
    if (!fixture_is_static(source))
        return "guest_probe is not built, or not static";
    snprintf(target, sizeof(target), "%s/probe", fixture->layer);
    snprintf(upper_layer, PATH_MAX, "%s/second", fixture->folder);
    if (!directory_make(upper_layer, 0755, &err) ||
        !fixture_run((const char *const[]){"cp", source, target, NULL}))
        return "the image cannot be made";
    return NULL;
}

static void check_step(const struct engine *engine, const char *runtime)
{
    AUTO(fixture_close) struct fixture fixture = {0};
    char second[PATH_MAX], upper[PATH_MAX], made[PATH_MAX + 16], tag[16];
    AUTO(fixture_host_close) struct engine_host *host = NULL;
    struct instance *instance;
    struct error err = {0}, after = {0};

    CHECK(fixture_open(&fixture));
    const char *why = fixture_agent(&fixture, runtime);
    why = why ? why : layers_make(&fixture, second);
    if (why)
        SKIP(why);
    snprintf(upper, sizeof(upper), "%.*s/upper", PATH_MAX - 16, fixture.work_dir);
    snprintf(made, sizeof(made), "%s/made", upper);
    CHECK(directory_make(upper, 0755, &err));

    const char *const layers[] = {fixture.layer, second};
    struct engine_settings settings = fixture_settings(&fixture);
    struct sandbox_spec spec = {.kind = "build",
                                .layout = LAYOUT_DIRECT,
                                .platform = fixture.platform,
                                .layers = layers,
                                .n_layers = 2,
                                .upper = upper,
                                .vcpus = 1,
                                .memory_mib = 256,
                                .network = NETWORK_OFF};
    id_make(spec.id);
    CHECK(engine_host_open(&settings, &host, &err));
    snprintf(tag, sizeof(tag), "%s", engine_host_tag(host));
    CHECK(engine->start(host, &spec, &instance, &err));
    bool ok = step_talk(instance, (const char *const[]){"/probe", "write", "/made", NULL}, &err);
    if (!ok)
        printf("# %s: %.*s\n", err.text, (int)instance_log_tail(instance).len,
               instance_log_tail(instance).ptr);
    CHECK(instance_destroy(instance, &after));
    fixture_host_close(&host);
    CHECK(ok);
    CHECK(access(made, F_OK) == 0);
    CHECK(fixture_nothing_left(&fixture, tag));
}

TEST(what_a_step_writes_in_gvisor_stays_in_the_upper_directory)
{
    check_step(&engine_gvisor, "runsc");
}

TEST(what_a_step_writes_in_a_container_stays_in_the_upper_directory)
{
    check_step(&engine_container, "runc");
}

ENGINE_TEST_MAIN()
