/* Firecracker's jailer: the program that confines it, and how it is called.
 *
 * It makes a folder the root of Firecracker's world, gives it devices and takes the rights away.
 * We start it inside the instance's cgroups and in a mount namespace of its own, where the files
 * of the machine are bound into that folder. It leaves Firecracker behind as the first process of
 * a process namespace and ends; its number is in a file then, and is believed only when it is a
 * process of the instance's cgroup.
 */
#pragma once

#include "engine/cgroup.h"
#include "engine/firecracker/files.h"
#include "engine/instance.h"

enum { JAILER_ARGS_MAX = 40, JAILER_TEXT_MAX = 160 };

#define JAILER_API_SOCKET "api.sock"
#define JAILER_LOG        "log"

struct jailer_plan {
    const char *jailer, *binary; /* absolute */
    const char *id;
    unsigned user;
    const char *base;  /* where it makes its folders */
    const char *netns; /* NULL: none is joined */
    const struct cgroup_tree *cgroups;
    const struct cgroup_limits *limits;
};

/* The command line, and the texts that it is made of. */
struct jailer_line {
    const char *args[JAILER_ARGS_MAX]; /* ended by NULL */
    size_t n;
    char user[16], limits[3][JAILER_TEXT_MAX];
};

void jailer_line_make(const struct jailer_plan *plan, struct jailer_line *line);

/* Runs it to its end and holds the Firecracker that it leaves behind as the instance's process. */
bool jailer_run(struct instance *instance, const struct jailer_plan *plan, struct files *files,
                int64_t deadline_ms, struct error *err) MUST_USE;
