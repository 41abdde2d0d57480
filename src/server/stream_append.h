/* A record from outside: appended, given to the wait it answers, or the reason for a new run. */
#pragma once

#include "server/stream_store.h"

struct stream_appended {
    struct stream_record record;
    bool is_cached;           /* it was there: the same key, the same record */
    const char *continuation; /* what became of the session's next run; NULL: there is none */
};

/* All of it in the caller's transaction; the session is locked first. ERR_SESSION_NOT_FOUND,
 * ERR_SESSION_TERMINAL or ERR_SESSION_EXPIRED; a record that is there is found also when the
 * session has ended. */
bool stream_append(struct tx *tx, const struct stream_ref *ref, const struct stream_entry *entry,
                   struct arena *arena, struct stream_appended *made, struct wakes *wakes,
                   struct error *err) MUST_USE;
