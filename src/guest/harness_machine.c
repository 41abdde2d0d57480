/* A harness whose agent is the first process of a microVM: QEMU without KVM, disks made by mke2fs
 * from the harness's folders. */
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "base/own.h"
#include "base/time.h"
#include "guest/harness.h"

#define QEMU "/usr/bin/qemu-system-x86_64"

enum { MACHINE_PATH_MAX = 512, CHANNEL_FD = 20, MKFS_MS = 120000 };

static void file_of_build(const char *name, char path[MACHINE_PATH_MAX])
{
    const char *build = getenv("HELMR_BUILD_ROOT");

    snprintf(path, MACHINE_PATH_MAX, "%s/../guest-image/%s", build ? build : ".", name);
}

const char *harness_machine_obstacle(void)
{
    char path[MACHINE_PATH_MAX];

    if (access(QEMU, X_OK) != 0)
        return "qemu-system-x86_64 is not installed";
    file_of_build("artefacts.json", path);
    return access(path, R_OK) == 0 ? NULL : "make vm has not been run";
}

static bool make_disk(const struct harness *harness, const char *name, const char *source,
                      const char *size, struct error *err)
{
    char disk[MACHINE_PATH_MAX], folder[MACHINE_PATH_MAX];

    snprintf(disk, sizeof disk, "%s/%s.img", harness->folder, name);
    snprintf(folder, sizeof folder, "%s/%s", harness->folder, source ? source : "");
    const char *const argv[] = {"mke2fs", "-q",   "-t", "ext4", "-O", "^has_journal",
                                "-d",     folder, disk, size,   NULL};
    const char *const empty[] = {"mke2fs",       "-q", "-t", "ext4", "-O",
                                 "^has_journal", disk, size, NULL};
    return process_must(source ? argv : empty, (struct str){0}, MKFS_MS, NULL, err);
}

/* The kernel's own measurement does not end on a busy machine. */
static uint64_t tsc_khz(void)
{
#if defined(__x86_64__)
    int64_t since = time_boot_ns();
    uint64_t first = __rdtsc();

    while (time_boot_ns() - since < 50000000)
        ;
    return (__rdtsc() - first) * 1000000 / (uint64_t)(time_boot_ns() - since);
#else
    return 0;
#endif
}

struct machine {
    char kernel[MACHINE_PATH_MAX], initrd[MACHINE_PATH_MAX], line[MACHINE_PATH_MAX];
    char root[MACHINE_PATH_MAX], scratch[MACHINE_PATH_MAX], bundle[MACHINE_PATH_MAX];
};

static void describe_drive(const struct harness *harness, const char *name, const char *options,
                           char text[MACHINE_PATH_MAX])
{
    snprintf(text, MACHINE_PATH_MAX, "id=%s,file=%s/%s.img,format=raw,if=none,%s", name,
             harness->folder, name, options);
}

static void describe(struct machine *machine, const struct harness *harness)
{
    file_of_build("kernel", machine->kernel);
    file_of_build("initrd", machine->initrd);
    describe_drive(harness, "root", "readonly=on", machine->root);
    describe_drive(harness, "scratch", "cache=unsafe,discard=unmap", machine->scratch);
    describe_drive(harness, "bundle", "readonly=on", machine->bundle);
    snprintf(machine->line, MACHINE_PATH_MAX,
             "quiet panic=-1 reboot=t tsc=reliable no_timer_check nowatchdog tsc_early_khz=%llu "
             "helmr.abi=%d",
             (unsigned long long)tsc_khz(), MESSAGE_ABI);
}

/* The disks come in another order than the agent wants them. */
static bool run_machine(struct harness *harness, const struct machine *machine, int fd,
                        struct error *err)
{
    const char *const argv[] = {
        QEMU,
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-M",
        "microvm,acpi=on,rtc=on,isa-serial=off",
        "-accel",
        "tcg",
        "-cpu",
        "max",
        "-m",
        "256",
        "-kernel",
        machine->kernel,
        "-initrd",
        machine->initrd,
        "-append",
        machine->line,
        "-drive",
        machine->bundle,
        "-device",
        "virtio-blk-device,drive=bundle,serial=helmr-bundle",
        "-drive",
        machine->scratch,
        "-device",
        "virtio-blk-device,drive=scratch,serial=helmr-scratch",
        "-drive",
        machine->root,
        "-device",
        "virtio-blk-device,drive=root,serial=helmr-root",
        "-device",
        "virtio-serial-device",
        "-chardev",
        "socket,id=channel,fd=20",
        "-device",
        "virtserialport,chardev=channel,name=helmr.channel",
        "-object",
        "rng-random,id=random,filename=/dev/urandom",
        "-device",
        "virtio-rng-device,rng=random",
        NULL,
    };
    struct process_spec spec = {
        .argv = argv,
        .fds = {{fd, CHANNEL_FD}, {STDERR_FILENO, STDERR_FILENO}},
        .n_fds = 2,
        .die_with_parent = true,
    };

    return process_start(&spec, &harness->process, err);
}

bool harness_start_machine(struct harness *harness, int fd, struct error *err)
{
    static struct machine machine;

    if (!make_disk(harness, "root", "image", "64M", err) ||
        !make_disk(harness, "bundle", "bundle", "8M", err) ||
        !make_disk(harness, "scratch", NULL, "256M", err))
        return false;
    describe(&machine, harness);
    return run_machine(harness, &machine, fd, err);
}
