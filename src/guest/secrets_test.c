#include "guest/scenario.h"

static const char value[] = "k3y-that-nobody-else-sees\n";

static bool send_secret(struct harness *harness, uint32_t program, const char *path,
                        struct str bytes, const char *owner)
{
    struct message_secret secret = {
        .id = 50,
        .program = program,
        .placement = SECRET_IN_FILE,
        .target = str_of(path),
        .mode = 0400,
        .owner = str_of(owner),
        .value = bytes,
    };

    return harness_send(harness, MESSAGE_SECRET, &secret);
}

static bool end_secrets(struct harness *harness, uint32_t program, uint32_t count)
{
    struct message_secrets_end end = {51, program, count};

    harness->has_secrets = false;
    return harness_send(harness, MESSAGE_SECRETS_END, &end) &&
           harness_until(harness, &harness->has_secrets);
}

static bool give(struct harness *harness, const char *path)
{
    return send_secret(harness, 1, path, str_of(value), "") && end_secrets(harness, 1, 1);
}

static bool run_again(struct harness *harness, const char *const *argv, const char *user)
{
    harness->has_quiesced = harness->has_failed = harness->has_started = false;
    harness->out.len = 0;
    return run_command(harness, argv, user);
}

ON_EVERY_ENGINE(a_secret_is_a_file_of_one_program)
{
    CHECK(set_up(harness));
    CHECK(give(harness, "/run/secrets/key"));
    CHECK(run_command(harness, ARGV("probe", "cat", "/run/secrets/key"), ""));
    CHECK_STR(harness->out.bytes, value);

    CHECK(run_again(harness, ARGV("probe", "cat", "/run/secrets/key"), "root"));
    CHECK_STR(harness->out.bytes, "/run/secrets/key: No such file or directory\n");
}

ON_EVERY_ENGINE(a_secret_belongs_to_the_user_of_its_program)
{
    CHECK(set_up(harness));
    CHECK(give(harness, "/etc/keys/key"));
    CHECK(run_command(harness, ARGV("probe", "list", "/etc/keys"), ""));
    CHECK(has(harness, "key 100400 1000\n"));
    CHECK(has(harness, ". 40700 1000\n"));

    CHECK(give(harness, "/etc/keys/key"));
    CHECK(run_again(harness, ARGV("probe", "list", "/etc/keys"), "root"));
    CHECK(has(harness, "key 100400 0\n"));
}

ON_EVERY_ENGINE(a_file_at_the_path_is_covered_and_not_changed)
{
    CHECK(set_up(harness));
    CHECK(give(harness, "/etc/group"));
    CHECK(run_command(harness, ARGV("probe", "cat", "/etc/group"), ""));
    CHECK_STR(harness->out.bytes, value);

    CHECK(run_again(harness, ARGV("probe", "cat", "/etc/group"), ""));
    CHECK(has(harness, "wheel:x:70:bob,ann\n"));
}

static void not_even_root_can_write_a_secret(struct harness *harness)
{
    CHECK(set_up(harness));
    CHECK(give(harness, "/etc/keys/key"));
    CHECK(run_command(harness, ARGV("probe", "write", "/etc/keys/key"), "root"));
    CHECK(has(harness, "/etc/keys/key refused\n"));
}

