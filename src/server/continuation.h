/* Going on with a session: a record that was appended to one of its input streams and that no
 * wait took makes one more run of the same task, with the payload of the one before.
 *
 * A record is looked at under the locks of the session and then of its run, in the transaction
 * that appends it. So it is decided once: a run that is over cannot come back, and one that is
 * not over ends after the append. A program that still runs can read what was appended before its
 * end, so nothing is made for it at once; if it ends without, the next run is asked for then, once
 * for each record, and not after a cancel: who stops a run does not want the next. Between the end
 * of the program (its lease is finalized) and the end of the run nobody can read any more: then the
 * request is kept, and the sweeper makes the run when the former has ended. The same happens while
 * another session's run writes to the workspace.
 */
#pragma once

#include "server/hub.h"
#include "server/run_store.h"
#include "store/store.h"

struct stream_record_ref {
    const char *session_id, *record_id, *stream_id;
    int64_t sequence;
};

enum continuation_status {
    CONTINUE_NOT,       /* there is nothing to make, or it cannot be made */
    CONTINUE_PENDING,   /* the run will be made */
    CONTINUE_CREATED,   /* it is there */
    CONTINUE_DUPLICATE, /* the record was looked at before */
};

/* As the API shows it: NULL for CONTINUE_NOT. */
const char *continuation_status_name(enum continuation_status status);

/* In the transaction of an append that satisfied no wait, once per record: one that is only sent
 * again was left to the run of its time. Locks the
 * session, then its run; the caller may hold the session already, but no run of another session. A
 * session that is not open is not continued. A run that cannot be made (a secret is gone, say) is
 * told by the session's `error`, and the append stands. */
bool session_continue(struct tx *tx, const struct stream_record_ref *record,
                      enum continuation_status *status, struct wakes *wakes,
                      struct error *err) MUST_USE;

/* In the transaction that ends a run, which is locked: asks for one more when input is left that no
 * wait took. The sweeper makes it. */
bool continuation_ask(struct tx *tx, const struct run_row *run, struct wakes *wakes,
                      struct error *err) MUST_USE;

/* What was asked for and is claimed by the caller: made, left out, or given back when its workspace
 * is still written to. */
bool continuation_resolve(struct tx *tx, const char *id, struct wakes *wakes,
                          struct error *err) MUST_USE;
