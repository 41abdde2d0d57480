/* The collector: objects of the store that nothing needs any more.
 *
 * One that nothing refers to and that is older than a day dies; nothing can refer to it from
 * then on. An hour later its file and its row go. Several servers on one database may collect
 * at the same time: each move is a compare-and-set.
 */
#pragma once

#include "server/context.h"

/* A bounded part of the work. True: there is more. */
bool collect_some(struct server *server);
