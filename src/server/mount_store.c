#include "server/mount_store.h"

#include "base/time.h"
#include "model/retry.h"
#include "server/outbox.h"
#include "server/queue.h"
#include "server/quota.h"
#include "store/queries.h"

static bool load(struct tx *tx, const char *id, struct arena *arena, struct mount_row *mount,
                 struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &mount_lock, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no mount %s", id);
    *mount = (struct mount_row){
        .generation = row_int(&rows, 0, MOUNT_LOCK_FENCING_GENERATION),
        .dispatches = row_int(&rows, 0, MOUNT_LOCK_DISPATCHES),
        .created_ms = row_int(&rows, 0, MOUNT_LOCK_CREATED_MS),
        .may_be_dirty = row_int(&rows, 0, MOUNT_LOCK_MAY_BE_DIRTY) == 1,
        .is_asked_to_stop = !row_is_null(&rows, 0, MOUNT_LOCK_STOP_REQUESTED_MS),
        .base_version_id = row_str(&rows, 0, MOUNT_LOCK_BASE_VERSION_ID),
        .version_operation = row_str(&rows, 0, MOUNT_LOCK_VERSION_OPERATION),
        .version_fp = row_str(&rows, 0, MOUNT_LOCK_VERSION_FP),
    };
    row_id(&rows, 0, MOUNT_LOCK_ID, mount->id);
    row_id(&rows, 0, MOUNT_LOCK_ENVIRONMENT_ID, mount->environment_id);
    row_id(&rows, 0, MOUNT_LOCK_WORKSPACE_ID, mount->workspace_id);
    row_id(&rows, 0, MOUNT_LOCK_LANE_ID, mount->lane_id);
    row_id(&rows, 0, MOUNT_LOCK_LEASE_ID, mount->lease_id);
    row_id(&rows, 0, MOUNT_LOCK_WORKER_ID, mount->worker_id);
    return mount_state_parse(row_str(&rows, 0, MOUNT_LOCK_STATE), &mount->state) ||
           error_set(err, ERR_INTERNAL, "mount %s is in no known state", id);
}

bool mount_hold(struct tx *tx, const char *id, struct arena *arena, struct mount_row *mount,
                struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &mount_workspace, arena, &rows, err, V_TEXT(id)))
        return false;
    return (rows.n_rows == 0 || STORE(tx, &workspace_lock, arena, &rows, err,
                                      *row_value(&rows, 0, MOUNT_WORKSPACE_ENVIRONMENT_ID),
                                      *row_value(&rows, 0, MOUNT_WORKSPACE_WORKSPACE_ID))) &&
           load(tx, id, arena, mount, err);
}

static bool hold_workspace(struct tx *tx, const char *environment_id, const char *workspace_id,
                           struct arena *arena, struct str *state, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_lock, arena, &rows, err, V_TEXT(environment_id),
               V_TEXT(workspace_id)))
        return false;
    *state = rows.n_rows ? row_str(&rows, 0, WORKSPACE_LOCK_STATE) : STR("deleted");
    return !str_equal(*state, STR("deleted")) ||
           error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", workspace_id);
}

/* The mount of a workspace that is locked. */
static bool find_live(struct tx *tx, const char *workspace_id, struct arena *arena,
                      struct mount_row *mount, bool *found, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_mount_live, arena, &rows, err, V_TEXT(workspace_id)))
        return false;
    *found = rows.n_rows == 1;
    return !*found || load(tx, row_text(&rows, 0, WORKSPACE_MOUNT_LIVE_ID), arena, mount, err);
}

bool mount_find(struct tx *tx, const char *environment_id, const char *workspace_id,
                struct arena *arena, struct mount_row *mount, bool *found, struct error *err)
{
    struct str state;

    return hold_workspace(tx, environment_id, workspace_id, arena, &state, err) &&
           find_live(tx, workspace_id, arena, mount, found, err);
}

static bool has_no_run(struct tx *tx, const char *workspace_id, struct arena *arena,
                       struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &workspace_writer, arena, &rows, err, V_TEXT(workspace_id)))
        return false;
    return rows.n_rows == 0 ||
           error_set(err, ERR_WORKSPACE_WRITER, "run %s writes to the workspace",
                     row_text(&rows, 0, WORKSPACE_WRITER_ID));
}

