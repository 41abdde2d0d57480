/* Secrets of a task that already waits for its release, as a sandbox that was made ahead gets
 * them. */
#include "guest/scenario.h"

static const char value[] = "k3y-that-nobody-else-sees\n";

static bool launch_task(struct harness *harness, const char *user)
{
    return set_up(harness) &&
           harness_launch(harness, 1, PROGRAM_TASK, ARGV("node", "main.js"), NULL, user) &&
           harness_until(harness, &harness->has_started);
}

static bool give(struct harness *harness, const struct message_secret *secrets, uint32_t n)
{
    struct message_secrets_end end = {51, 1, n};

    for (uint32_t i = 0; i < n; i++) {
        struct message_secret secret = secrets[i];
        secret.id = 50;
        secret.program = 1;
        if (!secret.value.ptr)
            secret.value = str_of(value);
        if (!harness_send(harness, MESSAGE_SECRET, &secret) || !harness_step(harness))
            return false;
    }
    return harness_send(harness, MESSAGE_SECRETS_END, &end);
}

static bool give_all(struct harness *harness, const struct message_secret *secrets, uint32_t n)
{
    return give(harness, secrets, n) && harness_until(harness, &harness->has_secrets);
}

/* Releases the task, which does what `what` says, and leaves its output as text. */
static bool release(struct harness *harness, const char *what)
{
    AUTO(buf_finish) struct buf start = {.max = 65536};
    struct message_a_start fields = {.mode = STR("run"), .options = str_of(what)};
    struct error err;

    if (!message_encode(MESSAGE_A_START, &fields, &start, &err))
        return false;
    struct message_release message = {.id = 5, .program = 1, .start = buf_str(&start)};
    return harness_send(harness, MESSAGE_RELEASE, &message) &&
           harness_until(harness, &harness->has_quiesced) &&
           buf_append(&harness->out, (struct str){"", 1}, &err);
}

static bool look_again(struct harness *harness, const char *const *argv)
{
    harness->has_quiesced = false;
    harness->out.len = 0;
    return run_command(harness, argv, "root");
}

#define FILE_AT(path, mode_, owner_) \
    {.placement = SECRET_IN_FILE, .target = STR(path), .mode = (mode_), .owner = STR(owner_)}
#define DIRECTORY_AT(path, name_, mode_, owner_) \
    {.placement = SECRET_IN_DIRECTORY,           \
     .target = STR(path),                        \
     .name = STR(name_),                         \
     .mode = (mode_),                            \
     .owner = STR(owner_)}
#define VARIABLE(name_) {.placement = SECRET_IN_ENVIRONMENT, .target = STR(name_)}

ON_EVERY_ENGINE(a_task_that_waits_gets_a_variable)
{
    static const struct message_secret secrets[] = {VARIABLE("API_KEY")};

    CHECK(launch_task(harness, ""));
    CHECK(give_all(harness, secrets, 1));
    CHECK(release(harness, "env"));
    CHECK(has(harness, "env API_KEY=k3y-that-nobody-else-sees\n"));
    CHECK(look_again(harness, ARGV("probe", "show")));
    CHECK(!strstr(harness->out.bytes, "API_KEY"));
}

ON_EVERY_ENGINE(a_task_that_waits_gets_a_file_and_nothing_stays)
{
    static const struct message_secret secrets[] = {FILE_AT("/workspace/conf/key", 0640, "")};

    CHECK(launch_task(harness, ""));
    CHECK(give_all(harness, secrets, 1));
    CHECK(release(harness, "cat /workspace/conf/key"));
    CHECK_STR(harness->out.bytes, value);
    CHECK(look_again(harness, ARGV("probe", "list", "/workspace")));
    CHECK(!strstr(harness->out.bytes, "conf"));
}

