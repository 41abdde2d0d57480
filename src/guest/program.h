/* A program: one process tree with its output streams, in a PID and mount namespace of its own or,
 * an exec or a terminal, in those of the room (room.h).
 *
 * Its life: launched → started (or failed) → exited → quiesced. It is quiesced when its init has
 * been reaped, which proves the namespace empty, and everything it wrote is on the wire.
 */
#pragma once

#include "guest/agent.h"
#include "guest/init.h"
#include "guest/user.h"

struct adapter;

/* One pipe of the program on its way to the host. */
struct program_output {
    struct program *program;
    int fd;                     /* -1 at its end */
    struct loop_source *source; /* NULL while the host takes no more */
    uint16_t stream;
    uint64_t offset; /* bytes read so far */
    bool is_cut;     /* over once it is empty, whoever may still hold the other end */
};

struct program_input {
    struct program *program;
    int fd; /* -1: none, or closed by the program */
    struct loop_source *source;
    uint16_t stream;
    struct buf pending;
    bool is_ending;
    bool is_awaited; /* its fd is on its way: a terminal is made by the room */
};

struct program {
    struct program *next;
    struct agent *agent;
    struct arena arena;
    uint32_t number;
    uint64_t launch_id;
    enum program_kind kind;
    pid_t init_pid;
    int report_fd, control_fd;
    int mounts_fd; /* brings the namespace of its mounts; -1: it shares the agent's, or has no use
                    */
    struct loop_source *report_source, *control_source;
    struct program_output out[2];
    struct program_input in;
    struct adapter *adapter; /* tasks and checks */
    struct secrets *secrets; /* or NULL */
    struct group group;
    struct loop_timer *kill_timer, *linger_timer;
    pid_t room_pid;   /* as its room counts them */
    uint64_t starved; /* how many had been in the room before it */
    const char *cwd;
    int watcher_fd;        /* to the watcher of its terminal (terminal.h), or -1 */
    struct hold_part held; /* of one that is not in the room */
    struct init_news exit; /* once has_exited */
    bool is_reaped, has_executed;
    bool has_answered, has_started; /* LAUNCH has its answer; it was STARTED */
    bool has_exited, has_told_exit;
    bool is_killed;        /* beyond any grace */
    const char *main_name; /* argv[0] */
    const char *root;      /* what it sees as / */
    struct user user;
};

/* Starts what LAUNCH asks for; every failure becomes LAUNCH_FAILED, followed by QUIESCED. */
void program_launch(struct agent *agent, const struct message_launch *launch);

/* The user of the launch, or else the sandbox's. */
bool program_choose_user(struct program *program, struct str name, struct error *err) MUST_USE;

/* Begins to listen to the init's report and exit. */
bool program_watch(struct program *program, struct error *err) MUST_USE;

/* Frees it and its descriptors; what it still runs is not waited for. */
void program_destroy(struct program *program);

struct program *program_find(struct agent *agent, uint32_t number);
struct program *program_of_stream(struct agent *agent, uint16_t stream);
struct program *program_of_pid(struct agent *agent, pid_t pid);

/* The program answers its LAUNCH; later calls do nothing. */
void program_started(struct program *program, struct str node_version);
void program_failed(struct program *program, const char *stage, int sys, const char *failure,
                    const char *text);

void program_reaped(struct program *program, int status);
void program_order(struct program *program, enum init_order order, unsigned char value);

/* TERM to all now, KILL after the grace. */
void program_kill(struct program *program, uint64_t grace_ms);

/* Bytes from the host for stdin or the payload. */
bool program_data(struct program *program, uint16_t stream, struct str bytes, bool is_end,
                  struct error *err) MUST_USE;

/* Moves what can move; false when the program is over and was freed. */
bool program_settle(struct program *program);
