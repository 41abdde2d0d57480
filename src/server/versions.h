/* Versions of a workspace: what it held at one moment, as a sealed tree in the store.
 *
 * A version is published in the transaction of what it belongs to, with references that keep all
 * its objects; one that is not live is ERR_OBJECT_GONE, and the worker uploads it again. A version
 * never changes.
 */
#pragma once

#include "protocol/worker_api.h"
#include "server/context.h"

/* A user's version becomes the current one of the workspace; a system's is kept beside it. */
enum version_kind { VERSION_USER, VERSION_SYSTEM };

/* Makes it the newest version of the run, which the caller has locked. ERR_LEASE_STALE when the
 * workspace has moved on since the run began. */
bool version_publish(struct server *server, struct tx *tx, const struct wire_version *version,
                     const char *run_id, enum version_kind kind, struct wakes *wakes,
                     struct error *err) MUST_USE;
