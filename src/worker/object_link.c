#include "worker/object_link.h"

#include <sys/mman.h>

#include "base/own.h"

enum { SIZE_UNKNOWN = -1 };

static bool put(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    const struct object_link *link = arg;
    int64_t fence_ms = lease_look(link->lease).fence_ms;
    bool is_sooner = link->until_ms && link->until_ms < fence_ms;

    return line_store_insist(link->line, facts, fd, is_sooner ? link->until_ms : fence_ms, err);
}

static bool open_object(void *arg, const char *digest, int *fd, struct error *err)
{
    const struct object_link *link = arg;
    AUTO_FD int made = memfd_create("helmr-object", MFD_CLOEXEC);

    if (made < 0)
        return error_errno(err, "make room for an object");
    if (!line_fetch(link->line, digest, SIZE_UNKNOWN, made, err))
        return false;
    *fd = take_fd(&made);
    return true;
}

struct object_backend object_backend_of_link(struct object_link *link)
{
    return (struct object_backend){.arg = link, .put = put, .open = open_object};
}
