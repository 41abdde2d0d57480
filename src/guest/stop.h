/* All processes of a program's namespace stopped at once, by its init: by the freezer of their
 * control group where there is one, else by signals.
 *
 * Between stop_all and stop_end nothing of the program runs. What was stopped before stays so
 * afterwards: a program's own job control is not undone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { STOP_PROCESSES_MAX = 16384 };

struct stop {
    int proc_fd;              /* the /proc of the namespace */
    int freeze_fd, events_fd; /* of the control group, or -1 */
    bool is_on;
    size_t n_processes;
    pid_t before[STOP_PROCESSES_MAX]; /* stopped by somebody else */
    size_t n_before;
    pid_t now[STOP_PROCESSES_MAX];
};

/* Fills now and n_processes with every process there is; false when there are too many. */
bool stop_list(struct stop *stop);

/* False when some process would not stop within two seconds; all go on then. */
bool stop_all(struct stop *stop);
void stop_end(struct stop *stop);