static bool put_in_queue(struct tx *tx, const char *mount_id, int64_t not_before_ms,
                         struct arena *arena, struct wakes *wakes, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &mount_to_queue, arena, &rows, err, V_TEXT(mount_id)))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_WORKSPACE_MOUNT_FAILED,
                         "the sandbox of the workspace is not deployed any more");
    const struct queue_item item = {
        .kind = "mount",
        .subject_id = mount_id,
        .lane_id = row_text(&rows, 0, MOUNT_TO_QUEUE_LANE_ID),
        .environment_id = row_text(&rows, 0, MOUNT_TO_QUEUE_ENVIRONMENT_ID),
        .score_ms = row_int(&rows, 0, MOUNT_TO_QUEUE_CREATED_MS),
        .not_before_ms = not_before_ms,
        .cpu_millis = row_int(&rows, 0, MOUNT_TO_QUEUE_CPU_MILLIS),
        .memory_mib = row_int(&rows, 0, MOUNT_TO_QUEUE_MEMORY_MIB),
        .disk_mib = row_int(&rows, 0, MOUNT_TO_QUEUE_DISK_MIB),
        .arch = row_str(&rows, 0, MOUNT_TO_QUEUE_ARCH),
        .compat = queue_network_needs(row_str(&rows, 0, MOUNT_TO_QUEUE_NETWORK)),
    };
    wakes_add(wakes, "g", row_text(&rows, 0, MOUNT_TO_QUEUE_GROUP_ID));
    return queue_put(tx, &item, err);
}

static bool make(struct tx *tx, const char *environment_id, const char *workspace_id,
                 struct arena *arena, struct mount_row *mount, struct wakes *wakes,
                 struct error *err)
{
    int64_t now = time_now_ms();
    char id[ID_TEXT], lane[ID_TEXT];
    struct rows rows;

    id_make(id);
    id_make(lane);
    wakes_add(wakes, "workspace:", workspace_id);
    return STORE(tx, &lane_upsert, arena, &rows, err, V_TEXT(lane), V_TEXT(environment_id),
                 V_TEXT("mount"), V_TEXT("mounts"), V_TEXT(""), V_NULL, V_INT(now)) &&
           STORE(tx, &mount_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(environment_id),
                 V_TEXT(workspace_id), *row_value(&rows, 0, LANE_UPSERT_ID), V_INT(now)) &&
           put_in_queue(tx, id, now, arena, wakes, err) && load(tx, id, arena, mount, err);
}

bool mount_want(struct tx *tx, const char *environment_id, const char *workspace_id,
                struct arena *arena, struct mount_row *mount, bool *is_new, struct wakes *wakes,
                struct error *err)
{
    struct str state;
    bool found;

    if (!hold_workspace(tx, environment_id, workspace_id, arena, &state, err))
        return false;
    if (!str_equal(state, STR("active")) && !str_equal(state, STR("recovery_required")))
        return error_set(err, ERR_WORKSPACE_INACTIVE, "the workspace is %.*s", (int)state.len,
                         state.ptr);
    if (!has_no_run(tx, workspace_id, arena, err) ||
        !find_live(tx, workspace_id, arena, mount, &found, err))
        return false;
    *is_new = !found;
    return found || (quota_check_storage(tx, environment_id, err) &&
                     make(tx, environment_id, workspace_id, arena, mount, wakes, err));
}

/* Programs of a mount that is over. What waited for it gets another one, where that is no loss. */
static bool end_program(struct tx *tx, const char *id, const struct process_change *change,
                        struct arena *arena, struct wakes *wakes, struct error *err)
{
    struct process_row process;
    bool moved;

    return process_load(tx, id, arena, &process, err) &&
           process_apply(tx, &process, change, &moved, wakes, err);
}

static bool end_programs(struct tx *tx, const struct mount_row *mount,
                         const struct process_change *waiting, const struct process_change *running,
                         struct arena *arena, struct wakes *wakes, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &processes_of_mount, arena, &rows, err, V_TEXT(mount->id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        struct str state = row_str(&rows, i, PROCESSES_OF_MOUNT_STATE);
        bool waits = str_equal(state, STR("queued")) || str_equal(state, STR("starting"));

        if (!end_program(tx, row_text(&rows, i, PROCESSES_OF_MOUNT_ID), waits ? waiting : running,
                         arena, wakes, err))
            return false;
    }
    return true;
}

/* A program that was asked for while its mount was closing waits for the next one. */
static bool move_programs(struct tx *tx, const struct mount_row *mount, struct arena *arena,
                          struct wakes *wakes, struct error *err)
{
    static const struct process_change ended = {
        .on = EXEC_EXIT, .signal = {"KILL", 4}
    };
    struct mount_row next = {0};
    struct process_row process;
    struct rows rows;

