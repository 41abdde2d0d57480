/* What an entry says of itself beside its content: owner, mode, attributes, time. */
#pragma once

#include <time.h>

#include "image/extract.h"

struct timespec facts_modified(struct archive_entry *entry);

/* Owner, mode and attributes. Of a project's entry only whether it can be executed counts. */
bool facts_set(int fd, enum extract_kind kind, struct archive_entry *entry,
               struct error *err) MUST_USE;

bool facts_owner(struct archive_entry *entry, uid_t *uid, gid_t *gid, struct error *err) MUST_USE;

/* The time of what cannot be opened: a symbolic link or a fifo. */
bool facts_set_time_at(int folder, const char *name, struct archive_entry *entry,
                       struct error *err) MUST_USE;
