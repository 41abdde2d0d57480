/* The monitor of one QEMU process: one command at a time, each under a deadline.
 *
 * The other side may be a guest that got out: a line is bounded, every message must be one that the
 * protocol knows and answer what was asked, and the first that does not ends the conversation.
 * Events are passed over. Deadlines are boot times.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum { QMP_LINE_MAX = 65536, QMP_STATUS_ROOM = 32 };

enum qmp_kind { QMP_GREETING, QMP_EVENT, QMP_RETURN, QMP_ERROR };

struct qmp_message {
    enum qmp_kind kind;
    int64_t id;      /* of what it answers */
    struct str body; /* of a return: JSON */
    struct str text; /* of an error: its sentence; of an event: its name */
};

/* One line, without its end. What the message points to is the arena's. */
bool qmp_parse(struct str line, struct arena *arena, struct qmp_message *message,
               struct error *err) MUST_USE;

struct qmp {
    int fd; /* -1: none */
    int64_t last_id;
    bool is_met;
    struct buf in;
};

/* Takes the socket; nothing is said before the first command. */
void qmp_init(struct qmp *qmp, int fd);
void qmp_finish(struct qmp *qmp); /* accepts one that is finished or has fd -1 */

/* Waits for the greeting, once, and leaves the mode in which nothing else is allowed. */
bool qmp_greet(struct qmp *qmp, int64_t deadline_ms, struct error *err) MUST_USE;

bool qmp_stop(struct qmp *qmp, int64_t deadline_ms, struct error *err) MUST_USE;
bool qmp_cont(struct qmp *qmp, int64_t deadline_ms, struct error *err) MUST_USE;

/* "running", "paused", "inmigrate" and so on. */
bool qmp_status(struct qmp *qmp, char status[QMP_STATUS_ROOM], int64_t deadline_ms,
                struct error *err) MUST_USE;

/* Everything of a stopped machine but its memory goes to the file, which must be open for writing
 * only. */
bool qmp_save_devices(struct qmp *qmp, int file, int64_t deadline_ms, struct error *err) MUST_USE;

/* The process ends by itself; the answer may be lost with it. */
void qmp_quit(struct qmp *qmp, int64_t deadline_ms);
