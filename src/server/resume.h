/* A parked run on its way back: queued with its checkpoint, given out, delivered again when
 * its worker is lost.
 *
 * A run is resumed from a ready checkpoint only, so its former sandbox is gone for certain.
 * Every function works in the caller's transaction and notes whom to wake.
 */
#pragma once

#include "server/lease.h"

struct wait_row;

/* A parked wait has settled: its suspension becomes resume_pending and its run is queued with
 * the checkpoint. Run and wait are locked. */
bool resume_queue(struct tx *tx, struct wait_row *wait, struct wakes *wakes,
                  struct error *err) MUST_USE;
