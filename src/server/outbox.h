/* Messages to workers: kept until the worker's next poll has acknowledged them. */
#pragma once

#include "server/hub.h"
#include "store/store.h"

/* Appends one and notes the worker's topic. `body` is a JSON object. */
bool outbox_send(struct tx *tx, const char *worker_id, const char *lease_id, const char *type,
                 struct str body, struct wakes *wakes, struct error *err) MUST_USE;

/* Tells the worker that holds a live lease of the subject to stop; nothing when there is none. */
bool outbox_cancel(struct tx *tx, const char *subject_kind, const char *subject_id,
                   struct str reason, bool force, struct wakes *wakes, struct error *err) MUST_USE;

/* The same, and the lease is over at once: what its worker still sends is stale. */
bool outbox_revoke(struct tx *tx, const char *subject_kind, const char *subject_id,
                   struct str reason, struct wakes *wakes, struct error *err) MUST_USE;
