/* One descriptor per child that becomes readable when it has ended: a pidfd, or where the
 * kernel has none (gVisor) an eventfd that a small thread raises. Until it is reaped the
 * child's number cannot be given to another process, so signals never hit a stranger.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

int child_open(pid_t pid); /* -1 with errno */
bool child_signal(pid_t pid, int fd, int number);

/* Reaps a child that has ended, or waits for it when `block`. *status is a wait status. Returns
 * 1 when reaped, 0 when it still runs, -1 with errno when it is no child any more. */
int child_reap(pid_t pid, int fd, bool block, int *status);
