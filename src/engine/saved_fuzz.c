/* Any file in the place of a saved sandbox is read to its end or refused. */
#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/own.h"
#include "engine/saved.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[] = "/tmp/helmr-saved-XXXXXX";
    struct saved_reader *reader = NULL;
    struct error err;
    struct str bytes;

    if (!mkdtemp(name))
        abort();
    AUTO_FD int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FD int fd = openat(folder, GVISOR_IMAGE, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (!fd_write_all(fd, (struct str){(const char *)data, size}, &err))
        abort();
    const struct saved_image image = {folder, -1, -1, &saved_form_gvisor};
    if (saved_reader_open(&image, NULL, &reader, &err))
        while (saved_read(reader, &bytes, &err) && bytes.len > 0)
            ;
    saved_reader_close(reader);
    unlinkat(folder, GVISOR_IMAGE, 0);
    rmdir(name);
    return 0;
}
