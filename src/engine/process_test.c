#include "engine/process.h"

#include <signal.h>

#include "base/process.h"
#include "base/test.h"

static bool sleeper_start(struct process *process, struct process_identity *identity,
                          struct error *err)
{
    const char *const argv[] = {"sleep", "600", NULL};
    struct process_spec spec = {.argv = argv};

    return process_start(&spec, process, err) && process_identify(process->pid, identity, err);
}

TEST(an_identity_survives_being_written_down)
{
    struct process_identity identity = {.pid = 42, .started = 7, .exe_dev = 65, .exe_ino = 9}, read;
    char text[PROCESS_IDENTITY_TEXT];

    process_identity_format(&identity, text);
    CHECK(process_identity_parse(text, &read));
    CHECK(read.pid == 42 && read.started == 7 && read.exe_dev == 65 && read.exe_ino == 9);
    CHECK(!process_identity_parse("1,7,65:9", &read)); /* nobody recorded init */
    CHECK(!process_identity_parse("42,7,65", &read));
    CHECK(!process_identity_parse("42,7,65:9 ", &read));
}

TEST(a_recorded_process_is_killed)
{
    struct process process = {.pidfd = -1};
    struct process_identity identity;
    struct error err = {0};
    int status;

    CHECK(sleeper_start(&process, &identity, &err));
    CHECK(process_kill_recorded(&identity, 0, 5000, &err));
    CHECK(process_wait(&process, 5000, &status, &err));
    CHECK(status == SIGKILL);
}

TEST(a_reused_pid_is_not_killed)
{
    struct process process = {.pidfd = -1};
    struct process_identity identity;
    struct error err = {0};
    int status;

    CHECK(sleeper_start(&process, &identity, &err));
    struct process_identity earlier = identity, other = identity;
    earlier.started--;
    other.exe_ino++;
    CHECK(process_kill_recorded(&earlier, 0, 5000, &err));
    CHECK(process_kill_recorded(&other, 0, 5000, &err));
    CHECK(!process_wait(&process, 0, &status, &err) && err.code == ERR_TIMEOUT);
    process_finish(&process);
    CHECK(process_kill_recorded(&identity, 0, 5000, &err));
}

TEST_MAIN()
