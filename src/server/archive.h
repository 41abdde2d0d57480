/* A light look at an uploaded source before it is kept: it is a tar of sane names and number.
 *
 * Nothing is unpacked here; the build does that again with its own checks, in a sandbox.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* ERR_ARCHIVE_INVALID says which entry is refused and why. */
bool archive_check(int fd, uint64_t offset, uint64_t len, struct error *err) MUST_USE;

/* Relative, without empty, `.` or `..` segments, of at most 4096 bytes. */
bool archive_path_is_safe(struct str path);
