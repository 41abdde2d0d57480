/* Waits for the next record of an input stream.
 *
 * A program says where it is (`cursor`) as soon as it has read something; until then its run
 * begins where the other runs of the session ended. So each attempt of a run reads the same
 * records again, a run that is parked goes on where its memory is, and what one run left unread
 * the next one finds.
 */
#pragma once

#include "server/stream_store.h"
#include "server/wait_store.h"

/* What a wait waits for, as its params say it. A live one is never parked. */
struct stream_want {
    struct str stream, correlation_id; /* correlation_id.ptr NULL: any record */
    int64_t cursor;
    bool has_cursor, is_live;
};

/* What a wait that was opened waits for. */
bool stream_want_of(struct str params, struct arena *arena, struct stream_want *want,
                    struct error *err) MUST_USE;

/* Reads what a program asks for and finds its position, its stream and the record that is there
 * already (*found). *params becomes the wait's own. Nothing is written. */
bool stream_want_read(struct tx *tx, const struct run_row *run, struct str asked,
                      struct arena *arena, struct stream_want *want, struct str *params,
                      struct stream_record *record, bool *found, struct error *err) MUST_USE;

/* The record as a decision of the wait, and the run's position after it. */
bool stream_decision(struct tx *tx, const struct stream_want *want, const char *run_id,
                     const struct stream_record *record, struct buf *decision,
                     struct error *err) MUST_USE;

/* Gives a record that was just appended to the wait, which is locked, as its run is; *taken says
 * whether that waited for it. */
bool stream_offer(struct tx *tx, struct wait_row *wait, const struct stream_ref *ref,
                  const struct stream_record *record, bool *taken, struct wakes *wakes,
                  struct error *err) MUST_USE;

/* Whether the sandbox has to stay for it. */
bool wait_is_live(const struct wait_row *wait);
