/* A value that must not be seen. The bytes are locked in memory, wiped when released,
 * and the type has no field a logger or printf could take: reading them is a call
 * whose name says so.
 */
#pragma once

#include <stdbool.h>

#include "base/str.h"

struct secret {
    struct secret_bytes *hidden;
};

struct secret secret_create(struct str bytes);
void secret_finish(struct secret *secret);

bool secret_is_set(const struct secret *secret);

/* Borrowed until secret_finish. Callers hand it to a system call or a hash, never to a log. */
struct str secret_reveal(const struct secret *secret);

/* In time that depends only on the lengths. */
bool secret_equals(const struct secret *secret, struct str other);
bool bytes_equal_constant_time(struct str a, struct str b);

/* Overwrites in a way the compiler keeps. */
void bytes_wipe(void *bytes, size_t len);
