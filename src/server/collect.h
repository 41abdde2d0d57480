/* The collector: objects of the store that nothing needs any more.
 *
 * One that nothing refers to and that is older than a day dies; nothing can refer to it from
 * then on. An hour later its file and its row go. Several servers on one database may collect
 * at the same time: each move is a compare-and-set.
 */
#pragma once

#include "server/context.h"

struct collector;

/* A thread that collects every hour, looks for lost files every day, and seals blobs anew at a
 * bounded rate. */
bool collector_start(struct server *server, struct collector **collector,
                     struct error *err) MUST_USE;
void collector_stop(struct collector *collector); /* accepts NULL */

/* A bounded part of the work. True: there is more. */
bool collect_some(struct server *server);

/* Files without a row, which a server that was killed between the two has left: those older than a
 * day get a row that is dead, and go with the next collection. */
bool collect_orphans(struct server *server);
