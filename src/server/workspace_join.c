#include "server/workspace_join.h"

#include "store/queries.h"

/* The task's sandbox is not the workspace's: that one may not even be there any more. */
static bool refuse_sandbox(struct tx *tx, const struct rows *workspace,
                           const struct workspace_guest *guest, struct arena *arena,
                           struct error *err)
{
    struct rows found;

    if (!STORE(tx, &workspace_room, arena, &found, err, V_STR(guest->deployment_id),
               *row_value(workspace, 0, WORKSPACE_LOCK_SANDBOX_ID)))
        return false;
    if (found.n_rows == 0)
        return error_set(err, ERR_SANDBOX_NOT_DEPLOYED,
                         "the deployment has no sandbox %s, which the workspace was made for",
                         row_text(workspace, 0, WORKSPACE_LOCK_SANDBOX_ID));
    return error_set(err, ERR_WORKSPACE_SANDBOX,
                     "the workspace was made for another sandbox than the task's");
}

static bool fits(struct tx *tx, const struct rows *workspace, const struct workspace_guest *guest,
                 struct arena *arena, struct error *err)
{
    struct rows room;

    if (!str_equal(row_str(workspace, 0, WORKSPACE_LOCK_FINGERPRINT), guest->fingerprint))
        return refuse_sandbox(tx, workspace, guest, arena, err);
    if (!STORE(tx, &workspace_room, arena, &room, err,
               *row_value(workspace, 0, WORKSPACE_LOCK_DEPLOYMENT_ID),
               *row_value(workspace, 0, WORKSPACE_LOCK_SANDBOX_ID)))
        return false;
    bool is_enough =
        room.n_rows == 0 || (guest->cpu_millis >= row_int(&room, 0, WORKSPACE_ROOM_CPU_MILLIS) &&
                             guest->memory_mib >= row_int(&room, 0, WORKSPACE_ROOM_MEMORY_MIB) &&
                             guest->disk_mib >= row_int(&room, 0, WORKSPACE_ROOM_DISK_MIB));
    return is_enough || error_set(err, ERR_WORKSPACE_RESOURCES,
                                  "the task's sandbox has less than the workspace was made for");
}

bool workspace_join(struct tx *tx, const char *workspace_id, const struct workspace_guest *guest,
                    struct arena *arena, struct str *version, struct error *err)
{
    struct rows rows, writer, mount;

    if (!STORE(tx, &workspace_lock, arena, &rows, err, V_TEXT(guest->environment_id),
               V_TEXT(workspace_id)))
        return false;
    if (rows.n_rows == 0 || str_equal(row_str(&rows, 0, WORKSPACE_LOCK_STATE), STR("deleted")))
        return error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", workspace_id);
    if (str_equal(row_str(&rows, 0, WORKSPACE_LOCK_STATE), STR("recovery_required")))
        return error_set(err, ERR_WORKSPACE_RECOVERY,
                         "changes of the workspace were lost; mount it to go on from its version");
    if (!str_equal(row_str(&rows, 0, WORKSPACE_LOCK_STATE), STR("active")))
        return error_set(err, ERR_WORKSPACE_INACTIVE, "the workspace is %s",
                         row_text(&rows, 0, WORKSPACE_LOCK_STATE));
    if (!fits(tx, &rows, guest, arena, err) ||
        !STORE(tx, &workspace_writer, arena, &writer, err, V_TEXT(workspace_id)))
        return false;
    if (writer.n_rows > 0)
        return error_set(err, ERR_WORKSPACE_WRITER, "run %s writes to the workspace",
                         row_text(&writer, 0, WORKSPACE_WRITER_ID));
    if (!STORE(tx, &workspace_mount_live, arena, &mount, err, V_TEXT(workspace_id)))
        return false;
    if (mount.n_rows > 0)
        return error_set(err, ERR_WORKSPACE_WRITER, "the workspace is mounted for direct work");
    *version = row_str(&rows, 0, WORKSPACE_LOCK_CURRENT_VERSION_ID);
    return true;
}
