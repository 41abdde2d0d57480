/* The first line is the content type, the rest the body: no crash, and every part lies inside
 * the file, after the one before. */
#include <assert.h>
#include <sys/mman.h>

#include "base/own.h"
#include "http/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str body = {(const char *)data, size}, type;
    struct multipart parts;
    struct multipart_part part;
    struct error err;
    uint64_t at = 0;
    bool found;

    if (!str_split(&body, '\n', &type) || !body.ptr)
        return 0;

    AUTO_FD int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, body.ptr, body.len) != (ssize_t)body.len)
        abort();
    if (!multipart_begin(&parts, type, fd, body.len, &err))
        return 0;
    while (multipart_next(&parts, &part, &found, &err) && found) {
        assert(part.offset > at && part.offset + part.len <= body.len);
        assert(part.name[0] && strlen(part.name) < sizeof part.name);
        at = part.offset + part.len;
    }
    return 0;
}
