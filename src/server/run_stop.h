/* Asking a run to end: at once where no sandbox can exist, else by its worker within a grace.
 *
 * The request of a caller and the end of a session come through here; each is an operation of its
 * own, with its events beside it.
 */
#pragma once

#include "server/context.h"
#include "server/run_store.h"

struct run_stop {
    struct server *server;
    struct tx *tx;
    struct arena *arena;
    struct run_row run; /* locked; it follows */
    struct str reason;  /* ptr NULL: none */
    bool force;
    const char *by;     /* as caller_label writes it, or "sweeper" */
    const char *source; /* of the event; NULL: control */
    char operation_id[ID_TEXT];
    int64_t now;
};

/* The operation is applied, pending, or ignored where the run has ended. */
bool run_stop(struct run_stop *stop, struct wakes *wakes, struct error *err) MUST_USE;
