/* The user a program runs as, looked up in the image's own /etc/passwd and /etc/group.
 *
 * Both files are read under a bound and parsed here; a broken line is passed over. No library
 * is asked, so the image's name service cannot run code in the agent.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "base/str.h"

enum { USER_NAME_MAX = 256, USER_PATH_MAX = 1024, USER_GROUPS_MAX = 64 };

struct user {
    uid_t uid;
    gid_t gid;
    gid_t groups[USER_GROUPS_MAX];
    size_t n_groups;
    char name[USER_NAME_MAX];
    char home[USER_PATH_MAX], shell[USER_PATH_MAX];
};

/* `spec` is empty (root), `name`, `uid`, `name:group` or `uid:gid`. ERR_NOT_FOUND for a name that
 * the image does not have. */
bool user_resolve(const char *root, struct str spec, struct user *user, struct error *err) MUST_USE;

/* The same on texts that are already here. */
bool user_find(struct str passwd, struct str group, struct str spec, struct user *user,
               struct error *err) MUST_USE;
