/* What the routes about one workspace have in common. */
#pragma once

#include "http/call.h"
#include "model/workspace_state.h"
#include "server/hub.h"
#include "store/store.h"

/* The workspace that the path names. ERR_WORKSPACE_NOT_FOUND when there is none, or no more. */
bool workspace_of_call(struct call *call, struct tx *tx, char id[ID_TEXT],
                       struct error *err) MUST_USE;

/* Answers with the workspace as the transaction sees it. */
bool workspace_show(struct call *call, struct tx *tx, const char *id, int status,
                    struct response *res, struct error *err) MUST_USE;

/* A workspace that is locked, and what is known of it. */
struct workspace_row {
    enum workspace_state state;
    struct str current; /* its version; ptr NULL: none */
};
bool workspace_load_locked(struct tx *tx, const char *environment_id, const char *id,
                           struct arena *arena, struct workspace_row *row,
                           struct error *err) MUST_USE;

/* ERR_WORKSPACE_INACTIVE unless it is in use; ERR_WORKSPACE_RECOVERY when a mount must come first.
 */
bool workspace_is_active(const struct workspace_row *row, struct error *err) MUST_USE;

/* ERR_WORKSPACE_WRITER while a run of it is not over. The workspace is locked. */
bool workspace_has_no_run(struct tx *tx, const char *id, struct arena *arena,
                          struct error *err) MUST_USE;

/* The same while it is mounted. */
bool workspace_has_no_mount(struct tx *tx, const char *id, struct arena *arena,
                            struct error *err) MUST_USE;

/* Instead of the tags it had; `tags` is the canonical list. */
bool workspace_tag(struct tx *tx, const char *environment_id, const char *id,
                   const struct str *tags, size_t n, struct error *err) MUST_USE;

/* Tells whoever looks at the workspace or at the list. */
void workspace_wake(struct wakes *wakes, const char *environment_id, const char *id);
