/* What to do where a new mount namespace is none: some gVisor versions accept the flag and go on
 * with one table of mounts for the whole sandbox. */
#pragma once

#include "guest/sandbox.h"

/* Finds out by trying. If so, notes the mounts of the root for copies of it and takes the
 * agent's own /proc, scratch and layers out of reach of programs. */
bool sharing_setup(struct sandbox *sandbox, struct error *err) MUST_USE;

/* Puts the sandbox's root together once more at `root`, an empty directory. */
bool sharing_copy_root(const struct sandbox *sandbox, const char *root, struct error *err) MUST_USE;

/* A program's mount namespace on its way from its init, which may open it, to the agent, which may
 * not once the init has become another image. */
bool sharing_send_mounts(int socket, struct error *err) MUST_USE;
bool sharing_take_mounts(int socket, int *mounts, struct error *err) MUST_USE;

/* Removes what a program's mounts left behind: its /proc and, when it is a copy, its root. */
void sharing_clear_root(const char *root);
