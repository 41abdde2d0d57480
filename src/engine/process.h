/* Which process was it: its number, when it started and what it runs.
 *
 * A number alone names whoever has it now. A recorded process is killed through a
 * pidfd, and only while all three still agree.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { PROCESS_IDENTITY_TEXT = 96 };

struct process_identity {
    pid_t pid;
    uint64_t started; /* clock ticks since boot */
    uint64_t exe_dev, exe_ino;
};

bool process_identify(pid_t pid, struct process_identity *identity, struct error *err) MUST_USE;
void process_identity_format(const struct process_identity *identity,
                             char text[PROCESS_IDENTITY_TEXT]);
bool process_identity_parse(const char *text, struct process_identity *identity) MUST_USE;

/* Of a live process with all its threads: the time it had of processors, and the most memory. */
bool process_usage(pid_t pid, int64_t *cpu_ms, int64_t *peak_bytes, struct error *err) MUST_USE;

/* SIGTERM, up to term_ms, SIGKILL, up to kill_ms. A process that is gone, or another that has its
 * number now, is success and is left alone. */
bool process_kill_recorded(const struct process_identity *identity, int term_ms, int kill_ms,
                           struct error *err) MUST_USE;
