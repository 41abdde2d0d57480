#include "guest/boot.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "guest/drives.h"
#include "guest/group.h"
#include "guest/link.h"
#include "guest/modules.h"
#include "protocol/message.h"

enum { COMMAND_LINE_MAX = 4096 };

static const struct {
    const char *type, *target;
    unsigned long flags;
    const char *options;
} places[] = {
    {"proc",     "/proc",          MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL        },
    {"sysfs",    "/sys",           MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL        },
    {"devtmpfs", "/dev",           MS_NOSUID,                        "mode=755"  },
    {"tmpfs",    "/run",           MS_NOSUID | MS_NODEV,             "mode=755"  },
    {"cgroup2",  "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate"},
};

/* The first root cannot be exchanged by a program's init: a second mount of it can. */
static bool enter_root(struct error *err)
{
    if (mount("/", "/newroot", NULL, MS_BIND, NULL) != 0 || chdir("/newroot") != 0 ||
        mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0)
        return error_errno(err, "entering the root");
    return true;
}

static bool mount_places(struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        if (mount(places[i].type, places[i].target, places[i].type, places[i].flags,
                  places[i].options) != 0)
            return error_errno(err, "mounting %s", places[i].target);
    }
    return true;
}

/* Whatever is said on them goes to the kernel's log, which is all there is. */
static bool open_stdio(struct error *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int log = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

    if (null < 0 || log < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0)
        return error_errno(err, "opening the standard descriptors");
    if (null > STDERR_FILENO)
        close(null);
    if (log > STDERR_FILENO)
        close(log);
    return true;
}

static bool write_word(const char *path, const char *word, struct error *err)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", path);
    return fd_write_all(fd, str_of(word), err);
}

/* Whoever uses all the memory, it is not the agent that goes. How many processes there may be is
 * said by a control group, and not once more for each user by the size of the machine. */
static bool set_limits(struct error *err)
{
    const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_NPROC, &any) != 0)
        return error_errno(err, "the limit of processes");
    return write_word("/proc/self/oom_score_adj", "-1000", err);
}

/* The kernel allows what would suit a small machine of many users. One that lacks it watches fewer
 * directories, and tells whole trees where it could tell differences. */
static void widen_watches(void)
{
    struct error ignored;

    (void)!write_word("/proc/sys/fs/inotify/max_user_watches", "1048576", &ignored);
    (void)!write_word("/proc/sys/fs/inotify/max_queued_events", "262144", &ignored);
}

static bool read_line(struct boot *boot, struct error *err)
{
    if (!file_read("/proc/cmdline", COMMAND_LINE_MAX, &boot->command_line, err) ||
        !kernel_line_parse(str_of(boot->command_line), &boot->line, err))
        return false;
    if (boot->line.abi && boot->line.abi != MESSAGE_ABI)
        return error_set(err, ERR_UNSUPPORTED, "the host wants interface %u, and this is %d",
                         boot->line.abi, MESSAGE_ABI);
    return true;
}

bool boot_begin(struct boot *boot, struct error *err)
{
    *boot = (struct boot){0};
    if (!enter_root(err) || !mount_places(err) || !open_stdio(err) || !set_limits(err))
        return false;
    widen_watches();
    return read_line(boot, err) &&
           modules_each("/modules", boot->line.transport, module_load, err) &&
           transport_open(&boot->transport, boot->line.transport, err);
}

void boot_finish(struct boot *boot)
{
    struct error *fault = &boot->fault;

    if (groups_begin(fault) && link_setup(fault) && drives_mount(&boot->line, fault))
        fault->text[0] = '\0';
}

_Noreturn void boot_end(void)
{
    reboot(RB_AUTOBOOT);
    for (;;)
        pause();
}
