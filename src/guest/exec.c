#include "guest/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

enum { ABOVE_ALL = 64, WANTED = 5 };

/* A number that is wanted is moved away before it is overwritten; the others may stay. */
bool exec_place(const int wanted[WANTED])
{
    int moved[WANTED];

    for (int i = 0; i < WANTED; i++) {
        moved[i] = wanted[i];
        if (i < 3 && moved[i] < 0)
            moved[i] = open("/dev/null", (i ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        if (i >= 3 && moved[i] < 0)
            continue;
        if (moved[i] >= 0 && moved[i] < WANTED)
            moved[i] = fcntl(moved[i], F_DUPFD_CLOEXEC, ABOVE_ALL);
        if (moved[i] < 0)
            return false;
    }
    for (int i = 0; i < WANTED; i++) {
        if (moved[i] >= 0 && dup2(moved[i], i) < 0)
            return false;
    }
    return true;
}

void exec_search(const char *path, char *const *argv, char *const *env)
{
    struct str rest = str_of(path), folder;
    const char *name = argv[0];
    int kept = ENOENT;

    if (strchr(name, '/')) {
        execve(name, argv, env);
        return;
    }
    while (str_split(&rest, ':', &folder)) {
        char full[4096];
        int len = snprintf(full, sizeof full, "%.*s/%s", (int)folder.len, folder.ptr, name);
        if (folder.len == 0 || len < 0 || (size_t)len >= sizeof full)
            continue;
        /* Asking is cheaper than a refused exec, and most folders of a PATH have not got it. */
        if (access(full, X_OK) == 0)
            execve(full, argv, env);
        if (errno != ENOENT && errno != ENOTDIR)
            kept = errno;
    }
    errno = kept;
}
