/* A lease this worker holds, from grant to proof that nothing of it is left.
 *
 * Each lease has a thread that does its work in a straight line. The keeper renews it,
 * the poller brings messages for it; both only set fields here under the lock and raise
 * `wake`, which the thread's loop watches.
 */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "base/id.h"
#include "protocol/worker_api.h"
#include "worker/capacity.h"

struct mail;
struct worker;

enum lease_stage { LEASE_STARTING, LEASE_RUNNING, LEASE_ENDING };

/* Messages to a mount or a run, in order (mail.h). */
struct mail_queue {
    struct mail *first, *last;
    size_t n, bytes;
};

struct lease {
    struct lease *next;
    struct worker *worker;
    pthread_t thread;
    struct arena arena; /* the grant lives here */
    struct wire_grant grant;
    char id[ID_TEXT], instance_id[ID_TEXT];
    int64_t sequence;
    struct room taken;
    int wake; /* eventfd */

    /* Under the table's lock. */
    enum lease_stage stage;
    int64_t expires_ms; /* as the server said it last */
    int64_t fence_ms;   /* boot time from which this worker must no longer act on it */
    int64_t renew_ms;   /* boot time of the next renewal */
    int64_t running_ms; /* boot time since which its program runs; 0: not yet */
    bool is_stale;      /* the server no longer knows it: destroy, write nothing */
    bool cancel_wanted, cancel_forced, stop_wanted, park_wanted;
    char cancel_reason[256];
    char answered_wait[ID_TEXT]; /* whose answer has come; empty: none */
    char *answer;                /* JSON */
    struct mail_queue mail;      /* of a mount or a run */
    bool has_lost_mail;          /* there was too much of it */
    /* Stale, cancelled or stopped. Read without the lock: preparations, builds and calls under way
     * end as soon as they see it. */
    volatile bool is_unwanted;
    bool is_over; /* its thread has nothing left to do but to be joined */
};

struct lease_table {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct lease *first;
    size_t count;
    struct mail_queue early; /* for leases that are not known yet */
};

/* What the lease's thread looks at in one go. */
struct lease_view {
    int64_t fence_ms;
    bool is_stale, cancel_wanted, cancel_forced, stop_wanted, park_wanted, has_answer;
    bool has_mail, has_lost_mail;
    char cancel_reason[256];
};

void lease_table_init(struct lease_table *table);
void lease_table_finish(struct lease_table *table);

/* Under the lock; NULL: there is none. */
struct lease *lease_find(struct lease_table *table, struct str id);

bool lease_is_known(struct lease_table *table, struct str id);

/* Copies the grant, of a lease not known yet, into a new lease and lists it. */
struct lease *lease_add(struct lease_table *table, struct worker *worker,
                        const struct wire_grant *grant, int64_t ttl_ms);

struct lease_view lease_look(struct lease *lease);
void lease_set_stage(struct lease *lease, enum lease_stage stage);
void lease_renew_instance(struct lease *lease); /* another sandbox takes the place of its own */
void lease_set_expiry(struct lease *lease, int64_t expires_ms); /* as a start answered it */

/* For keeper and poller: by id, under the lock, and wakes the thread. */
void lease_mark_stale(struct lease_table *table, const char *id);
void lease_cancel(struct lease_table *table, struct str id, struct str reason, bool force);
void lease_stop_all(struct lease_table *table);
void lease_answer(struct lease_table *table, struct str id, struct str wait_id, struct str answer);
void lease_park(struct lease_table *table, struct str id);
void lease_park_all(struct lease_table *table); /* the worker wants to be empty */

/* The answer to that wait, if it has come; in the arena, and forgotten here. */
bool lease_take_answer(struct lease *lease, const char *wait_id, struct arena *arena,
                       struct str *answer);
/* Whether the wait is to be parked; forgotten here, so that it is asked for once. */
bool lease_take_park(struct lease *lease);

/* The thread's last act; after it the lease is freed by lease_reap. */
void lease_done(struct lease *lease);

/* Joins and frees every lease that is over; returns how many are left. */
size_t lease_reap(struct lease_table *table);

/* Ids of all live leases, for polls. */
struct json_list lease_ids(struct lease_table *table, struct arena *arena);
struct json_list lease_instances(struct lease_table *table, struct arena *arena);
