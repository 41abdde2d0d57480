#include "server/archive.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"

/* The verdict is the same wherever in the upload the archive stands. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct error err;
    AUTO_FD int fd = memfd_create("archive", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, data, len, 0) != (ssize_t)len ||
        pwrite(fd, data, len, (off_t)len + 7) != (ssize_t)len)
        return 0;
    if (archive_check(fd, 0, len, &err) != archive_check(fd, len + 7, len, &err))
        abort();
    return 0;
}