    if (!STORE(tx, &processes_of_mount, arena, &rows, err, V_TEXT(mount->id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++) {
        bool moved;

        if (!process_load(tx, row_text(&rows, i, PROCESSES_OF_MOUNT_ID), arena, &process, err))
            return false;
        if (process.has_begun) {
            if (!process_apply(tx, &process, &ended, &moved, wakes, err))
                return false;
            continue;
        }
        if (!next.id[0] &&
            !make(tx, mount->environment_id, mount->workspace_id, arena, &next, wakes, err))
            return false;
        if (!STORE(tx, &process_set_mount, NULL, NULL, err, V_TEXT(process.id), V_TEXT(next.id)))
            return false;
    }
    return true;
}

static bool follow(struct tx *tx, const struct mount_row *mount, struct str error,
                   struct arena *arena, struct wakes *wakes, struct error *err)
{
    const struct process_change failed = {.on = EXEC_FAIL, .error = error},
                                lost = {.on = EXEC_MOUNT_LOST, .error = error};

    switch (mount->state) {
    case MOUNT_FAILED: return end_programs(tx, mount, &failed, &lost, arena, wakes, err);
    case MOUNT_LOST: return end_programs(tx, mount, &lost, &lost, arena, wakes, err);
    case MOUNT_UNMOUNTED: return move_programs(tx, mount, arena, wakes, err);
    case MOUNT_MOUNTING:
    case MOUNT_MOUNTED:
    case MOUNT_UNMOUNTING:
    case MOUNT_STATE_COUNT: break;
    }
    return true;
}

bool mount_move(struct tx *tx, struct mount_row *mount, enum mount_event on, struct str error,
                struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    enum mount_state after = mount->state;
    struct rows rows;

    if (!mount_state_apply(&after, on))
        return error_set(err, ERR_CONFLICT, "a mount that is %s cannot %s",
                         mount_state_name(mount->state), mount_event_name(on));
    if (!STORE(tx, &mount_move_row, &arena, &rows, err, V_TEXT(mount->id),
               V_TEXT(mount_state_name(mount->state)), V_TEXT(mount_state_name(after)),
               V_STR_OR_NULL(error), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the mount moved meanwhile");
    mount->state = after;
    wakes_add(wakes, "workspace:", mount->workspace_id);
    wakes_add(wakes, "env:", mount->environment_id);
    return follow(tx, mount, error, &arena, wakes, err);
}

static bool give_programs(struct tx *tx, const char *id, struct arena *arena, struct wakes *wakes,
                          struct error *err)
{
    struct process_row process;
    struct rows rows;

    if (!STORE(tx, &processes_of_mount, arena, &rows, err, V_TEXT(id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!process_load(tx, row_text(&rows, i, PROCESSES_OF_MOUNT_ID), arena, &process, err) ||
            (!process.has_begun && !process_send_all(tx, &process, wakes, err)))
            return false;
    return true;
}

bool mount_give(struct tx *tx, const char *id, const char *lease_id, const char *worker_id,
                struct arena *arena, bool *moved, int64_t *attempt, int64_t *sequence,
                struct wakes *wakes, struct error *err)
{
    struct rows rows, fence;

    if (!STORE(tx, &mount_take, arena, &rows, err, V_TEXT(id)))
        return false;
    *moved = rows.n_rows == 1;
    if (!*moved)
        return true;
    if (!STORE(tx, &workspace_raise, arena, &fence, err,
               *row_value(&rows, 0, MOUNT_TAKE_WORKSPACE_ID)) ||
        !STORE(tx, &mount_lease, arena, &rows, err, V_TEXT(id), V_TEXT(lease_id), V_TEXT(worker_id),
               *row_value(&fence, 0, WORKSPACE_RAISE_FENCING_GENERATION),
               *row_value(&fence, 0, WORKSPACE_RAISE_CURRENT_VERSION_ID), V_INT(time_now_ms())))
        return false;
    *attempt = row_int(&rows, 0, MOUNT_LEASE_DISPATCHES);
    *sequence = row_int(&rows, 0, MOUNT_LEASE_LEASE_SEQUENCE);
    return give_programs(tx, id, arena, wakes, err);
}

/* What programs changed since the last version went with the sandbox; the workspace says so until
 * it is mounted again. */
static bool lose(struct tx *tx, struct mount_row *mount, const struct lease_fault *fault,
                 struct wakes *wakes, struct error *err)
{
    struct str text = fault->text.len ? fault->text : STR("the worker of the mount was lost");

    return mount_move(tx, mount, MOUNT_LEASE_OVER, text, wakes, err) &&
           (!mount->may_be_dirty ||
            STORE(tx, &workspace_move, NULL, NULL, err, V_TEXT(mount->workspace_id),
                  V_TEXT("active"), V_TEXT("recovery_required"), V_INT(time_now_ms())));
}

bool mount_give_back(struct server *server, struct tx *tx, const struct lease_row *lease,
                     const struct lease_fault *fault, bool is_final, struct wakes *wakes,
                     struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct mount_row mount = {0};

    if (!mount_hold(tx, lease->subject_id, &arena, &mount, err))
        return false;
    if (mount_state_is_final(mount.state))
        return true;
    if (mount.state != MOUNT_MOUNTING)
        return lose(tx, &mount, fault, wakes, err);
    if (!STORE(tx, &mount_unlease, NULL, NULL, err, V_TEXT(mount.id), V_INT(time_now_ms())))
        return false;
    if (mount.is_asked_to_stop)
        return mount_move(tx, &mount, MOUNT_CANCEL, STR("stopped before it was mounted"), wakes,
                          err);
    if (is_final || mount.dispatches >= server->config->max_dispatches)
        return mount_move(tx, &mount, MOUNT_FAIL,
                          fault->text.len ? fault->text : STR("no worker could mount it"), wakes,
                          err);
    int64_t delay = fault->on == LEASE_REJECT ? redelivery_delay_ms(mount.dispatches - 1) : 0;
    return put_in_queue(tx, mount.id, time_now_ms() + delay, &arena, wakes, err);
}

static bool send_stop(struct tx *tx, const struct mount_row *mount, struct wakes *wakes,
                      struct error *err)
{
    return outbox_send(tx, mount->worker_id, mount->lease_id, "mount_stop",
                       STR("{\"capture\":true}"), wakes, err);
}

bool mount_stop(struct tx *tx, struct mount_row *mount, struct wakes *wakes, struct error *err)
{
    if (mount->is_asked_to_stop)
        return true;
    mount->is_asked_to_stop = true;
    if (!STORE(tx, &mount_ask_stop, NULL, NULL, err, V_TEXT(mount->id), V_INT(time_now_ms())))
        return false;
    if (mount->state == MOUNT_MOUNTING && !mount->lease_id[0])
        return queue_remove(tx, mount->id, err) &&
               mount_move(tx, mount, MOUNT_CANCEL, STR("stopped before it was mounted"), wakes,
                          err);
    return (mount->state != MOUNT_MOUNTED ||
            mount_move(tx, mount, MOUNT_STOP, (struct str){0}, wakes, err)) &&
           send_stop(tx, mount, wakes, err);
}

bool mount_make_way(struct tx *tx, const char *environment_id, const char *workspace_id,
                    struct arena *arena, bool *is_free, struct wakes *wakes, struct error *err)
{
    struct mount_row mount;
    struct rows rows;
    bool found;

    if (!mount_find(tx, environment_id, workspace_id, arena, &mount, &found, err) ||
        !has_no_run(tx, workspace_id, arena, err))
        return false;
    *is_free = !found;
    if (!found)
        return true;
    if (!STORE(tx, &processes_of_mount, arena, &rows, err, V_TEXT(mount.id)))
        return false;
    if (rows.n_rows > 0)
        return error_set(err, ERR_WORKSPACE_WRITER, "a program runs in the workspace");
    if (!mount_stop(tx, &mount, wakes, err))
        return false;
    *is_free = mount_state_is_final(mount.state);
    return true;
}

/* What has not begun when the workspace is stopped does not begin after it. */
static bool drop_waiting(struct tx *tx, const struct mount_row *mount, struct arena *arena,
                         struct wakes *wakes, struct error *err)
{
    struct process_row process;
    struct rows rows;

    if (!STORE(tx, &processes_of_mount, arena, &rows, err, V_TEXT(mount->id)))
        return false;
    for (size_t i = 0; i < rows.n_rows; i++)
        if (!process_load(tx, row_text(&rows, i, PROCESSES_OF_MOUNT_ID), arena, &process, err) ||
            (!process.has_begun && !process_hang_up(tx, &process, wakes, err)))
            return false;
    return true;
}

bool mount_end(struct tx *tx, const char *environment_id, const char *workspace_id,
               struct arena *arena, bool *is_over, struct wakes *wakes, struct error *err)
{
    struct mount_row mount;
    bool found;

    if (!mount_find(tx, environment_id, workspace_id, arena, &mount, &found, err))
        return false;
    *is_over = !found;
    if (!found)
        return true;
    if (!drop_waiting(tx, &mount, arena, wakes, err) || !mount_stop(tx, &mount, wakes, err))
        return false;
    *is_over = mount_state_is_final(mount.state);
    return true;
}
