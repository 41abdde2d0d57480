#include "server/stream_append.h"

#include "base/time.h"
#include "server/continuation.h"
#include "server/stream_wait.h"
#include "server/task_session_store.h"
#include "store/queries.h"

/* The wait of the session's run, with the run locked before it. */
static bool hold_wait(struct tx *tx, const char *run_id, struct arena *arena, struct wait_row *wait,
                      bool *found, struct error *err)
{
    *found = false;
    return !*run_id || (STORE(tx, &run_lock, NULL, NULL, err, V_TEXT(run_id)) &&
                        wait_load_open(tx, run_id, arena, wait, found, err));
}

static bool append_input(struct tx *tx, const struct stream_ref *ref,
                         const struct stream_entry *entry, const char *run_id, struct arena *arena,
                         struct stream_appended *made, struct wakes *wakes, struct error *err)
{
    bool has_wait, taken = false;
    struct wait_row wait;

    if (!hold_wait(tx, run_id, arena, &wait, &has_wait, err) ||
        !stream_write(tx, ref, entry, &made->record, wakes, err) ||
        (has_wait && !stream_offer(tx, &wait, ref, &made->record, &taken, wakes, err)))
        return false;
    const struct stream_record_ref record = {
        .session_id = ref->session_id,
        .record_id = made->record.id,
        .stream_id = ref->id,
        .sequence = made->record.sequence,
    };
    enum continuation_status status = CONTINUE_NOT;
    if (!taken && !session_continue(tx, &record, &status, wakes, err))
        return false;
    made->continuation = continuation_status_name(status);
    return true;
}

/* What became of it the first time. */
static bool look_again(struct tx *tx, struct stream_appended *made, struct arena *arena,
                       struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &continuation_find, arena, &rows, err, V_TEXT(made->record.id)))
        return false;
    made->continuation =
        continuation_status_name(rows.n_rows > 0 ? CONTINUE_DUPLICATE : CONTINUE_NOT);
    return true;
}

bool stream_append(struct tx *tx, const struct stream_ref *ref, const struct stream_entry *entry,
                   struct arena *arena, struct stream_appended *made, struct wakes *wakes,
                   struct error *err)
{
    struct session_row session;

    *made = (struct stream_appended){0};
    if (!task_session_hold(tx, ref->session_id, arena, &session, err) ||
        !stream_check(tx, ref, arena, err) ||
        !stream_find_key(tx, ref, entry, arena, &made->record, &made->is_cached, err))
        return false;
    if (made->is_cached)
        return ref->direction == STREAM_OUTPUT || look_again(tx, made, arena, err);
    if (!task_session_is_open(&session, time_now_ms(), err))
        return false;
    if (ref->direction == STREAM_OUTPUT)
        return stream_write(tx, ref, entry, &made->record, wakes, err);
    return append_input(tx, ref, entry, session.current_run_id, arena, made, wakes, err);
}
