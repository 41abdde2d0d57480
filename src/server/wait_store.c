#include "server/wait_store.h"

#include "base/time.h"
#include "store/queries.h"

enum { HARD_GRACE_MS = 60 * 1000 };

static bool read_row(const struct rows *rows, struct wait_row *wait, struct error *err)
{
    *wait = (struct wait_row){
        .attempt = row_int(rows, 0, WAIT_LOCK_ATTEMPT),
        .op = row_int(rows, 0, WAIT_LOCK_OP),
        .resume_version = row_int(rows, 0, WAIT_LOCK_RESUME_VERSION),
        .resume_number = row_int(rows, 0, WAIT_LOCK_RESUME_NUMBER),
        .checkpoint_failures = row_int(rows, 0, WAIT_LOCK_CHECKPOINT_FAILURES),
        .park_at_ms = row_int(rows, 0, WAIT_LOCK_PARK_AT_MS),
        .timeout_at_ms = row_int(rows, 0, WAIT_LOCK_TIMEOUT_AT_MS),
        .due_ms = row_int(rows, 0, WAIT_LOCK_DUE_MS),
        .created_ms = row_int(rows, 0, WAIT_LOCK_CREATED_MS),
        .settled_ms = row_int(rows, 0, WAIT_LOCK_SETTLED_MS),
        .owns_token = row_int(rows, 0, WAIT_LOCK_OWNS_TOKEN) != 0,
        .decision = row_str(rows, 0, WAIT_LOCK_DECISION),
        .params = row_str(rows, 0, WAIT_LOCK_PARAMS),
        .metadata = row_str(rows, 0, WAIT_LOCK_METADATA),
        .tags = row_str(rows, 0, WAIT_LOCK_TAGS),
        .timeout = row_str(rows, 0, WAIT_LOCK_TIMEOUT),
    };
    row_id(rows, 0, WAIT_LOCK_ID, wait->id);
    row_id(rows, 0, WAIT_LOCK_RUN_ID, wait->run_id);
    row_id(rows, 0, WAIT_LOCK_ENVIRONMENT_ID, wait->environment_id);
    row_id(rows, 0, WAIT_LOCK_LEASE_ID, wait->lease_id);
    row_id(rows, 0, WAIT_LOCK_TOKEN_ID, wait->token_id);
    row_id(rows, 0, WAIT_LOCK_CHECKPOINT_ID, wait->checkpoint_id);
    return (wait_kind_parse(row_str(rows, 0, WAIT_LOCK_KIND), &wait->kind) &&
            wait_condition_parse(row_str(rows, 0, WAIT_LOCK_CONDITION), &wait->condition) &&
            wait_suspension_parse(row_str(rows, 0, WAIT_LOCK_SUSPENSION), &wait->suspension)) ||
           error_set(err, ERR_INTERNAL, "wait %s is in no known state", wait->id);
}

bool wait_load(struct tx *tx, const char *id, struct arena *arena, struct wait_row *wait,
               struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &wait_lock, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no wait %s", id);
    return read_row(&rows, wait, err);
}

bool wait_load_open(struct tx *tx, const char *run_id, struct arena *arena, struct wait_row *wait,
                    bool *found, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &wait_find_open, arena, &rows, err, V_TEXT(run_id)))
        return false;
    *found = rows.n_rows > 0;
    return !*found || wait_load(tx, row_text(&rows, 0, WAIT_FIND_OPEN_ID), arena, wait, err);
}

bool wait_suspend(struct tx *tx, struct wait_row *wait, enum wait_event on, int64_t now,
                  struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    enum wait_suspension after = wait->suspension;
    struct rows rows;

    if (!wait_suspension_apply(&after, on))
        return error_set(err, ERR_CONFLICT, "a wait that is %s cannot %s",
                         wait_suspension_name(wait->suspension), wait_event_name(on));
    if (!wait_pair_is_legal(wait->condition, after))
        return error_set(err, ERR_CONFLICT, "a wait that is %s cannot be %s",
                         wait_condition_name(wait->condition), wait_suspension_name(after));
    if (!STORE(tx, &wait_move, &arena, &rows, err, V_TEXT(wait->id),
               V_TEXT(wait_suspension_name(wait->suspension)), V_TEXT(wait_suspension_name(after)),
               V_INT(now), after == SUSPENSION_RELEASED ? V_INT(now) : V_NULL))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the wait moved meanwhile");
    wait->suspension = after;
    return true;
}

bool wait_set_deadline(struct tx *tx, struct lease_row *lease, const struct run_row *run,
                       struct error *err)
{
    int64_t now = time_now_ms(), deadline = 0;

    if (run->state == RUN_EXECUTING)
        deadline = now + run_active_left_ms(run, now) + HARD_GRACE_MS;
    lease->hard_deadline_ms = deadline;
    return STORE(tx, &lease_set_hard_deadline, NULL, NULL, err, V_TEXT(lease->id),
                 deadline ? V_INT(deadline) : V_NULL);
}
