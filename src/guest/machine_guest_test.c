/* The agent as the first process of a real microVM. One machine serves all the tests: starting one
 * takes seconds, since every instruction is emulated. */
#include <signal.h>

#include "guest/scenario.h"

static struct harness machine = {.fd = -1, .process = {.pidfd = -1}};
static const char *obstacle;

static void start_machine(void)
{
    struct error err = {0};

    obstacle = harness_obstacle(ON_MACHINE);
    if (obstacle)
        return;
    if (!harness_prepare(&machine, ON_MACHINE, SETUP_LAYOUT_AGENT, &err) ||
        !harness_start(&machine, &err) || !set_up(&machine)) {
        printf("# %s\n", err.text);
        obstacle = "the machine did not start";
    }
}

/* A command of its own, as the user. */
static bool runs(const char *const *argv, const char *user)
{
    machine.has_quiesced = machine.has_exited = machine.has_started = machine.has_failed = false;
    machine.out.len = 0;
    return run_command(&machine, argv, user);
}

#define IN_MACHINE(name)                   \
    static void name(void);                \
    TEST(name)                             \
    {                                      \
        if (machine.is_closed)             \
            CHECK(!"the machine is gone"); \
        if (obstacle)                      \
            SKIP(obstacle);                \
        name();                            \
    }                                      \
    static void name(void)

TEST(a_machine_starts_to_the_agents_hello)
{
    start_machine();
    if (harness_obstacle(ON_MACHINE))
        SKIP(obstacle);
    CHECK(!obstacle);
    CHECK(machine.uid == 1000 && machine.gid == 1001);
}

IN_MACHINE(a_program_sees_the_contract_of_every_engine)
{
    CHECK(runs(ARGV("probe", "show"), ""));
    CHECK(has(&machine, "uid=1000 gid=1001 groups= 70\n"));
    CHECK(has(&machine, "cwd=/workspace\n"));
    CHECK(has(&machine, "host=helmr-sandbox\n"));
    CHECK(has(&machine, "pid=2\n"));
    CHECK(runs(ARGV("probe", "cat", "/etc/resolv.conf"), ""));
    CHECK(has(&machine, "nameserver 198.18.0.1\n"));
    CHECK(runs(ARGV("probe", "cat", "/opt/helmr/task/task.js"), ""));
    CHECK(has(&machine, "the task\n"));
    CHECK(runs(ARGV("probe", "cat", "/workspace/from-image"), ""));
    CHECK(has(&machine, "below\n"));
    CHECK(runs(ARGV("probe", "cat", "/proc/self/cgroup"), ""));
    CHECK(has(&machine, "0::/\n"));
    CHECK(runs(ARGV("probe", "cat", "/proc/sys/kernel/random/boot_id"), ""));
    CHECK(has(&machine, "01234567-89ab-cdef-0123-456789abcdef\n"));
    CHECK(runs(ARGV("probe", "cat", "/proc/self/limits"), ""));
    CHECK(has(&machine, "Max processes             unlimited"));
    CHECK(has(&machine, "Max core file size        0 "));
    CHECK(runs(ARGV("probe", "cat", "/proc/self/oom_score_adj"), ""));
    CHECK(has(&machine, "0\n"));
}

IN_MACHINE(dev_holds_what_programs_expect)
{
    CHECK(runs(ARGV("probe", "list", "/dev"), ""));
    CHECK(has(&machine, "null 20666") && has(&machine, "ptmx 120777") &&
          has(&machine, "shm 41777"));
    CHECK(!strstr(machine.out.bytes, "vda") && !strstr(machine.out.bytes, "vport"));
}

IN_MACHINE(only_what_is_the_users_can_be_written)
{
    CHECK(runs(ARGV("probe", "write", "/workspace/new", "/tmp/new", "/dev/shm/new", "/etc/new",
                    "/opt/helmr/adapter/new"),
               ""));
    CHECK(has(&machine, "/workspace/new written\n") && has(&machine, "/tmp/new written\n") &&
          has(&machine, "/dev/shm/new written\n"));
    CHECK(has(&machine, "/etc/new refused\n") && has(&machine, "/opt/helmr/adapter/new refused\n"));
}

