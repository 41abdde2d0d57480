/* A local file or directory as a tar, written to a descriptor as it is read: modes, times, links,
 * and no owners. Sockets and devices are left out.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct local_tree {
    const char *root;         /* a directory, whose entries are the archive's */
    int file_fd;              /* or an open file, when root is NULL */
    const char *name;         /* of that file in the archive */
    unsigned mode;            /* of it */
    int out;                  /* written to, and closed at the end */
    volatile bool has_failed; /* set before `out` is closed */
    struct error err;
    uint64_t n_files, n_skipped;
};

/* All of it; to be run in a thread of its own when `out` is a pipe. */
void local_tree_write(struct local_tree *tree);
