#include "guest/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/own.h"
#include "guest/mounts.h"

#define PROBE SANDBOX_STATE "/probe"

enum { MOUNTINFO_MAX = 1 << 20, COPY_PATH_MAX = 4300 };

/* A child mounts something in its new namespace; here it must not be seen. */
static bool mounts_leak(bool *do_leak, struct error *err)
{
    struct stat before, after;

    if (mkdir(PROBE, 0755) != 0 || stat(PROBE, &before) != 0)
        return error_errno(err, "making %s", PROBE);
    long child = syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
    if (child < 0)
        return error_errno(err, "making a mount namespace");
    if (child == 0) {
        (void)!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        _exit(mount("tmpfs", PROBE, "tmpfs", 0, NULL) != 0);
    }
    int status;
    while (waitpid((pid_t)child, &status, 0) < 0) {
        if (errno != EINTR)
            return error_errno(err, "waiting for the probe of the mounts");
    }
    if (status != 0 || stat(PROBE, &after) != 0)
        return error_set(err, ERR_INTERNAL, "the probe of the mounts failed");
    *do_leak = before.st_dev != after.st_dev || before.st_ino != after.st_ino;
    if (*do_leak)
        (void)!umount2(PROBE, MNT_DETACH);
    (void)!rmdir(PROBE);
    return true;
}

/* `36 35 98:0 /root /mount/point options …`: only what lies below the image root counts. */
static bool note_mount(struct sandbox *sandbox, struct str line, struct error *err)
{
    static const size_t root_len = sizeof SANDBOX_ROOT - 1;
    struct str fields[6];

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        if (!str_split(&line, ' ', &fields[i]))
            return true;
    }
    struct str path = fields[4];
    if (path.len <= root_len || memcmp(path.ptr, SANDBOX_ROOT "/", root_len + 1) != 0)
        return true;
    if (sandbox->n_mounts == SANDBOX_MOUNTS_MAX)
        return error_set(err, ERR_TOO_LARGE, "the root has over %d mounts", SANDBOX_MOUNTS_MAX);
    bool is_read_only = fields[5].len >= 2 && memcmp(fields[5].ptr, "ro", 2) == 0;
    sandbox->mounts[sandbox->n_mounts++] =
        (struct sandbox_mount){arena_text(&sandbox->arena,
                                          (struct str){path.ptr + root_len, path.len - root_len}),
                               is_read_only};
    return true;
}

static bool note_mounts(struct sandbox *sandbox, struct error *err)
{
    AUTO_FREE char *text = NULL;
    struct str line;

    if (!file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &text, err))
        return false;
    struct str rest = str_of(text);
    while (str_split(&rest, '\n', &line)) {
        if (!note_mount(sandbox, line, err))
            return false;
    }
    return true;
}

bool sharing_setup(struct sandbox *sandbox, struct error *err)
{
    static const char *const ours[] = {"/proc", "/sys", "/scratch", "/image", "/bundle"};

    if (!mounts_leak(&sandbox->shares_mounts, err))
        return false;
    if (!sandbox->shares_mounts)
        return true;
    if (!mount_pts(SANDBOX_ROOT "/dev/pts", err) || !note_mounts(sandbox, err))
        return false;
    /* A root that climbs out of its chroot finds no agent's /proc and no way around the
     * overlays; what is mounted from these stays. */
    for (size_t i = 0; i < COUNT_OF(ours); i++)
        (void)!umount2(ours[i], MNT_DETACH);
    return true;
}

bool sharing_copy_root(const struct sandbox *sandbox, const char *root, struct error *err)
{
    char source[COPY_PATH_MAX], target[COPY_PATH_MAX];

    if (!mount_bind(SANDBOX_ROOT, root, false, err))
        return false;
    for (size_t i = 0; i < sandbox->n_mounts; i++) {
        snprintf(source, sizeof source, "%s%s", SANDBOX_ROOT, sandbox->mounts[i].path);
        snprintf(target, sizeof target, "%s%s", root, sandbox->mounts[i].path);
        if (!mount_bind(source, target, sandbox->mounts[i].is_read_only, err))
            return false;
    }
    return true;
}

union rights {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool sharing_send_mounts(int socket, struct error *err)
{
    AUTO_FD int mounts = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    struct iovec one = {.iov_base = (char[]){'m'}, .iov_len = 1};
    union rights rights = {
        .header = {.cmsg_len = CMSG_LEN(sizeof mounts),
                   .cmsg_level = SOL_SOCKET,
                   .cmsg_type = SCM_RIGHTS}
    };
    struct msghdr message = {.msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = rights.bytes,
                             .msg_controllen = sizeof rights.bytes};

    if (mounts < 0)
        return error_errno(err, "opening the program's mounts");
    memcpy(CMSG_DATA(&rights.header), &mounts, sizeof mounts);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ||
           error_errno(err, "passing the program's mounts on");
}

bool sharing_take_mounts(int socket, int *mounts, struct error *err)
{
    char byte;
    struct iovec one = {.iov_base = &byte, .iov_len = 1};
    union rights rights = {0};
    struct msghdr message = {.msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = rights.bytes,
                             .msg_controllen = sizeof rights.bytes};

    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1)
        return error_errno(err, "taking the program's mounts");
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof *mounts))
        return error_set(err, ERR_INTERNAL, "the program's mounts did not come");
    memcpy(mounts, CMSG_DATA(header), sizeof *mounts);
    return true;
}

void sharing_clear_root(const char *root)
{
    char proc[COPY_PATH_MAX];

    snprintf(proc, sizeof proc, "%s/proc", root);
    (void)!umount2(proc, MNT_DETACH);
    if (strcmp(root, SANDBOX_ROOT) == 0)
        return;
    (void)!umount2(root, MNT_DETACH);
    (void)!rmdir(root);
}
