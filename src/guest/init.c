#include "guest/init.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/own.h"
#include "guest/confine.h"
#include "guest/exec.h"
#include "guest/mounts.h"
#include "guest/sharing.h"

enum { ROOT_PATH_MAX = 256 };

const char *init_stage_name(enum init_stage stage)
{
    switch (stage) {
    case STAGE_NAMESPACE: return "namespace";
    case STAGE_MOUNT: return "mount";
    case STAGE_PIVOT: return "pivot";
    case STAGE_FORK: return "fork";
    case STAGE_LIMITS: return "limits";
    case STAGE_USER: return "user";
    case STAGE_SECRETS: return "secrets";
    case STAGE_CWD: return "cwd";
    case STAGE_EXEC: return "exec";
    }
    return "init";
}

static _Noreturn void fail(const struct init_spec *spec, enum init_stage stage, const char *text)
{
    struct init_report report = {.stage = stage, .sys = errno};

    snprintf(report.text, sizeof report.text, "%s", text);
    (void)!write(spec->report_fd, &report, sizeof report);
    _exit(127);
}

static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void fail_with(const struct init_spec *spec, const struct error *err)
{
    errno = err->sys;
    fail(spec, STAGE_MOUNT, err->text);
}

/* Under a shared table of mounts the terminals are there already. */
static void mount_namespace(const struct init_spec *spec)
{
    const struct sandbox *sandbox = spec->sandbox;
    char path[ROOT_PATH_MAX];
    struct error err;

    if (spec->mounts_fd >= 0 && !sharing_send_mounts(spec->mounts_fd, &err))
        fail_with(spec, &err);
    /* gVisor knows no propagation, and so needs none turned off. */
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 && errno != EINVAL)
        fail(spec, STAGE_MOUNT, "making the mounts private");
    if (strcmp(spec->root, SANDBOX_ROOT) != 0 && !sharing_copy_root(sandbox, spec->root, &err))
        fail_with(spec, &err);
    snprintf(path, sizeof path, "%s/dev/pts", spec->root);
    if (!sandbox->shares_mounts && !mount_pts(path, &err))
        fail_with(spec, &err);
    snprintf(path, sizeof path, "%s/proc", spec->root);
    if (!mount_proc(path, &err))
        fail_with(spec, &err);
    mount_masks(path, spec->mask);
    /* Not every kernel has the file; a host's number would only be a little less private. */
    snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", spec->root);
    (void)!mount(sandbox->boot_id_file, path, NULL, MS_BIND, NULL);
    if (spec->secrets && !secrets_bind(spec->secrets, spec->root, &err))
        fail_with(spec, &err);
}

/* gVisor cannot exchange the first root of a sandbox: there it is a chroot. */
static bool pivot(const char *root)
{
    if (chdir(root) != 0)
        return false;
    if (syscall(SYS_pivot_root, ".", ".") == 0)
        return umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
    return chroot(".") == 0 && chdir("/") == 0;
}

/* The main process. It waits at the gate until the init has become another image. */
static _Noreturn void run_main(struct init_spec *spec, int gate)
{
    char nothing;

    while (read(gate, &nothing, 1) < 0 && errno == EINTR)
        ;
    const int wanted[] = {spec->std[0], spec->std[1], spec->std[2], spec->adapter_fd,
                          spec->barrier_fd};
    spec->report_fd = fcntl(spec->report_fd, F_DUPFD_CLOEXEC, 80);
    if (!group_enter(spec->group->run_fd))
        fail(spec, STAGE_LIMITS, "entering the control group");
    if (setsid() < 0 || !exec_place(wanted))
        fail(spec, STAGE_FORK, "placing the descriptors");
    if (!confine_limits())
        fail(spec, STAGE_LIMITS, "setting the limits");
    if (!confine_user(spec->user))
        fail(spec, STAGE_USER, "becoming the user");
    const char *unreadable = spec->secrets ? secrets_unreadable(spec->secrets) : NULL;
    if (unreadable)
        fail(spec, STAGE_SECRETS, unreadable);
    if (chdir(spec->cwd) != 0)
        fail(spec, STAGE_CWD, spec->cwd);
    exec_search(spec->path, spec->argv, spec->env);
    fail(spec, STAGE_EXEC, spec->argv[0]);
}

/* Moves a descriptor to a number of the init's; true for none. */
static bool place_for_init(int from, int to)
{
    return from < 0 || dup2(from, to) >= 0;
}

/* `main_pid` 0: of the room, which has no main process. */
static _Noreturn void become_init(const struct init_spec *spec, pid_t main_pid)
{
    char number[16];
    char *const env[] = {NULL};
    bool has_freezer = spec->group->freeze_fd >= 0;

    snprintf(number, sizeof number, "%d", (int)main_pid);
    const char *const argv[] = {"helmr-init", "--init", number, has_freezer ? "--freezer" : NULL,
                                NULL};
    int run = has_freezer ? fcntl(spec->group->run_fd, F_DUPFD_CLOEXEC, 64) : -1;
    int freeze = has_freezer ? fcntl(spec->group->freeze_fd, F_DUPFD_CLOEXEC, 64) : -1;
    int events = has_freezer ? fcntl(spec->group->events_fd, F_DUPFD_CLOEXEC, 64) : -1;
    int self = fcntl(spec->self_fd, F_DUPFD_CLOEXEC, 64);
    int control = fcntl(spec->control_fd, F_DUPFD_CLOEXEC, 64);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* Opened now: a program that is root could cover it later. */
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    proc = proc < 0 ? -1 : fcntl(proc, F_DUPFD_CLOEXEC, 64);
    for (int i = 0; i < 3; i++) {
        if (null < 0 || dup2(null, i) < 0)
            fail(spec, STAGE_FORK, "placing the init's descriptors");
    }
    /* Whatever fds 3 to 7 were, they are not needed here any more, unless one is the report. */
    struct init_spec moved = *spec;
    moved.report_fd = fcntl(spec->report_fd, F_DUPFD_CLOEXEC, 64);
    if (control < 0 || proc < 0 || dup2(control, 3) < 0 || dup2(proc, 4) < 0 ||
        !place_for_init(freeze, 5) || !place_for_init(events, 6) || !place_for_init(run, 7))
        fail(&moved, STAGE_FORK, "placing the init's orders");
    syscall(SYS_execveat, self, "", argv, env, AT_EMPTY_PATH);
    fail(&moved, STAGE_FORK, "executing the init");
}

static _Noreturn void run_init(struct init_spec *spec)
{
    int gate[2];

    reset_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!group_join(spec->group->init_fd))
        fail(spec, STAGE_NAMESPACE, "entering the control group");
    mount_namespace(spec);
    if (!pivot(spec->root))
        fail(spec, STAGE_PIVOT, "entering the image root");
    if (!spec->argv)
        become_init(spec, 0);
    if (pipe2(gate, O_CLOEXEC) != 0)
        fail(spec, STAGE_FORK, "making the gate");

    pid_t main_pid = fork();
    if (main_pid < 0)
        fail(spec, STAGE_FORK, "forking the program");
    if (main_pid == 0) {
        close(gate[1]);
        run_main(spec, gate[0]);
    }
    become_init(spec, main_pid);
}

bool init_start(const struct init_spec *spec, pid_t *pid, struct error *err)
{
    struct init_spec copy = *spec;
    long child = syscall(SYS_clone, CLONE_NEWNS | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);

    if (child < 0)
        return error_errno(err, "making the program's namespaces");
    if (child == 0)
        run_init(&copy);
    *pid = (pid_t)child;
    return true;
}
