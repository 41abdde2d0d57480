/* The room: the PID and mount namespaces that all execs and terminals of a sandbox share.
 *
 * They see each other's processes, as on one machine, and nothing of tasks. It is made for the
 * first of them and lasts until room_end. A program in it is over when its main process has ended;
 * what that left running stays until the room ends, when the end of its init proves it empty.
 */
#pragma once

#include "guest/program.h"
#include "guest/room_wire.h"

struct room;

bool program_is_in_room(const struct program *program);

/* Starts a program there, with copies of these descriptors; a terminal has its own. */
bool room_launch(struct program *program, const struct message_launch *launch, const int std[3],
                 struct error *err) MUST_USE;

/* Orders for a program in it, as program_order's. */
void room_order(struct program *program, enum init_order order, int value);

/* Gives the terminal of a program its size. */
void room_resize(struct program *program, const struct message_resize *resize);

/* TERM to all now, KILL after the grace; then QUIESCED for program 0, also when there is none. */
void room_end(struct agent *agent, uint64_t grace_ms);

/* How many processes in it the kernel has ended for want of memory. */
uint64_t room_starved(const struct agent *agent);

/* Everybody stands still, and goes on; nothing when there is no room. */
void room_stop(struct agent *agent);
void room_continue(struct agent *agent);

/* Whether the pid is its init's; then nothing of it is left. */
bool room_reaped(struct agent *agent, pid_t pid);

/* Tells the host when the end that it wanted has come. */
void room_settle(struct agent *agent);
void room_destroy(struct agent *agent);
