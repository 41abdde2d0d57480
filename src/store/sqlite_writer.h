/* The one writing connection of a SQLite store and the queue of threads in front of it.
 *
 * A thread that begins waits its turn, then has the connection for itself until it ends. When
 * others are waiting, a commit does not pay for the disk alone: the turn goes on with the
 * transaction still open, the next one works in a savepoint of it, and the last of such a
 * group commits for all. Nobody is told "committed" before that COMMIT has returned.
 */
#pragma once

#include <pthread.h>

#include "store/sqlite_connection.h"

struct writer_group;

/* A thread that waits, on its own stack. */
struct writer_turn {
    pthread_cond_t granted;
    bool is_granted;
    struct writer_turn *next;
};

struct writer {
    struct sqlite_connection connection;
    pthread_mutex_t lock;
    bool is_taken, has_owner;
    pthread_t owner;
    struct writer_turn *first, **last; /* who waits, oldest first */
    struct writer_group *group;        /* set while a transaction is open */
    int64_t delay_max_ns;              /* the first of a group does not wait longer for others */
};

bool writer_init(struct writer *writer, const char *path, int busy_ms, struct error *err) MUST_USE;
void writer_finish(struct writer *writer);

/* Between these the calling thread may use the connection. */
bool writer_begin(struct writer *writer, struct error *err) MUST_USE;
bool writer_commit(struct writer *writer, struct error *err) MUST_USE;

/* `why` is what failed, if something did: it can take the whole group along. */
void writer_rollback(struct writer *writer, const struct error *why);
