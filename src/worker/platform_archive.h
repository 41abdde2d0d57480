/* The archive that the build put into this binary; empty when it was built without one. */
#pragma once

#include <stddef.h>

extern const char platform_archive[];
extern const size_t platform_archive_len;
