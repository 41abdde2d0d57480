/* Versions of a workspace: what it held at one moment, as a sealed tree in the store.
 *
 * A version is published in the transaction of what it belongs to, with references that keep all
 * its objects; one that is not live is ERR_OBJECT_GONE, and the worker uploads it again. A version
 * never changes.
 */
#pragma once

#include "base/id.h"
#include "protocol/worker_api.h"
#include "server/context.h"

/* A user's version becomes the current one of the workspace; a system's is kept beside it. */
enum version_kind { VERSION_USER, VERSION_SYSTEM };

/* Makes it the newest version of the run, which the caller has locked. ERR_LEASE_STALE when the
 * workspace has moved on since the run began. */
bool version_publish(struct server *server, struct tx *tx, const struct wire_version *version,
                     const char *run_id, enum version_kind kind, struct wakes *wakes,
                     struct error *err) MUST_USE;

/* Where a version that no run made belongs: one of a mount, of a file that was written, of a
 * restore. */
struct version_place {
    const char *environment_id, *workspace_id;
    struct str base;    /* the current version, which it was made from; ptr NULL: none yet */
    int64_t generation; /* of the mount that made it; VERSION_OF_SERVER: the server did */
    bool may_exceed;    /* what is there already is kept even when the environment has no room */
};
enum { VERSION_OF_SERVER = -1 };

/* Makes it the current version of the workspace. ERR_LEASE_STALE when that has another one by now,
 * or another mount; ERR_QUOTA when the environment has no room for it. */
bool version_publish_in(struct server *server, struct tx *tx, const struct wire_version *version,
                        const struct version_place *place, struct wakes *wakes,
                        struct error *err) MUST_USE;

/* Keeps it beside the current one, for those who look: what the run or mount of that id holds right
 * now, which the caller's lease is of. ERR_QUOTA as above. */
bool version_publish_beside(struct server *server, struct tx *tx,
                            const struct wire_version *version, const char *subject_id,
                            struct error *err) MUST_USE;

/* The same as version_publish_in for what a version of the environment holds, as a new version with
 * the same objects: *id names it. ERR_VERSION_NOT_FOUND when there is no such one any more. */
bool version_adopt(struct server *server, struct tx *tx, const char *from_id,
                   const struct version_place *place, struct arena *arena, char id[ID_TEXT],
                   struct wakes *wakes, struct error *err) MUST_USE;

/* Its row says `deleted` from now on, and its objects are kept by it no more. ERR_CONFLICT when it
 * is gone already or something needs it. */
bool version_delete(struct tx *tx, const char *id, struct error *err) MUST_USE;
