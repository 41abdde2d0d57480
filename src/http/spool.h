/* Files without a name, for bodies too large for memory: gone when their descriptor closes. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

bool spool_open(const char *folder, int *fd, struct error *err) MUST_USE;

/* Writes all of it at the offset; ERR_UNAVAILABLE when the disk is full. */
bool spool_write(int fd, struct str bytes, uint64_t offset, struct error *err) MUST_USE;
