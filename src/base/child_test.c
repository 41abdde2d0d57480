#include "base/child.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/test.h"

static pid_t spawn(int code)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (code < 0)
            pause();
        _exit(code);
    }
    return pid;
}

static bool ends_within(int fd, int timeout_ms)
{
    struct pollfd ended = {.fd = fd, .events = POLLIN};

    return poll(&ended, 1, timeout_ms) == 1;
}

/* The whole life of two children; 0 or the line where it went wrong. */
static int live_and_die(void)
{
    pid_t quick = spawn(5), slow = spawn(-1);
    AUTO_FD int quick_fd = child_open(quick);
    AUTO_FD int slow_fd = child_open(slow);
    int status = 0;

    if (quick_fd < 0 || slow_fd < 0)
        return __LINE__;
    if (!ends_within(quick_fd, 20000) || ends_within(slow_fd, 0))
        return __LINE__;
    if (child_reap(quick, quick_fd, false, &status) != 1 || WEXITSTATUS(status) != 5)
        return __LINE__;
    if (child_reap(slow, slow_fd, false, &status) != 0)
        return __LINE__;
    if (!child_signal(slow, slow_fd, SIGKILL))
        return __LINE__;
    if (child_reap(slow, slow_fd, true, &status) != 1 || WTERMSIG(status) != SIGKILL)
        return __LINE__;
    if (child_reap(slow, slow_fd, false, &status) != -1 || errno != ECHILD)
        return __LINE__;
    return 0;
}

TEST(a_child_is_watched_signalled_and_reaped)
{
    CHECK(live_and_die() == 0);
}

/* A kernel without pidfds, as gVisor is one. */
static bool hide_pidfds(void)
{
    struct sock_filter rows[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = COUNT_OF(rows), .filter = rows};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(the_same_holds_where_the_kernel_has_no_pidfd)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(hide_pidfds() ? live_and_die() : 255);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == 255)
        SKIP("no seccomp here");
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_MAIN()
