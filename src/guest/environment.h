/* The environment block of a program: the image's variables without LD_*, then what the launch
 * adds, then what is always there. A later value replaces an earlier one of the same name.
 */
#pragma once

#include "base/arena.h"
#include "guest/user.h"
#include "protocol/message.h"

struct environment {
    char **block; /* NULL-terminated, in the arena */
    size_t n, room;
};

void environment_init(struct environment *env, struct arena *arena, size_t room);

/* Adds or replaces `NAME=value`; entries that are none are passed over. */
void environment_put(struct environment *env, struct arena *arena, struct str entry);
void environment_put_value(struct environment *env, struct arena *arena, const char *name,
                           const char *value);

/* The value of a name, or NULL. */
const char *environment_get(const struct environment *env, const char *name);

void environment_build(struct environment *env, struct arena *arena, struct str_list image,
                       struct str_list launch, const struct user *user, const char *cwd);
