#include "engine/oci/cpuid.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test.h"

#ifdef __x86_64__
enum { SET_CPUID = 0x1012, GET_CPUID = 0x1011, GET_FS = 0x1003 };

enum { REFUSED = 1, ON = 2, OTHERS_WORK = 4, NOT_ALLOWED = 8 };

/* What a child finds that has called it, and whose own child inherits it. */
static int look(void)
{
    unsigned long base = 0;
    int found = 0;

    if (!cpuid_untrap())
        return NOT_ALLOWED;
    if (syscall(SYS_arch_prctl, SET_CPUID, 0) != 0 && errno == ENODEV)
        found |= REFUSED;
    if (syscall(SYS_arch_prctl, GET_CPUID, 0) != 0)
        found |= ON;
    if (syscall(SYS_arch_prctl, GET_FS, &base) == 0 && base != 0)
        found |= OTHERS_WORK;
    return found;
}

TEST(the_fault_is_refused_and_nothing_else_is)
{
    int status = 0;
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid == 0)
        _exit(look());
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == NOT_ALLOWED)
        SKIP("filters are not allowed here");
    CHECK(WEXITSTATUS(status) == (REFUSED | ON | OTHERS_WORK));
}
#else
TEST(there_is_nothing_to_refuse_elsewhere)
{
    CHECK(cpuid_untrap());
}
#endif

TEST_MAIN()
