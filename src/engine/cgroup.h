/* Control groups on any host: v2, v1 or both at once.
 *
 * An instance's group has the same relative path (parent/tag/short) in every mounted
 * hierarchy, so that a runtime finds them all made. Limits go to whichever hierarchy
 * has the controller; freezing and killing prefer the unified tree. Making, killing
 * and removing may be repeated.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { CGROUP_HIERARCHIES_MAX = 16, CGROUP_PATH_MAX = 128 };

enum {
    CGROUP_MEMORY = 1,
    CGROUP_CPU = 2,
    CGROUP_CPUACCT = 4,
    CGROUP_PIDS = 8,
    CGROUP_FREEZER = 16,
    CGROUP_CPUSET = 32,
};

struct cgroup_hierarchy {
    char mount[CGROUP_PATH_MAX];
    unsigned controllers;
    bool is_unified;
};

struct cgroup_tree {
    struct cgroup_hierarchy hierarchies[CGROUP_HIERARCHIES_MAX];
    size_t n;
    char root[CGROUP_PATH_MAX]; /* parent/tag, relative to every mount */
};

struct cgroup_limits {
    int64_t memory_bytes;
    int cpu_percent; /* 100 is one core */
    int processes;
};

struct cgroup_usage {
    int64_t cpu_ms, memory_peak_bytes;
    bool oom_killed, fork_refused;
};

/* Finds the hierarchies and makes parent/tag in each. */
bool cgroup_tree_open(const char *parent, const char *tag, struct cgroup_tree *tree,
                      struct error *err) MUST_USE;
/* Removes parent/tag; the parent too when nobody else is in it. */
void cgroup_tree_close(const struct cgroup_tree *tree);

bool cgroup_make(const struct cgroup_tree *tree, const char *name,
                 const struct cgroup_limits *limits, struct error *err) MUST_USE;

/* Descriptors of every cgroup.procs: a child writes "0" to each to join. The caller closes. */
bool cgroup_open_procs(const struct cgroup_tree *tree, const char *name,
                       int fds[CGROUP_HIERARCHIES_MAX], struct error *err) MUST_USE;

/* The inode in the first hierarchy, to tell the group from a later one of the same name; 0: absent.
 */
uint64_t cgroup_inode(const struct cgroup_tree *tree, const char *name);

bool cgroup_freeze(const struct cgroup_tree *tree, const char *name, bool is_frozen,
                   struct error *err) MUST_USE;

/* Kills until nothing is left inside. ERR_TIMEOUT: something still is. */
bool cgroup_kill(const struct cgroup_tree *tree, const char *name, int timeout_ms,
                 struct error *err) MUST_USE;

/* One kill of everything inside, without waiting. */
void cgroup_kill_once(const struct cgroup_tree *tree, const char *name);

/* Removes the empty group, and groups inside it, everywhere; absence is success. */
bool cgroup_remove(const struct cgroup_tree *tree, const char *name, struct error *err) MUST_USE;

bool cgroup_usage(const struct cgroup_tree *tree, const char *name, struct cgroup_usage *usage,
                  struct error *err) MUST_USE;

/* Calls for each group directly below parent/tag, in every hierarchy (so perhaps repeatedly). */
typedef void cgroup_visit(void *arg, const char *name);
void cgroup_each(const struct cgroup_tree *tree, cgroup_visit *visit, void *arg);
