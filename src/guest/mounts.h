/* Mounts that work on Linux, in a user namespace and inside gVisor, which each lack some. */
#pragma once

#include <stdint.h>

#include "base/error.h"

bool mount_tmpfs(const char *target, unsigned long flags, const char *options,
                 struct error *err) MUST_USE;

/* Read-only where the kernel lets a bind be: gVisor takes the flag with the bind, Linux after. */
bool mount_bind(const char *source, const char *target, bool is_read_only,
                struct error *err) MUST_USE;

/* A file or directory of a tmpfs, read-only and not to be run. */
bool mount_secret(const char *source, const char *target, struct error *err) MUST_USE;

/* The same in two steps, for a target in other mounts than the source: a copy of the mount that is
 * in no table, and its place in the table of whoever calls then. */
bool mount_tree(const char *source, int *tree, struct error *err) MUST_USE;
bool mount_secret_tree(int tree, const char *target, struct error *err) MUST_USE;

bool mount_overlay(const char *lower, const char *upper, const char *work, const char *target,
                   struct error *err) MUST_USE;

bool mount_proc(const char *target, struct error *err) MUST_USE;

/* Fills `dev` (an existing directory) with a fresh tmpfs and the nodes of the contract. */
bool mount_dev(const char *dev, uint64_t shm_bytes, struct error *err) MUST_USE;

/* An own terminal file system, or else the sandbox's. */
bool mount_pts(const char *target, struct error *err) MUST_USE;

/* Read-only sysfs; where the kernel refuses a new one, the runtime's own. */
bool mount_sys(const char *target, struct error *err) MUST_USE;

/* Whose kernel is behind a program's /proc. A sandbox kernel guards itself; in a machine of our own
 * a root that could write settings could have the kernel run its programs beside the agent; a
 * kernel shared with the host has more to hide. */
enum proc_mask { MASK_NONE, MASK_MACHINE, MASK_SHARED };

/* Hides what such a kernel should not show or take from below a /proc. Best effort by row: a path
 * that this kernel does not have needs no cover. */
void mount_masks(const char *proc, enum proc_mask mask);