ON_EVERY_ENGINE(mode_and_owner_are_what_was_declared)
{
    static const struct message_secret secrets[] = {
        FILE_AT("/run/secrets/a", 0600, ""),
        FILE_AT("/run/secrets/b", 0644, "root"),
        FILE_AT("/run/secrets/c", 0440, "1000:70"),
    };

    CHECK(launch_task(harness, ""));
    CHECK(give_all(harness, secrets, 3));
    CHECK(release(harness, "list /run/secrets"));
    CHECK(has(harness, ". 40700 1000\n"));
    CHECK(has(harness, "a 100600 1000\n"));
    CHECK(has(harness, "b 100644 0\n"));
    CHECK(has(harness, "c 100440 1000\n"));
}

ON_EVERY_ENGINE(a_directory_holds_files_named_after_their_secrets)
{
    static const struct message_secret secrets[] = {
        DIRECTORY_AT("/run/creds", "ONE", 0700, ""),
        DIRECTORY_AT("/run/creds", "TWO", 0700, ""),
    };

    CHECK(launch_task(harness, ""));
    CHECK(give_all(harness, secrets, 2));
    CHECK(release(harness, "list /run/creds"));
    CHECK(has(harness, ". 40700 1000\n"));
    CHECK(has(harness, "ONE 100600 1000\n"));
    CHECK(has(harness, "TWO 100600 1000\n"));
    CHECK(look_again(harness, ARGV("probe", "list", "/run")));
    CHECK(!strstr(harness->out.bytes, "creds"));
}

ON_EVERY_ENGINE(a_directory_of_the_image_is_covered)
{
    static const struct message_secret secrets[] = {DIRECTORY_AT("/etc", "ONE", 0750, "")};

    CHECK(launch_task(harness, ""));
    CHECK(give_all(harness, secrets, 1));
    CHECK(release(harness, "list /etc"));
    CHECK(has(harness, ". 40750 1000\n"));
    CHECK(has(harness, "ONE 100640 1000\n"));
    CHECK(!strstr(harness->out.bytes, "passwd"));
    CHECK(look_again(harness, ARGV("probe", "list", "/etc")));
    CHECK(has(harness, "passwd "));
}

ON_EVERY_ENGINE(a_file_of_the_image_is_covered)
{
    static const struct message_secret secrets[] = {FILE_AT("/etc/group", 0600, "")};

    CHECK(launch_task(harness, ""));
    CHECK(give_all(harness, secrets, 1));
    CHECK(release(harness, "cat /etc/group"));
    CHECK_STR(harness->out.bytes, value);
    CHECK(look_again(harness, ARGV("probe", "cat", "/etc/group")));
    CHECK(has(harness, "wheel:x:70:bob,ann\n"));
}

static bool fails(struct harness *harness, const struct message_secret *secret, const char *failure)
{
    return launch_task(harness, "") && give(harness, secret, 1) &&
           harness_until(harness, &harness->has_failed) &&
           harness_until(harness, &harness->has_quiesced) && !harness->has_secrets &&
           strcmp(harness->failure, failure) == 0;
}

ON_EVERY_ENGINE(a_file_that_the_user_may_not_read_ends_the_task)
{
    static const struct message_secret secret = FILE_AT("/run/key", 0600, "root");

    CHECK(fails(harness, &secret, "secret_unreadable"));
    CHECK_STR(harness->text, "the secret at /run/key: Permission denied");
    CHECK(look_again(harness, ARGV("probe", "list", "/run")));
    CHECK(!strstr(harness->out.bytes, "key"));
}

ON_EVERY_ENGINE(a_directory_that_the_user_may_not_enter_ends_the_task)
{
    static const struct message_secret secret = FILE_AT("/run/closed/key", 0644, "root");

    CHECK(fails(harness, &secret, "secret_unreadable"));
    CHECK_STR(harness->text, "the secret at /run/closed/key: Permission denied");
}

