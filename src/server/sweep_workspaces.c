/* What is deleted of workspaces: all of those that somebody deleted, in steps that can each be the
 * last before the server dies, and versions that are kept no longer. */
#include "server/mount_store.h"
#include "server/quota.h"
#include "server/sweep_pass.h"
#include "server/versions.h"
#include "server/workspaces.h"
#include "store/queries.h"

enum { RETENTION_PERIOD_MS = 60 * 1000 };

/* Something may have begun to need one since they were found: it stays, and the rest goes. */
static bool delete_versions(struct pass *pass, struct tx *tx, const char *id, size_t *n,
                            struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &versions_of_deleting, &pass->arena, &rows, err, V_TEXT(id), V_INT(SWEEP_BATCH)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!version_delete(tx, row_text(&rows, i, VERSIONS_OF_DELETING_ID), err))
            return false;
    *n = rows.n_rows;
    return true;
}

static bool end_workspace(struct pass *pass, struct tx *tx, const char *id,
                          const char *environment_id, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &versions_left, NULL, NULL, err, V_TEXT(id)) ||
        !STORE(tx, &workspace_chunks_delete, NULL, NULL, err, V_TEXT(id)) ||
        !STORE(tx, &workspace_tags_delete, NULL, NULL, err, V_TEXT(id)) ||
        !STORE(tx, &workspace_end, &pass->arena, &rows, err, V_TEXT(id), V_INT(pass->now)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_CONFLICT, "the workspace is deleted already");
    return !row_int(&rows, 0, WORKSPACE_END_IS_COUNTED) ||
           quota_give_workspace(tx, environment_id, err);
}

static bool delete_some(struct pass *pass, struct tx *tx, const char *id,
                        const char *environment_id, struct wakes *wakes, struct error *err)
{
    struct workspace_row row;
    bool is_over;
    size_t n;

    if (!workspace_load_locked(tx, environment_id, id, &pass->arena, &row, err))
        return false;
    if (row.state != WORKSPACE_DELETING)
        return error_set(err, ERR_CONFLICT, "the workspace is deleted already");
    /* What a mount still captures on its way out goes with the rest. */
    if (!mount_end(tx, environment_id, id, &pass->arena, &is_over, wakes, err))
        return false;
    if (!is_over)
        return true;
    if (!STORE(tx, &workspace_drop_current, NULL, NULL, err, V_TEXT(id)) ||
        !delete_versions(pass, tx, id, &n, err))
        return false;
    workspace_wake(wakes, environment_id, id);
    return n == SWEEP_BATCH || end_workspace(pass, tx, id, environment_id, err);
}

static bool delete_version(struct pass *pass UNUSED, struct tx *tx, const char *id,
                           const char *detail UNUSED, struct wakes *wakes UNUSED, struct error *err)
{
    return version_delete(tx, id, err);
}

static void sweep_versions(struct pass *pass)
{
    const struct server_config *config = pass->server->config;

    SWEEP(pass, "system versions", &versions_past_system, delete_version,
          V_INT(pass->now - config->checkpoint_retention_ms), V_INT(SWEEP_BATCH));
    if (config->version_retention_ms > 0)
        SWEEP(pass, "versions", &versions_past_user, delete_version,
              V_INT(pass->now - config->version_retention_ms), V_INT(config->versions_kept),
              V_INT(SWEEP_BATCH));
}

void sweep_workspaces(struct pass *pass)
{
    SWEEP(pass, "workspaces", &workspaces_deleting, delete_some, V_INT(SWEEP_BATCH));
    if (sweep_is_time(pass, RETENTION_PERIOD_MS))
        sweep_versions(pass);
}
