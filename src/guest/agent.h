/* The agent: one loop, one channel to the host, the sandbox and its programs.
 *
 * Callbacks only change state; after every turn of the loop agent_settle moves what can move
 * (output within credit, payloads, proofs of emptiness) and flushes the channel. An error of the
 * channel ends the agent, and as PID 1 it takes the sandbox with it.
 */
#pragma once

#include "base/loop.h"
#include "guest/clock.h"
#include "guest/hold.h"
#include "guest/mounts.h"
#include "guest/reestablish.h"
#include "guest/resync.h"
#include "guest/sandbox.h"
#include "guest/seen.h"
#include "protocol/channel.h"

struct boot;
struct capture;
struct place;
struct leftover;
struct program;
struct relay;
struct room;
struct spares;

struct agent {
    struct loop *loop;
    struct channel channel; /* its two descriptors differ: epoll takes each number once */
    struct loop_source *source_in, *source_out; /* out: only while the channel is full */
    struct boot *boot;                          /* of a machine of our own, or NULL */
    struct sandbox sandbox;
    struct program *programs;
    struct spares *spares;      /* for the next exec; NULL: nothing is at hand */
    struct room *room;          /* of execs and terminals; NULL: there are none yet */
    bool is_room_unwanted;      /* the host waits to hear that there is none */
    struct leftover *leftovers; /* outputs of programs that are over */
    size_t n_leftovers;
    struct secrets *secrets; /* of programs that have not been launched yet */
    struct loop_timer *dead_man, *again;
    struct clock_watch clock;
    struct resync resync;
    struct reestablish reestablish;
    struct hold hold;
    struct capture *capture; /* one that runs, or NULL */
    struct place *place;     /* the same */
    struct seen seen;        /* what the host knows of the workspace */
    struct loop_source *remember_source;
    struct loop_timer *remember_timer;
    struct relay *relays;
    uint16_t next_stream; /* even numbers are ours */
    int self_fd;          /* this binary, for program inits */
    uint8_t digest[32];   /* of it */
    enum proc_mask mask;  /* of each program's /proc */
    bool is_welcome, is_frozen, is_stopping, is_done;
    uint64_t shutdown_id;
    int exit_code;
};

/* Runs until the host says so or goes away; returns the exit code. */
int agent_run(struct agent *agent);

/* Queues a message; a channel that cannot take it is the end of the agent. */
void agent_send(struct agent *agent, enum message_type type, const void *message);

/* Answers a request with ERROR. */
void agent_refuse(struct agent *agent, uint64_t id, const char *stage, const char *code,
                  const struct error *err);

/* Every channel begins with it, also one that meets the host again. */
void agent_hello(struct agent *agent);

/* Watches the channel's input; false when the loop cannot. */
bool agent_listen(struct agent *agent, struct error *err) MUST_USE;

/* Takes what is there on the channel. */
void agent_read(struct agent *agent);

/* Another turn soon, for what no event tells of: bytes that have reached the wire. */
void agent_again(struct agent *agent, int64_t delay_ms);

/* A machine's clock is ours to set; it is watched anew from here on. */
void agent_set_clock(struct agent *agent, uint64_t realtime_ns);

/* Ends the agent because of the channel or the loop. */
void agent_die(struct agent *agent, const struct error *err);
