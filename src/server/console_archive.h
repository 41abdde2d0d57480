/* The files of the web console that the build put into this binary; empty when it was built
 * without. */
#pragma once

#include <stddef.h>

extern const char console_archive[];
extern const size_t console_archive_len;
