/* The names in a directory, in order. */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "guest/walk.h"

enum { LISTING = 65536 };

/* As the kernel gives it: readdir would open the directory once more, and ask three times. */
struct record {
    uint64_t inode;
    int64_t next;
    uint16_t len;
    uint8_t kind;
    char name[];
};

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

static void add_names(struct arena *arena, const char ***names, size_t *n, struct str listing)
{
    for (size_t at = 0; at < listing.len;) {
        const char *name = listing.ptr + at + offsetof(struct record, name);
        struct record record;
        memcpy(&record, listing.ptr + at, sizeof record);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            add_name(arena, names, n, name);
        at += record.len;
    }
}

bool walk_names(int folder, struct buf *room, struct arena *arena, const char ***names, size_t *n,
                struct error *err)
{
    char *bytes = buf_room(room, LISTING, err);
    long got;

    if (!bytes)
        return false;
    *n = 0;
    while ((got = syscall(SYS_getdents64, folder, bytes, LISTING)) > 0 && *n <= TREE_ENTRIES_MAX)
        add_names(arena, names, n, (struct str){bytes, (size_t)got});
    if (got < 0)
        return error_errno(err, "reading a directory");
    if (*n > 1)
        qsort(*names, *n, sizeof **names, compare_names);
    return true;
}
