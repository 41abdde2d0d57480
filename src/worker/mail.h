/* Messages of the server to one lease, from the poller's thread to the lease's.
 *
 * Bounded: a lease that does not read loses the newest, and is told so. A message may come a moment
 * before the lease that it is for; it waits then. They are delivered at least once: who takes one
 * must know what it has done already.
 */
#pragma once

#include "worker/lease.h"

struct mail {
    struct mail *next;
    struct arena arena;
    int64_t came_ms;
    char type[33], lease_id[ID_TEXT];
    struct wire_message message; /* without a cursor */
};

void mail_free(struct mail *mail); /* accepts NULL */

/* For the poller. */
void mail_post(struct lease_table *table, const struct wire_message *message);

/* For the lease's thread, in order; the caller's, NULL: none. */
struct mail *mail_take(struct lease *lease);

/* Under the table's lock: what came before the lease was known is its own from now on. */
void mail_adopt(struct lease_table *table, struct lease *lease);
void mail_drop(struct mail_queue *queue);
