#include "engine/oci/cpuid.h"

#ifdef __x86_64__
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/attr.h"

enum { SET_CPUID = 0x1012 }; /* ARCH_SET_CPUID */

#define LOAD(field)           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)

bool cpuid_untrap(void)
{
    struct sock_filter code[] = {
        LOAD(arch),
        SKIP_UNLESS(AUDIT_ARCH_X86_64, 5),
        LOAD(nr),
        SKIP_UNLESS(SYS_arch_prctl, 3),
        LOAD(args[0]),
        SKIP_UNLESS(SET_CPUID, 1),
        /* What a processor that cannot fault says. */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENODEV),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {COUNT_OF(code), code};

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
bool cpuid_untrap(void)
{
    return true;
}
#endif
