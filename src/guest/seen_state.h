/* Which folder a watch is of: a hash table, never full. Only for seen*.c. */
#pragma once

#include "guest/seen.h"

struct seen_watches {
    struct seen_folder **folders;
    size_t n, room;
};

struct seen_folder *seen_watches_find(const struct seen_watches *watches, int watch);
/* What was there before, or NULL. */
struct seen_folder *seen_watches_put(struct seen_watches *watches, struct seen_folder *folder);
void seen_watches_remove(struct seen_watches *watches, int watch);

/* Notes it on the way up. */
void seen_touch(struct seen *seen, struct seen_folder *folder, bool is_open_only);
