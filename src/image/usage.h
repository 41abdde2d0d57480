/* What folders take on disk. */
#pragma once

#include <stdint.h>

/* Bytes of parent/name and everything below; what cannot be read or lies on another file system
 * counts as nothing. */
int64_t usage_of(int parent, const char *name);
