/* The names in a directory, in order. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/own.h"
#include "guest/walk.h"

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_name(struct arena *arena, const char ***names, size_t *n, const char *name)
{
    /* A power of two is when the list is full. */
    if ((*n & (*n - 1)) == 0 && (*n >= 16 || *n == 0)) {
        const char **grown = arena_array(arena, *n ? 2 * *n : 16, sizeof *grown);
        if (*n)
            memcpy(grown, *names, *n * sizeof *grown);
        *names = grown;
    }
    (*names)[(*n)++] = arena_text(arena, str_of(name));
}

bool walk_names(int folder, struct arena *arena, const char ***names, size_t *n, struct error *err)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream) {
        int why = errno;
        auto_close(&fd);
        errno = why;
        return error_errno(err, "reading a directory");
    }
    *n = 0;
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            add_name(arena, names, n, entry->d_name);
        if (*n > TREE_ENTRIES_MAX)
            break;
        errno = 0;
    }
    int why = errno;
    closedir(stream);
    if (*n > 1)
        qsort(*names, *n, sizeof **names, compare_names);
    errno = why;
    return why == 0 || error_errno(err, "reading a directory");
}
