/* What a jailed machine sees: its root folder, and the files that are bound into it.
 *
 * The folder lies in the instance's, so it goes with it. Files of others are never copied: each
 * becomes a read-only mount that only the machine's mount namespace will have, made here and put
 * in its place by the child that becomes the jailer. What the machine saves goes to a folder in
 * memory, at SAVES.
 */
#pragma once

#include <limits.h>

#include "engine/instance.h"

enum { FILES_BOUND_MAX = 8 };

#define FILES_SAVES "save"

struct files_bound {
    int tree; /* -1: a file of the folder at SAVES, of the same name */
    char name[32];
};

struct files {
    char path[PATH_MAX]; /* of the root */
    int root, saves;     /* -1: none yet */
    unsigned user;
    struct files_bound bound[FILES_BOUND_MAX];
    size_t n_bound;
};

/* Makes the root as a jailer would for this program and id, with room for so much in memory. */
bool files_open(struct instance *instance, const char *program, int64_t saves_bytes,
                struct files *files, struct error *err) MUST_USE;
void files_finish(struct files *files);

/* Shows the file read-only under a name; nobody can write it through that. `folder` is AT_FDCWD or
 * a folder in memory: kernels before 6.15 bind nothing of such, and it is copied. */
bool files_bind(struct files *files, int folder, const char *source, const char *name,
                struct error *err) MUST_USE;

/* A file of the machine's own, writable for it and empty; the caller closes it. */
bool files_make(struct files *files, const char *name, int *fd, struct error *err) MUST_USE;

/* A pipe with a name, for what the machine logs. The reader blocks nobody; the writer is for the
 * standard error of the jailer. */
bool files_make_pipe(struct files *files, const char *name, int *reader, int *writer,
                     struct error *err) MUST_USE;

/* A regular file of the root, or of a folder below it, though the machine may have changed it. */
bool files_read_open(int folder, const char *name, int *fd, struct error *err) MUST_USE;

/* Between fork and exec, in a mount namespace of the child's own. */
bool files_place(const struct files *files, struct error *err) MUST_USE;
