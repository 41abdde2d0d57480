#include "guest/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attr.h"

enum { DESCRIPTORS = 65536, CAPABILITIES = 64 };

/* What root in an image needs to install and run things; SYS_ADMIN is the agent's alone. */
static const uint8_t kept[] = {
    CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,      CAP_FSETID,           CAP_KILL,
    CAP_MKNOD,   CAP_SETUID,       CAP_SETGID,      CAP_SETPCAP,          CAP_SETFCAP,
    CAP_NET_RAW, CAP_SYS_CHROOT,   CAP_AUDIT_WRITE, CAP_NET_BIND_SERVICE,
};

static uint64_t kept_bits(void)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < COUNT_OF(kept); i++)
        bits |= 1ull << kept[i];
    return bits;
}

bool confine_limits(void)
{
    struct rlimit limit;

    umask(022);
    if (setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) != 0)
        return false;
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){DESCRIPTORS, DESCRIPTORS}) == 0)
        return true;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* The end of the list is where the kernel knows no more numbers. */
static bool drop_bounding(uint64_t bits)
{
    for (unsigned long number = 0; number < CAPABILITIES; number++) {
        int has = prctl(PR_CAPBSET_READ, number, 0, 0, 0);
        if (has < 0)
            return true;
        if (has && !(bits >> number & 1) && prctl(PR_CAPBSET_DROP, number, 0, 0, 0) != 0)
            return false;
    }
    return true;
}

static bool limit_capabilities(uint64_t bits)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) != 0)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t word = (uint32_t)(bits >> (32 * i));
        data[i].permitted &= word;
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    return syscall(SYS_capset, &header, data) == 0;
}

bool confine_children(void)
{
    return confine_limits() && drop_bounding(kept_bits());
}

bool confine_user(const struct user *user)
{
    return drop_bounding(kept_bits()) && confine_become(user);
}

/* Not by way of the library, which would tell other threads, with three more calls each: there are
 * none, and in the child of a vfork there are the parent's. */
bool confine_become(const struct user *user)
{
    if (syscall(SYS_setgroups, user->n_groups, user->groups) != 0 ||
        syscall(SYS_setresgid, user->gid, user->gid, user->gid) != 0 ||
        syscall(SYS_setresuid, user->uid, user->uid, user->uid) != 0)
        return false;
    return limit_capabilities(user->uid == 0 ? kept_bits() : 0);
}

bool confine_borrow(const struct user *user)
{
    return setgroups(user->n_groups, user->groups) == 0 &&
           setresgid((gid_t)-1, user->gid, (gid_t)-1) == 0 &&
           setresuid((uid_t)-1, user->uid, (uid_t)-1) == 0;
}

void confine_return(void)
{
    if (setresuid((uid_t)-1, 0, (uid_t)-1) != 0 || setresgid((gid_t)-1, 0, (gid_t)-1) != 0 ||
        setgroups(0, NULL) != 0)
        abort();
}