/* gVisor lets a root write its own copy of what is bound read-only. */
TEST(not_even_root_can_write_a_secret_on_linux)
{
    run_scenario(not_even_root_can_write_a_secret, ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST(not_even_root_can_write_a_secret_on_runc)
{
    run_scenario(not_even_root_can_write_a_secret, ON_RUNC, SETUP_LAYOUT_DIRECT);
}

ON_EVERY_ENGINE(another_program_does_not_see_it)
{
    CHECK(set_up(harness));
    CHECK(give(harness, "/etc/keys/key"));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "signal"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(harness_launch(harness, 2, PROGRAM_STEP, ARGV("probe", "cat", "/etc/keys/key"), NULL,
                         "root"));
    CHECK(harness_until(harness, &harness->has_other_quiesced));
    CHECK(harness->other_out.len == 0);
    CHECK(harness_send(harness, MESSAGE_SIGNAL, &(struct message_signal){9, 1, 10}));
    CHECK(harness_until(harness, &harness->has_quiesced));
}

/* The second one has a root of its own where mounts are shared. */
ON_EVERY_ENGINE(a_program_beside_another_one_has_its_own)
{
    CHECK(set_up(harness));
    CHECK(give(harness, "/etc/keys/key"));
    CHECK(harness_launch(harness, 1, PROGRAM_STEP, ARGV("probe", "signal"), NULL, ""));
    CHECK(harness_until_text(harness, "ready\n"));
    CHECK(send_secret(harness, 2, "/etc/others/key", STR("other"), ""));
    CHECK(end_secrets(harness, 2, 1));
    CHECK(harness_launch(harness, 2, PROGRAM_STEP, ARGV("probe", "cat", "/etc/others/key"), NULL,
                         ""));
    CHECK(harness_until(harness, &harness->has_other_quiesced));
    CHECK(str_equal(buf_str(&harness->other_out), STR("other")));
    CHECK(harness_send(harness, MESSAGE_SIGNAL, &(struct message_signal){9, 1, 10}));
    CHECK(harness_until(harness, &harness->has_quiesced));
    CHECK(run_again(harness, ARGV("probe", "list", "/etc"), "root"));
    CHECK(!strstr(harness->out.bytes, "keys") && !strstr(harness->out.bytes, "others"));
}

ON_EVERY_ENGINE(the_largest_secrets_arrive_whole)
{
    static char much[SECRET_VALUE_MAX];

    for (size_t i = 0; i < sizeof much; i++)
        much[i] = (char)(i % 251);
    CHECK(set_up(harness));
    for (unsigned i = 0; i < SECRETS_MAX; i++) {
        char path[64];
        snprintf(path, sizeof path, "/etc/keys/key-%u", i);
        CHECK(send_secret(harness, 1, path, (struct str){much, sizeof much}, ""));
        CHECK(harness_step(harness));
    }
    CHECK(end_secrets(harness, 1, SECRETS_MAX));
    CHECK(run_command(harness, ARGV("probe", "cat", "/etc/keys/key-63"), ""));
    CHECK(harness->out.len == sizeof much + 1);
    CHECK(memcmp(harness->out.bytes, much, sizeof much) == 0);
}

static bool fails(struct harness *harness, const char *path, const char *owner, const char *failure)
{
    return send_secret(harness, 1, path, str_of(value), owner) && end_secrets(harness, 1, 1) &&
           run_again(harness, ARGV("probe", "show"), "") && harness->has_failed &&
           !harness->has_started && strcmp(harness->failure, failure) == 0;
}

ON_EVERY_ENGINE(a_path_that_is_no_file_is_refused)
{
    CHECK(set_up(harness));
    CHECK(fails(harness, "/workspace", "", "unsafe_path"));
    CHECK_STR(harness->text, "the secret at /workspace: the image has a directory there");
    CHECK(fails(harness, "/link", "", "unsafe_path"));
    CHECK_STR(harness->text, "the secret at /link: the image has a link there");
    CHECK(fails(harness, "/link/key", "", "unsafe_path"));
    CHECK(fails(harness, "/etc/passwd/key", "", "unsafe_path"));
}

ON_EVERY_ENGINE(a_secret_that_its_user_cannot_read_fails_the_launch)
{
    CHECK(set_up(harness));
    CHECK(fails(harness, "/etc/keys/key", "root", "secret_unreadable"));
    CHECK_STR(harness->text, "/etc/keys/key: Permission denied");
    CHECK(run_again(harness, ARGV("probe", "list", "/etc"), "root"));
    CHECK(!strstr(harness->out.bytes, "keys"));
}

static bool is_refused(struct harness *harness, const char *path)
{
    harness->has_error = false;
    if (!send_secret(harness, 1, path, str_of(value), "") ||
        !harness_until(harness, &harness->has_error))
        return false;
    return strcmp(harness->failure, "unsafe_path") == 0;
}

TEST(a_reserved_or_unclean_path_is_refused)
{
    static const char *const paths[] = {"/",          "key",        "/etc/../key", "/etc//key",
                                        "/proc/key",  "/sys/k",     "/dev",        "/dev/shm/key",
                                        "/opt/helmr", "/etc/./key", "/etc/"};
    AUTO(harness_finish) struct harness harness = {.fd = -1, .process = {.pidfd = -1}};
    struct error err;

    if (harness_obstacle(ON_LINUX))
        SKIP(harness_obstacle(ON_LINUX));
    CHECK(harness_prepare(&harness, ON_LINUX, SETUP_LAYOUT_DIRECT, &err));
    CHECK(harness_start(&harness, &err));
    CHECK(set_up(&harness));
    for (size_t i = 0; i < COUNT_OF(paths); i++)
        CHECK(is_refused(&harness, paths[i]));
}

/* Whether a file of the image holds the text. */
static bool image_holds(const struct harness *harness, const char *text)
{
    char image[512];
    struct error err;

    snprintf(image, sizeof image, "%s/image", harness->folder);
    const char *const argv[] = {"grep", "-rqaF", "-e", text, image, NULL};
    struct process_spec spec = {.argv = argv};
    int status = -1;
    return process_run(&spec, (struct str){0}, 20000, NULL, NULL, &status, &err) && status == 0;
}

static void no_secret_gets_into_a_layer(struct harness *harness)
{
    struct message_setup setup = harness_setup(harness);

    setup.is_layer = 1;
    setup.mount = (struct str){0};
    setup.user = STR("root");
    CHECK(harness_send(harness, MESSAGE_SETUP, &setup));
    CHECK(harness_until(harness, &harness->has_setup));
    CHECK(send_secret(harness, 1, "/root/.config/app/key", str_of(value), ""));
    CHECK(send_secret(harness, 1, "/etc/passwd", str_of(value), ""));
    CHECK(send_secret(harness, 1, "/kept/key", str_of(value), ""));
    CHECK(end_secrets(harness, 1, 3));
    CHECK(run_command(harness, ARGV("probe", "write", "/kept/made-by-the-step"), ""));
    CHECK(has(harness, "/kept/made-by-the-step written\n"));

    /* Already now, before the shutdown: a host may capture between two steps. */
    CHECK(is_in_image(harness, "kept/made-by-the-step"));
    CHECK(!is_in_image(harness, "root") && !is_in_image(harness, "kept/key"));
    CHECK(!image_holds(harness, "k3y-that-nobody"));
    CHECK(image_holds(harness, "ann:x:1000"));
}

TEST(no_secret_gets_into_a_layer_on_linux)
{
    run_scenario(no_secret_gets_into_a_layer, ON_LINUX, SETUP_LAYOUT_DIRECT);
}

TEST(no_secret_gets_into_a_layer_on_gvisor)
{
    run_scenario(no_secret_gets_into_a_layer, ON_GVISOR, SETUP_LAYOUT_DIRECT);
}

TEST(no_secret_gets_into_a_layer_on_runc)
{
    run_scenario(no_secret_gets_into_a_layer, ON_RUNC, SETUP_LAYOUT_DIRECT);
}

TEST_MAIN()
