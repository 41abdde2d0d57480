/* Namespaces of a user: what a worker that is not root can still put round its machines, where the
 * kernel lets users make namespaces of their own.
 */
#pragma once

#include "base/error.h"

/* Whether this user can: tried by making one, with a file system in memory inside. */
bool spaces_probe(char *reason, size_t room);

/* In a fresh user namespace, between fork and exec: this user and its group, and nobody else. */
bool spaces_map(unsigned user, unsigned group, struct error *err) MUST_USE;

/* A file system in memory, of the caller's user, mounted nowhere: its root. */
bool spaces_memory(const char *size, int *folder, struct error *err) MUST_USE;
