#include "engine/qemu/command.h"

#include "base/test.h"
#include "protocol/message.h"

#define ABI "2"
_Static_assert(MESSAGE_ABI == 2, "ABI says it");

static bool has(const struct qemu_args *args, const char *word)
{
    for (const char *const *at = args->argv; *at; at++) {
        if (strcmp(*at, word) == 0)
            return true;
    }
    return false;
}

/* The word after the n-th of an option, counted from 0, or "". */
static const char *value_of(const struct qemu_args *args, const char *option, int n)
{
    for (const char *const *at = args->argv; *at; at++) {
        if (strcmp(*at, option) == 0 && n-- == 0)
            return at[1];
    }
    return "";
}

static const struct qemu_command booted = {
    .binary = "qemu-system-x86_64",
    .name = "helmr-0123456789ab",
    .vcpus = 2,
    .memory_mib = 512,
    .has_root = true,
    .has_scratch = true,
    .has_bundle = true,
    .network = QEMU_NETWORK_TAP,
    .tsc_khz = 2596128,
};

TEST(a_booted_machine_is_told_its_clock_its_drives_and_its_channel)
{
    struct qemu_args args;
    struct error err = {0};

    CHECK(qemu_command_make(&booted, &args, &err));
    CHECK_STR(args.argv[0], "qemu-system-x86_64");
    CHECK_STR(value_of(&args, "-append", 0),
              "quiet panic=-1 reboot=t no_timer_check tsc=reliable nowatchdog cryptomgr.notests "
              "mitigations=off tsc_early_khz=2596128 helmr.channel=serial helmr.abi=" ABI " "
              "helmr.drives=root,scratch,bundle");
    CHECK_STR(value_of(&args, "-accel", 0), "tcg,tb-size=128");
    CHECK_STR(value_of(&args, "-smp", 0), "2");
    CHECK_STR(value_of(&args, "-object", 0),
              "memory-backend-file,id=m0,size=512M,mem-path=/proc/self/fd/5,share=on");
    CHECK_STR(value_of(&args, "-netdev", 0), "tap,id=n0,fd=9");
    CHECK(!has(&args, "-incoming"));
}

TEST(only_the_machines_own_disk_can_be_written)
{
    struct qemu_args args;
    struct error err = {0};

    CHECK(qemu_command_make(&booted, &args, &err));
    CHECK_STR(value_of(&args, "-drive", 0), "id=root,if=none,format=raw,file=/proc/self/fd/6,"
                                            "file.locking=off,readonly=on");
    CHECK_STR(value_of(&args, "-drive", 1), "id=scratch,if=none,format=raw,file=/proc/self/fd/7,"
                                            "file.locking=off,cache=unsafe,discard=unmap");
    CHECK_STR(value_of(&args, "-drive", 2), "id=bundle,if=none,format=raw,file=/proc/self/fd/8,"
                                            "file.locking=off,readonly=on");
    CHECK_STR(value_of(&args, "-drive", 3), "");
    CHECK_STR(value_of(&args, "-sandbox", 0),
              "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
}

TEST(a_restored_machine_has_the_same_devices_and_nothing_to_boot)
{
    struct qemu_command restored = booted;
    struct qemu_args before, after;
    struct error err = {0};

    restored.is_restored = restored.is_copy = true;
    CHECK(qemu_command_make(&booted, &before, &err) && qemu_command_make(&restored, &after, &err));
    for (int i = 0; i < 7; i++)
        CHECK_STR(value_of(&after, "-device", i), value_of(&before, "-device", i));
    CHECK_STR(value_of(&after, "-M", 0), value_of(&before, "-M", 0));
    CHECK_STR(value_of(&after, "-object", 0),
              "memory-backend-file,id=m0,size=512M,mem-path=/proc/self/fd/5,share=off");
    CHECK_STR(value_of(&after, "-incoming", 0), "fd:12");
    CHECK(!has(&after, "-S"));
    restored.is_asleep = true;
    CHECK(qemu_command_make(&restored, &after, &err) && has(&after, "-S"));
    CHECK(!has(&after, "-kernel") && !has(&after, "-initrd") && !has(&after, "-append"));
}

TEST(hardware_is_used_only_when_it_is_known_to_work)
{
    struct qemu_command command = booted;
    struct qemu_args args;
    struct error err = {0};

    command.is_accelerated = true;
    command.network = QEMU_NETWORK_NONE;
    command.has_root = command.has_scratch = command.has_bundle = false;
    command.tsc_khz = 0;
    CHECK(qemu_command_make(&command, &args, &err));
    CHECK_STR(value_of(&args, "-accel", 0), "kvm");
    CHECK_STR(value_of(&args, "-cpu", 0), "host");
    CHECK(!has(&args, "-netdev") && !has(&args, "-drive"));
    CHECK_STR(value_of(&args, "-append", 0), "quiet panic=-1 reboot=t no_timer_check tsc=reliable "
                                             "nowatchdog cryptomgr.notests helmr.channel=serial "
                                             "helmr.abi=" ABI);
}

TEST(what_a_guest_sends_without_a_tap_goes_nowhere_or_through_us)
{
    struct qemu_command command = booted;
    struct qemu_args args;
    struct error err = {0};

    command.network = QEMU_NETWORK_RESTRICTED;
    CHECK(qemu_command_make(&command, &args, &err));
    CHECK_STR(value_of(&args, "-netdev", 0),
              "user,id=n0,ipv6=off,net=198.18.0.0/24,dns=198.18.0.1,host=198.18.0.254,"
              "dhcpstart=198.18.0.2,restrict=on");
    CHECK_STR(value_of(&args, "-object", 2), "");

    command.network = QEMU_NETWORK_USER;
    CHECK(qemu_command_make(&command, &args, &err));
    CHECK_STR(value_of(&args, "-netdev", 0),
              "user,id=n0,ipv6=off,net=198.18.0.0/24,dns=198.18.0.1,host=198.18.0.254,"
              "dhcpstart=198.18.0.2");
    CHECK_STR(value_of(&args, "-object", 2),
              "filter-redirector,id=back,netdev=n0,queue=rx,indev=fi");
    CHECK_STR(value_of(&args, "-object", 3),
              "filter-redirector,id=away,netdev=n0,queue=rx,outdev=fo");
    CHECK_STR(value_of(&args, "-chardev", 1), "socket,id=fo,fd=13");
    CHECK_STR(value_of(&args, "-chardev", 2), "socket,id=fi,fd=14");
}

TEST(a_machine_without_processors_is_refused)
{
    struct qemu_command command = booted;
    struct qemu_args args;
    struct error err = {0};
    char name[QEMU_TEXT_MAX + 1];

    command.vcpus = 0;
    CHECK(!qemu_command_make(&command, &args, &err) && err.code == ERR_INVALID);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    command = booted;
    command.name = name;
    CHECK(!qemu_command_make(&command, &args, &err) && err.code == ERR_TOO_LARGE);
}

TEST_MAIN()
