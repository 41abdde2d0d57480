/* TCP sockets that a program watches by epoll. gVisor of 2022 cannot save a sandbox that has one:
 * its save fails, and the sandbox is over.
 */
#pragma once

#include <sys/types.h>

/* One of the processes that have such a socket, by the /proc of their namespace; 0: none has. */
pid_t watched_tcp_find(int proc_fd, const pid_t *processes, size_t n);
