/* The control groups of a machine's programs.
 *
 *     programs          all of them: memory without the agent's share, number of processes
 *       p<number>       one program: its init, and what the kernel killed for want of memory
 *         run           the program itself, which can be frozen while its init goes on
 *       p0              the room: all execs and terminals together
 *
 * Without a kernel of our own there are none: the host's groups do this work.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct group {
    char path[64];
    int init_fd, run_fd;      /* writing 0 to one moves the writer there */
    int freeze_fd, events_fd; /* of `run` */
};

#define GROUP_NONE {.init_fd = -1, .run_fd = -1, .freeze_fd = -1, .events_fd = -1}

/* Once: limits for all programs together. */
bool groups_begin(struct error *err) MUST_USE;

/* The descriptors close on exec. */
bool group_make(struct group *group, uint32_t program, struct error *err) MUST_USE;

/* Closes and removes what was made; every process in it must be gone. */
void group_remove(struct group *group);

/* How many of its processes the kernel has ended for want of memory. */
uint64_t group_starved(const struct group *group);

/* The caller moves itself; true also for a descriptor of none. */
bool group_join(int fd);

/* The same for a program about to be: from here on it can be frozen and may be killed for want of
 * memory, and its group is all it sees. */
bool group_enter(int fd);
