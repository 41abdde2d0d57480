#include "guest/statx.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "statx_shim_bytes.h"

enum { NO_AUTOMOUNT = 0x800, BASIC_STATS = 0x7ff, STATX_BYTES = 256 };

bool statx_is_broken(void)
{
    uint64_t bytes[STATX_BYTES / sizeof(uint64_t)];

    return syscall(SYS_statx, AT_FDCWD, "/", NO_AUTOMOUNT, BASIC_STATS, bytes) != 0 &&
           errno == EINVAL;
}

struct str statx_shim(void)
{
    return (struct str){(const char *)statx_shim_bytes, sizeof statx_shim_bytes};
}
