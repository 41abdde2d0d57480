#include "worker/object_link.h"

#include <sys/mman.h>

#include "base/own.h"

enum { SIZE_UNKNOWN = -1 };

static bool put(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    return line_store_sealed(arg, facts, fd, err);
}

static bool open_object(void *arg, const char *digest, int *fd, struct error *err)
{
    AUTO_FD int made = memfd_create("helmr-object", MFD_CLOEXEC);

    if (made < 0)
        return error_errno(err, "make room for an object");
    if (!line_fetch(arg, digest, SIZE_UNKNOWN, made, err))
        return false;
    *fd = take_fd(&made);
    return true;
}

struct object_backend object_backend_of_line(struct line *line)
{
    return (struct object_backend){.arg = line, .put = put, .open = open_object};
}
