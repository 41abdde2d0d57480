/* The program init: PID 1 of one program's namespaces.
 *
 * It starts as a copy of the agent, enters the image root, forks the program's main process and
 * then becomes this binary anew (`--init`), so that no memory of the agent stays behind. From
 * then on it reaps orphans, obeys one-byte orders from the agent, and ends only when it is
 * alone: its end proves that nothing of the program is left.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "guest/group.h"
#include "guest/mounts.h"
#include "guest/sandbox.h"
#include "guest/secrets.h"

/* What a launch does, in order; the stage of a failure. */
enum init_stage {
    STAGE_NAMESPACE,
    STAGE_MOUNT,
    STAGE_PIVOT,
    STAGE_FORK,
    STAGE_LIMITS,
    STAGE_USER,
    STAGE_SECRETS,
    STAGE_CWD,
    STAGE_EXEC
};

const char *init_stage_name(enum init_stage stage);

/* Written to the report pipe by whoever fails; an end without one means that all went well. */
struct init_report {
    uint32_t stage;
    int32_t sys;
    char text[240];
};

/* Orders, one byte each; INIT_SIGNAL is followed by the signal's number. INIT_STOP is answered by
 * NEWS_STOPPED or NEWS_RUNNING; INIT_CONT leaves stopped what was so before. */
enum init_order {
    INIT_TERM = 'T',
    INIT_KILL = 'K',
    INIT_STOP = 'S',
    INIT_CONT = 'C',
    INIT_SIGNAL = 'G'
};

enum init_news_kind {
    NEWS_EXIT = 1,    /* the main process has ended; sent once */
    NEWS_STOPPED = 2, /* every process stands still */
    NEWS_RUNNING = 3  /* they could not all be stopped, and go on */
};

struct init_news {
    uint32_t kind;
    int32_t status;     /* of an exit: a wait status */
    uint64_t processes; /* that were stopped */
    int64_t watcher;    /* one of them that watches TCP sockets, or 0 */
    uint64_t cpu_ms, max_rss_kib;
};

struct init_spec {
    const struct sandbox *sandbox;
    const char *root;               /* the image root, or a copy of it to be made here */
    char *const *argv, *const *env; /* argv NULL: the init of the room */
    const char *path;               /* PATH of the program, for argv[0] */
    const char *cwd;
    const struct user *user;
    const struct secrets *secrets; /* or NULL */
    const struct group *group;     /* its descriptors are -1 where there are no groups */
    int std[3];                    /* -1: /dev/null */
    int adapter_fd;                /* becomes fd 3, or -1 */
    int barrier_fd;                /* becomes fd 4, or -1 */
    int self_fd;                   /* this binary */
    int control_fd;                /* orders in, news out */
    int report_fd;
    int mounts_fd; /* gets the namespace of the mounts, or -1 */
    enum proc_mask mask;
};

/* Clones into new PID and mount namespaces; returns in the agent only. */
bool init_start(const struct init_spec *spec, pid_t *pid, struct error *err) MUST_USE;

/* `helmr-guest --init`: orders on fd 3, its /proc on fd 4, the main process is `main_pid`. With a
 * freezer the files cgroup.freeze and cgroup.events are fds 5 and 6, and cgroup.procs of what it
 * freezes is fd 7. */
int init_main(pid_t main_pid, bool has_freezer);
