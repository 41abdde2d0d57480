/* Unpacks a tar below a local directory, safely: no name leads out of it, nothing is written
 * through a symbolic link, and devices are refused. Files belong to who unpacks them.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Reads the descriptor to its end. What is there already is replaced, directories are kept. */
bool untar(int tar_fd, int folder_fd, uint64_t *n_files, struct error *err) MUST_USE;
