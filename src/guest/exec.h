/* The last steps of a child of ours on its way to another image. They need no memory but the stack,
 * so that a child which shares its parent's may take them.
 */
#pragma once

#include <stdbool.h>

/* Descriptors wanted[i] become i; -1 means /dev/null for the first three, else nothing. */
bool exec_place(const int wanted[5]);

/* Becomes argv[0], looked for in each directory of `path` as a shell would; returns only when that
 * failed, with the most telling errno. */
void exec_search(const char *path, char *const *argv, char *const *env);
