/* Opening a wait: what a program asks for, checked, and the wait it becomes. */
#pragma once

#include "server/wait_store.h"

struct opening {
    struct server *server;
    struct tx *tx;
    struct lease_row *lease;
    struct run_row *run; /* locked */
    struct arena *arena;
    struct wakes *wakes;
    int64_t op; /* the program's number */
};

/* `body` is the JSON of wait.open. *wait is settled already when there is nothing to wait for.
 * Errors before the first write (ERR_INVALID and the like, ERR_CONCURRENT_WAIT,
 * ERR_TOKEN_NOT_FOUND, ERR_CANCELLED, ERR_UNSUPPORTED) are the program's. */
bool wait_open(const struct opening *opening, struct str body, struct wait_row *wait,
               struct error *err) MUST_USE;