ON_EVERY_ENGINE(an_owner_the_image_does_not_know_ends_the_task)
{
    static const struct message_secret secret = FILE_AT("/run/key", 0600, "stranger");

    CHECK(fails(harness, &secret, "secret_unreadable"));
}

ON_EVERY_ENGINE(a_link_on_the_way_ends_the_task)
{
    static const struct message_secret secret = FILE_AT("/link/key", 0600, "");

    CHECK(fails(harness, &secret, "unsafe_path"));
}

ON_EVERY_ENGINE(another_program_sees_none_of_it)
{
    static const struct message_secret secrets[] = {FILE_AT("/run/key", 0600, "")};

    CHECK(launch_task(harness, ""));
    CHECK(give_all(harness, secrets, 1));
    CHECK(harness_launch(harness, 2, PROGRAM_STEP, ARGV("probe", "cat", "/run/key"), NULL, "root"));
    CHECK(harness_until(harness, &harness->has_other_quiesced));
    CHECK(!harness->other_out.len ||
          !memmem(harness->other_out.bytes, harness->other_out.len, "k3y", 3));
    CHECK(release(harness, "cat /run/key"));
    CHECK_STR(harness->out.bytes, value);
}

ON_EVERY_ENGINE(the_largest_variables_arrive_whole)
{
    static char much[SECRET_VALUE_MAX];

    memset(much, 'x', sizeof much);
    CHECK(launch_task(harness, ""));
    for (unsigned i = 0; i < 16; i++) {
        char name[16];
        snprintf(name, sizeof name, "LARGE_%u", i);
        struct message_secret secret = {
            .id = 50,
            .program = 1,
            .placement = SECRET_IN_ENVIRONMENT,
            .target = str_of(name),
            .value = {much, sizeof much}
        };
        CHECK(harness_send(harness, MESSAGE_SECRET, &secret) && harness_step(harness));
    }
    struct message_secrets_end end = {51, 1, 16};
    CHECK(harness_send(harness, MESSAGE_SECRETS_END, &end));
    CHECK(harness_until(harness, &harness->has_secrets));
    CHECK(release(harness, "env"));
    CHECK(has(harness, "env LARGE_0=xxx") && has(harness, "env LARGE_15=xxx"));
    CHECK(harness->out.len > sizeof much * 16);
}

static bool is_refused(struct harness *harness, struct message_secret secret, const char *code)
{
    secret.id = 50;
    secret.program = 1;
    if (!secret.value.ptr)
        secret.value = str_of(value);
    harness->has_error = false;
    return harness_send(harness, MESSAGE_SECRET, &secret) &&
           harness_until(harness, &harness->has_error) && strcmp(harness->failure, code) == 0;
}

ON_EVERY_ENGINE(what_no_secret_may_be_is_refused)
{
    static const struct {
        struct message_secret secret;
        const char *code;
    } cases[] = {
        {VARIABLE("LD_PRELOAD"), "unsafe_path"},
        {VARIABLE("HELMR_CONTROL_FD"), "unsafe_path"},
        {VARIABLE("A=B"), "unsafe_path"},
        {VARIABLE("1A"), "unsafe_path"},
        {{.placement = SECRET_IN_ENVIRONMENT, .target = STR("A"), .value = STR("a\0b")},
         "invalid_request"},
        {{.placement = 9, .target = STR("/run/x")}, "invalid_request"},
        {FILE_AT("/proc/x", 0600, ""), "unsafe_path"},
        {FILE_AT("/run/x", 04755, ""), "invalid_request"},
        {DIRECTORY_AT("/run/x", "..", 0700, ""), "invalid_request"},
        {DIRECTORY_AT("/run/x", "a/b", 0700, ""), "invalid_request"},
        {DIRECTORY_AT("/run/x", "", 0700, ""), "invalid_request"},
    };

    CHECK(launch_task(harness, ""));
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        CHECK(is_refused(harness, cases[i].secret, cases[i].code));
}

TEST_MAIN()
