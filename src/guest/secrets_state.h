/* The inside of a set of secrets, shared by secrets.c (values on the tmpfs) and secrets_place.c
 * (where a program sees them).
 */
#pragma once

#include <sys/stat.h>

#include "guest/secrets.h"

enum secret_mount_kind {
    SECRET_MOUNT_FILE,      /* one value */
    SECRET_MOUNT_DIRECTORY, /* a directory that was asked for */
    SECRET_MOUNT_PARENT,    /* one that the image lacks and whose files were asked for */
};

struct secret_mount {
    struct secret_mount *next;
    enum secret_mount_kind kind;
    const char *path;   /* inside the root: where it is bound */
    const char *source; /* on the tmpfs */
    const char *owner;  /* empty: the program's user */
    mode_t mode;
    dev_t device; /* of the source */
    ino_t inode;
    int tree;   /* a mount that is in no table yet, or -1 */
    int parent; /* in the sandbox's root, -1 until placed */
    const char *name;
    bool is_new; /* the placeholder is ours */
    bool borrows_parent;
};

struct secret_file {
    struct secret_file *next;
    struct secret_mount *mount;
    const char *path;  /* inside the root: the file itself */
    const char *value; /* on the tmpfs */
    const char *owner; /* empty: the program's user */
    mode_t mode;
    int fd; /* of the value */
    size_t len;
    bool is_zero;
};

struct secret_directory {
    struct secret_directory *next;
    int parent;
    const char *name, *path; /* the last part; inside the root */
};

/* The directory of the image at `path`, that a file of the set may be in: made as a placeholder
 * when it is not there. False: it is there, or in the way of a look at it. */
bool secrets_make_parent(struct secrets *set, struct secret_mount *mount);

/* Takes away what was bound on; `root` as for secrets_destroy. */
void secrets_unplace(struct secrets *set, const char *root);