IN_MACHINE(a_root_that_climbs_out_finds_nothing_of_the_agent)
{
    CHECK(runs(ARGV("probe", "climb"), "root"));
    CHECK(machine.exit_code == 0);
    CHECK(has(&machine, "processes=2 scratch=0\n"));
}

/* A program that names the kernel's helper for crashes would be run by it, outside of everything.
 */
IN_MACHINE(a_root_cannot_change_settings_of_the_kernel)
{
    CHECK(runs(ARGV("probe", "write", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
                    "/sys/kernel/uevent_helper", "/sys/power/state"),
               "root"));
    CHECK(has(&machine, "/proc/sys/kernel/core_pattern refused\n"));
    CHECK(has(&machine, "/proc/sys/kernel/modprobe refused\n"));
    CHECK(has(&machine, "/sys/kernel/uevent_helper refused\n"));
    CHECK(has(&machine, "/sys/power/state refused\n"));
}

IN_MACHINE(a_program_that_takes_all_memory_is_killed_and_named)
{
    CHECK(runs(ARGV("probe", "eat"), ""));
    CHECK(machine.signal == SIGKILL && machine.oom == 1);
    CHECK(runs(ARGV("probe", "exit", "9"), ""));
    CHECK(machine.exit_code == 9 && machine.oom == 0);
}

IN_MACHINE(a_program_that_forks_without_end_is_stopped)
{
    CHECK(runs(ARGV("probe", "forks"), ""));
    CHECK(machine.has_exited && machine.exit_code == 0);
    CHECK(runs(ARGV("probe", "exit", "4"), ""));
    CHECK(machine.exit_code == 4);
}

IN_MACHINE(loopback_is_up)
{
    CHECK(runs(ARGV("probe", "cat", "/proc/net/fib_trie"), ""));
    CHECK(has(&machine, "127.0.0.1\n"));
}

static bool pauses_and_meets_again(uint64_t generation)
{
    static const uint8_t nonce[CHANNEL_NONCE_LEN] = "0123456789abcde";
    struct message_pause pause = {
        .id = 20, .purpose = 1, .nonce = {(const char *)nonce, sizeof nonce}
    };
    struct message_reestablish again = {
        .id = 21,
        .realtime_ns = (uint64_t)2000000000 * 1000000000,
        .entropy = {(char[64]){1, 2, 3}, 64},
        .machine_id = STR("fedcba9876543210fedcba9876543210"),
        .boot_id = STR("11111111-2222-3333-4444-555555555555"),
        .generation = generation,
    };

    machine.has_reestablished = false;
    return harness_send(&machine, MESSAGE_PAUSE, &pause) &&
           harness_until(&machine, &machine.has_paused) && harness_resync(&machine, nonce) &&
           harness_send(&machine, MESSAGE_REESTABLISH, &again) &&
           harness_until(&machine, &machine.has_reestablished);
}

IN_MACHINE(a_next_life_has_the_hosts_time_and_random_numbers)
{
    CHECK(pauses_and_meets_again(8));
    CHECK(machine.reestablished.entropy_ok == 1 && machine.reestablished.network_ok == 1);
    CHECK(machine.reestablished.realtime_ns / 1000000000 - 2000000000 < 600);
}

IN_MACHINE(a_shutdown_ends_the_machine)
{
    int status;
    struct error err;

    CHECK(harness_send(&machine, MESSAGE_SHUTDOWN, &(struct message_shutdown){30, 1000}));
    CHECK(harness_until(&machine, &machine.has_done));
    CHECK(process_wait(&machine.process, 120000, &status, &err) && status == 0);
    harness_finish(&machine);
}

TEST_MAIN()
