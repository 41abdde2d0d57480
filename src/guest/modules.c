#include "guest/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"

enum { ORDER_MAX = 16384, MODULE_PATH_MAX = 512 };

static bool load_line(const char *folder, struct str line, enum transport_kind transport,
                      module_loader *load, struct error *err)
{
    char path[MODULE_PATH_MAX];
    struct str file, channel;

    if (!str_split(&line, ' ', &file) || file.len == 0)
        return true;
    if (str_split(&line, ' ', &channel) && !str_equal(channel, str_of(transport_name(transport))))
        return true;
    int len = snprintf(path, sizeof path, "%s/%.*s", folder, (int)file.len, file.ptr);
    if (len < 0 || (size_t)len >= sizeof path)
        return error_set(err, ERR_TOO_LARGE, "the name of a module is too long");
    return load(path, err);
}

bool modules_each(const char *folder, enum transport_kind transport, module_loader *load,
                  struct error *err)
{
    char path[MODULE_PATH_MAX];
    AUTO_FREE char *text = NULL;
    struct str line;

    snprintf(path, sizeof path, "%s/order", folder);
    if (!file_read(path, ORDER_MAX, &text, err))
        return false;
    struct str rest = str_of(text);
    while (str_split(&rest, '\n', &line)) {
        if (!load_line(folder, line, transport, load, err))
            return false;
    }
    return true;
}

bool module_load(const char *file, struct error *err)
{
    AUTO_FD int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return error_errno(err, "open %s", file);
    if (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST)
        return error_errno(err, "loading %s", file);
    return true;
}
