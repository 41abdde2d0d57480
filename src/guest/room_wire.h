/* What the agent and the init of the room say to each other over a pair of SOCK_SEQPACKET sockets:
 * one struct a packet, descriptors beside it.
 */
#pragma once

#include <stdint.h>

#include "guest/user.h"

enum {
    ROOM_PROGRAMS_MAX = 128,
    ROOM_FDS_MAX = 4,
    ROOM_SPEC_MAX = 1 << 20,
    ROOM_TEXT_MAX = 8192, /* a spec that is shorter goes with its order */
};

enum room_order_kind {
    ROOM_LAUNCH = 1, /* with its room_spec behind it, or else as a file, the first descriptor; then
                        stdout, stderr and, when it has one, stdin, but of a terminal none */
    ROOM_SIGNAL,     /* the process group of a program's main process */
    ROOM_SESSION,    /* everything that has not left the program's session */
    ROOM_ALL,        /* everybody; from then on the room ends when it is empty */
    ROOM_STOP,       /* answered by ROOM_STILL or ROOM_MOVES */
    ROOM_CONTINUE
};

struct room_order {
    uint32_t kind, program;
    uint32_t value; /* a signal */
};

enum room_news_kind {
    ROOM_TERMINAL = 1, /* with the controlling end of a program's terminal and, if there is one,
                          the way to its watcher */
    ROOM_STARTED,      /* for one that goes on; the others say it with their end */
    ROOM_FAILED,       /* value: an errno; stage: an init_stage */
    ROOM_EXITED,       /* value: a wait status; what it used */
    ROOM_STILL,        /* value: how many processes were stopped */
    ROOM_MOVES         /* they could not all be stopped, and go on */
};

struct room_news {
    uint32_t kind, program;
    int32_t pid; /* of STARTED and EXITED */
    int32_t value;
    uint32_t stage;
    uint64_t cpu_ms, max_rss_kib;
};

/* How a program begins. Texts follow, each with its NUL: the arguments, the variables, PATH, the
 * directory. */
struct room_spec {
    uint32_t n_argv, n_env;
    uint32_t is_terminal, cols, rows;
    uid_t uid;
    gid_t gid;
    uint32_t n_groups;
    gid_t groups[USER_GROUPS_MAX];
};

/* One packet with descriptors; false with errno. */
bool room_send(int socket, const void *packet, size_t len, const int *fds, size_t n_fds) MUST_USE;

/* The same with a text behind it in the packet. */
bool room_send_text(int socket, const void *packet, size_t len, struct str text, const int *fds,
                    size_t n_fds) MUST_USE;

/* What came, 0 at the end, -1 with errno. The descriptors close on exec. */
ssize_t room_receive(int socket, void *packet, size_t len, int fds[ROOM_FDS_MAX],
                     size_t *n_fds) MUST_USE;
