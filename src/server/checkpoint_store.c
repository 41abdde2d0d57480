#include "server/checkpoint_store.h"

#include "server/object_refs.h"
#include "store/queries.h"

bool checkpoint_load(struct tx *tx, const char *id, struct arena *arena, struct checkpoint_row *row,
                     struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &checkpoint_lock, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no checkpoint %s", id);
    *row = (struct checkpoint_row){
        .attempt = row_int(&rows, 0, CHECKPOINT_LOCK_ATTEMPT),
        .op = row_int(&rows, 0, CHECKPOINT_LOCK_OP),
        .logical_bytes = row_int(&rows, 0, CHECKPOINT_LOCK_LOGICAL_BYTES),
        .stored_bytes = row_int(&rows, 0, CHECKPOINT_LOCK_STORED_BYTES),
        .created_ms = row_int(&rows, 0, CHECKPOINT_LOCK_CREATED_MS),
        .can_fork = row_int(&rows, 0, CHECKPOINT_LOCK_CAN_FORK) != 0,
        .manifest = row_str(&rows, 0, CHECKPOINT_LOCK_MANIFEST_ID),
        .key_id = row_str(&rows, 0, CHECKPOINT_LOCK_KEY_ID),
        .compat = row_str(&rows, 0, CHECKPOINT_LOCK_COMPAT),
        .compat_facts = row_str(&rows, 0, CHECKPOINT_LOCK_COMPAT_FACTS),
    };
    row_id(&rows, 0, CHECKPOINT_LOCK_ID, row->id);
    row_id(&rows, 0, CHECKPOINT_LOCK_ENVIRONMENT_ID, row->environment_id);
    row_id(&rows, 0, CHECKPOINT_LOCK_RUN_ID, row->run_id);
    row_id(&rows, 0, CHECKPOINT_LOCK_WAIT_ID, row->wait_id);
    row_id(&rows, 0, CHECKPOINT_LOCK_LEASE_ID, row->lease_id);
    row_id(&rows, 0, CHECKPOINT_LOCK_VERSION_ID, row->version_id);
    if (!checkpoint_state_parse(row_str(&rows, 0, CHECKPOINT_LOCK_STATE), &row->state))
        return error_set(err, ERR_INTERNAL, "checkpoint %s is in no known state", id);
    return true;
}

bool checkpoint_find_newest(struct tx *tx, const char *run_id, int64_t attempt, struct arena *arena,
                            struct checkpoint_row *row, bool *found, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &checkpoint_newest, arena, &rows, err, V_TEXT(run_id), V_INT(attempt)))
        return false;
    *found = rows.n_rows == 1;
    return !*found ||
           checkpoint_load(tx, row_text(&rows, 0, CHECKPOINT_NEWEST_ID), arena, row, err);
}

bool checkpoint_move_by(struct tx *tx, struct checkpoint_row *row, enum checkpoint_event on,
                        int64_t now, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    enum checkpoint_state after = row->state;
    struct rows rows;

    if (!checkpoint_state_apply(&after, on))
        return error_set(err, ERR_CONFLICT, "a checkpoint that is %s cannot %s",
                         checkpoint_state_name(row->state), checkpoint_event_name(on));
    if (!STORE(tx, &checkpoint_move, &arena, &rows, err, V_TEXT(row->id),
               V_TEXT(checkpoint_state_name(row->state)), V_TEXT(checkpoint_state_name(after)),
               V_INT(now)))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the checkpoint moved meanwhile");
    row->state = after;
    return !checkpoint_state_is_final(after) || object_refs_drop(tx, row->id, err);
}
