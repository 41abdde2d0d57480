#include "engine/spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"

static bool word_write(const char *path, const char *word, struct error *err)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    const size_t len = strlen(word);

    return (fd >= 0 && write(fd, word, len) == (ssize_t)len) || error_errno(err, "write %s", path);
}

bool spaces_map(unsigned user, unsigned group, struct error *err)
{
    char users[48], groups[48];

    snprintf(users, sizeof(users), "%u %u 1", user, user);
    snprintf(groups, sizeof(groups), "%u %u 1", group, group);
    return word_write("/proc/self/setgroups", "deny", err) &&
           word_write("/proc/self/uid_map", users, err) &&
           word_write("/proc/self/gid_map", groups, err);
}

static bool memory_make(const char *size, int *folder, struct error *err)
{
    AUTO_FD int context = fsopen("tmpfs", FSOPEN_CLOEXEC);

    if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "size", size, 0) != 0 ||
        fsconfig(context, FSCONFIG_SET_STRING, "mode", "0700", 0) != 0 ||
        fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
        return error_errno(err, "make a folder in memory");
    *folder =
        fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    return *folder >= 0 || error_errno(err, "hold a folder in memory");
}

/* The error, and on success the descriptor with it. */
static void give(int socket, int folder, const struct error *err)
{
    struct error told = *err;
    struct iovec part = {&told, sizeof(told)};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (folder >= 0) {
        control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
                                        .cmsg_level = SOL_SOCKET,
                                        .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &folder, sizeof(folder));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
    }
    (void)!sendmsg(socket, &message, MSG_NOSIGNAL);
}

static bool take(int socket, int *folder, struct error *err)
{
    struct error told;
    struct iovec part = {&told, sizeof(told)};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t got;

    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got != (ssize_t)sizeof(told))
        return error_set(err, ERR_INTERNAL, "nothing came out of a new user namespace");
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (!head || head->cmsg_type != SCM_RIGHTS) {
        *err = told;
        return false;
    }
    memcpy(folder, CMSG_DATA(head), sizeof(*folder));
    return true;
}

/* The child makes it in namespaces of its own and hands it out; nothing but what is safe between
 * fork and exec happens in it. */
static _Noreturn void child_main(int socket, unsigned user, unsigned group, const char *size)
{
    struct error err = {0};
    int folder = -1;

    if (!spaces_map(user, group, &err) || !memory_make(size, &folder, &err))
        folder = -1;
    give(socket, folder, &err);
    _exit(0);
}

bool spaces_memory(const char *size, int *folder, struct error *err)
{
    const unsigned user = geteuid(), group = getegid();
    sigset_t all, before;
    int pair[2];

    if (user == 0)
        return memory_make(size, folder, err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "make a pair of sockets");
    AUTO_FD int ours = pair[0];
    AUTO_FD int theirs = pair[1];

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        child_main(theirs, user, group, size);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return error_errno(err, "make a user namespace");
    close(take_fd(&theirs));
    bool ok = take(ours, folder, err);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    return ok;
}

bool spaces_probe(char *reason, size_t room)
{
    AUTO_FD int folder = -1;
    struct error err = {0};

    if (spaces_memory("64k", &folder, &err)) {
        snprintf(reason, room, "users can make namespaces");
        return true;
    }
    snprintf(reason, room, "%s", err.text);
    return false;
}
