/* statx without AT_NO_AUTOMOUNT (statx.h says why). Loaded into programs of any image, so it
 * needs nothing of a libc but where errno is. */
#include <errno.h>
#include <sys/syscall.h>

enum { NO_AUTOMOUNT = 0x800 };

__attribute__((visibility("default"))) int statx(int fd, const char *path, int flags, unsigned mask,
                                                 void *out);

#ifdef __x86_64__
static long call(long fd, const char *path, long flags, long mask, void *out)
{
    register long fourth __asm__("r10") = mask;
    register void *fifth __asm__("r8") = out;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_statx), "D"(fd), "S"(path), "d"(flags), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}
#else
static long call(long fd, const char *path, long flags, long mask, void *out)
{
    register long number __asm__("x8") = SYS_statx;
    register long first __asm__("x0") = fd;
    register const char *second __asm__("x1") = path;
    register long third __asm__("x2") = flags;
    register long fourth __asm__("x3") = mask;
    register void *fifth __asm__("x4") = out;

    __asm__ volatile("svc 0"
                     : "+r"(first)
                     : "r"(number), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                     : "memory");
    return first;
}
#endif

int statx(int fd, const char *path, int flags, unsigned mask, void *out)
{
    long result = call(fd, path, flags & ~NO_AUTOMOUNT, mask, out);

    if (result >= 0)
        return 0;
    errno = (int)-result;
    return -1;
}
