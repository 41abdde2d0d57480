/* A kernel that has statx but refuses a flag that every modern ls sends. gVisor of 2022 is one:
 * ls and stat then fail on every file. Programs there get a library ahead of their own that
 * leaves the flag out; it is a hint, and there is nothing to mount automatically in a sandbox.
 */
#pragma once

#include "base/str.h"

bool statx_is_broken(void);

/* The library, for any program with a libc. */
struct str statx_shim(void);
