/* Checkpoints as the server keeps them: it knows what they are made of and who can read them,
 * and cannot read them itself.
 *
 * A row is locked after its lease, its run and its wait. One that is over refers to no object.
 */
#pragma once

#include "base/id.h"
#include "model/checkpoint_state.h"
#include "store/store.h"

struct checkpoint_row {
    char id[ID_TEXT], environment_id[ID_TEXT], run_id[ID_TEXT], wait_id[ID_TEXT];
    char lease_id[ID_TEXT];
    char version_id[ID_TEXT]; /* of the workspace at that time; "": unchanged since the last */
    enum checkpoint_state state;
    int64_t attempt, op, logical_bytes, stored_bytes, created_ms;
    bool can_fork;
    struct str manifest, key_id, compat, compat_facts; /* in the arena; unset before staged */
};

/* Locks the row. ERR_NOT_FOUND when there is none. */
bool checkpoint_load(struct tx *tx, const char *id, struct arena *arena, struct checkpoint_row *row,
                     struct error *err) MUST_USE;

/* The newest one an attempt can go on from, locked; *found is false when there is none. */
bool checkpoint_find_newest(struct tx *tx, const char *run_id, int64_t attempt, struct arena *arena,
                            struct checkpoint_row *row, bool *found, struct error *err) MUST_USE;

/* Moves the row by the table: ERR_CONFLICT when the move is not legal, or somebody else moved it.
 * One that is over lets go of its objects. */
bool checkpoint_move_by(struct tx *tx, struct checkpoint_row *row, enum checkpoint_event on,
                        int64_t now, struct error *err) MUST_USE;
