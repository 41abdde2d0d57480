#include "server/queue.h"

#include "base/json.h"
#include "base/time.h"
#include "store/queries.h"

/* A shape's time of use is written again after TOUCH_MS and it is collected after SHAPE_MS: between
 * the two lies much more than the clocks of servers differ by. */
enum {
    TOUCH_MS = 60 * 60 * 1000,
    SHAPE_MS = 24 * 60 * 60 * 1000,
    LANE_MS = 10 * 60 * 1000,
    COLLECT_MAX = 1000,
};

struct str queue_network_needs(struct str network)
{
    return json_count(network, "deny") > 0 ? STR(QUEUE_RULES) : STR("");
}

/* Only root has rules; who is not has a network that is open or off. */
bool queue_worker_has_rules(struct str capabilities)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str privilege = STR("root");

    (void)json_find_text(capabilities, "privilege", &arena, &privilege);
    return !str_equal(privilege, STR("user"));
}

static bool lock_lane(struct tx *tx, const char *lane_id, struct arena *arena, bool *found,
                      struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &lane_lock, arena, &rows, err, V_TEXT(lane_id), V_INT(time_now_ms())))
        return false;
    *found = rows.n_rows == 1;
    return true;
}

static bool make_shape(struct tx *tx, const struct value *needs, struct arena *arena,
                       struct rows *rows, struct error *err)
{
    char id[ID_TEXT];

    id_make(id);
    if (!STORE(tx, &shape_insert, NULL, NULL, err, needs[0], needs[1], needs[2], needs[3], needs[4],
               needs[5], needs[6], needs[7], V_TEXT(id), V_INT(time_now_ms())) ||
        !store_run(tx, &shape_find, needs, 8, arena, rows, err))
        return false;
    return rows->n_rows == 1 || store_lost_race(err, "the shape was collected meanwhile");
}

static bool find_shape(struct tx *tx, const struct queue_item *item, struct arena *arena,
                       char id[ID_TEXT], struct error *err)
{
    const struct value needs[] = {
        V_TEXT(item->environment_id),
        V_TEXT(item->kind),
        V_INT(item->cpu_millis),
        V_INT(item->memory_mib),
        V_INT(item->disk_mib),
        item->arch.ptr ? V_STR(item->arch) : V_TEXT(""),
        item->compat.ptr ? V_STR(item->compat) : V_TEXT(""),
        item->key_id.ptr ? V_STR(item->key_id) : V_TEXT(""),
    };
    struct rows rows, touched;
    int64_t now = time_now_ms();

    if (!store_run(tx, &shape_find, needs, COUNT_OF(needs), arena, &rows, err) ||
        (rows.n_rows == 0 && !make_shape(tx, needs, arena, &rows, err)))
        return false;
    row_id(&rows, 0, SHAPE_FIND_ID, id);
    if (row_int(&rows, 0, SHAPE_FIND_USED_MS) > now - TOUCH_MS)
        return true;
    if (!STORE(tx, &shape_touch, arena, &touched, err, V_TEXT(id), V_INT(now)))
        return false;
    return touched.n_changed == 1 || store_lost_race(err, "the shape was collected meanwhile");
}

static bool insert(struct tx *tx, const struct queue_item *item, struct arena *arena,
                   struct error *err)
{
    char id[ID_TEXT], shape_id[ID_TEXT];
    bool is_due = item->not_before_ms <= time_now_ms();

    id_make(id);
    if (!find_shape(tx, item, arena, shape_id, err) ||
        !STORE(tx, &ready_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(item->kind),
               V_TEXT(item->subject_id), V_TEXT(item->lane_id), V_TEXT(shape_id),
               V_INT(item->score_ms), V_INT(item->not_before_ms), V_INT(is_due),
               item->ttl_ms ? V_INT(item->ttl_ms) : V_NULL))
        return false;
    return !is_due || STORE(tx, &head_offer, NULL, NULL, err, V_TEXT(id));
}

bool queue_put(struct tx *tx, const struct queue_item *item, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    bool found;

    if (!lock_lane(tx, item->lane_id, &arena, &found, err))
        return false;
    return found ? insert(tx, item, &arena, err)
                 : store_lost_race(err, "the lane was collected meanwhile");
}

/* A branch of a run that is long over may have no lane to come back to. */
static bool restore_lane(struct tx *tx, const char *run_id, struct arena *arena, const char **lane,
                         struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &lane_restore, arena, &rows, err, V_TEXT(run_id), V_INT(time_now_ms())))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_INTERNAL, "run %s has no lane", run_id);
    *lane = row_text(&rows, 0, LANE_RESTORE_ID);
    return STORE(tx, &run_set_lane, NULL, NULL, err, V_TEXT(run_id), V_TEXT(*lane)) &&
           queue_relimit(tx, *lane, err);
}

static bool read_needs(struct tx *tx, const char *checkpoint_id, struct arena *arena,
                       struct queue_item *item, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &checkpoint_needs, arena, &rows, err, V_TEXT(checkpoint_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_INTERNAL, "there is no checkpoint %s", checkpoint_id);
    item->kind = "resume";
    item->ttl_ms = 0;
    item->compat = row_str(&rows, 0, CHECKPOINT_NEEDS_COMPAT);
    item->key_id = row_str(&rows, 0, CHECKPOINT_NEEDS_KEY_ID);
    return true;
}

bool queue_put_run(struct tx *tx, const char *run_id, int64_t not_before_ms,
                   const char *checkpoint_id, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    bool found;

    if (!STORE(tx, &run_to_queue, &arena, &rows, err, V_TEXT(run_id)))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_INTERNAL, "there is no run %s to queue", run_id);
    struct queue_item item = {
        .kind = "run",
        .subject_id = run_id,
        .lane_id = row_text(&rows, 0, RUN_TO_QUEUE_LANE_ID),
        .environment_id = row_text(&rows, 0, RUN_TO_QUEUE_ENVIRONMENT_ID),
        .score_ms = row_int(&rows, 0, RUN_TO_QUEUE_SCORE_MS),
        .not_before_ms = not_before_ms,
        .ttl_ms = row_int(&rows, 0, RUN_TO_QUEUE_TTL_MS),
        .cpu_millis = row_int(&rows, 0, RUN_TO_QUEUE_CPU_MILLIS),
        .memory_mib = row_int(&rows, 0, RUN_TO_QUEUE_MEMORY_MIB),
        .disk_mib = row_int(&rows, 0, RUN_TO_QUEUE_DISK_MIB),
        .arch = row_str(&rows, 0, RUN_TO_QUEUE_ARCH),
        .compat = queue_network_needs(row_str(&rows, 0, RUN_TO_QUEUE_NETWORK)),
    };
    return (!checkpoint_id || read_needs(tx, checkpoint_id, &arena, &item, err)) &&
           lock_lane(tx, item.lane_id, &arena, &found, err) &&
           (found || restore_lane(tx, run_id, &arena, &item.lane_id, err)) &&
           insert(tx, &item, &arena, err);
}

/* Where a subject stands, with its lane locked; no row: nowhere. */
static bool find_item(struct tx *tx, const char *subject_id, struct arena *arena, struct rows *rows,
                      struct error *err)
{
    bool found;

    return STORE(tx, &ready_find, arena, rows, err, V_TEXT(subject_id)) &&
           (rows->n_rows == 0 ||
            lock_lane(tx, row_text(rows, 0, READY_FIND_LANE_ID), arena, &found, err));
}

bool queue_remove(struct tx *tx, const char *subject_id, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows, dropped;

    if (!find_item(tx, subject_id, &arena, &rows, err))
        return false;
    if (rows.n_rows == 0)
        return true;
    struct value id = *row_value(&rows, 0, READY_FIND_ID);
    struct value lane = *row_value(&rows, 0, READY_FIND_LANE_ID);
    struct value shape = *row_value(&rows, 0, READY_FIND_SHAPE_ID);
    return STORE(tx, &ready_delete, NULL, NULL, err, id) &&
           STORE(tx, &head_drop, &arena, &dropped, err, lane, shape, id) &&
           (dropped.n_changed == 0 || STORE(tx, &head_next, NULL, NULL, err, lane, shape));
}

bool queue_promote(struct tx *tx, const char *subject_id, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!find_item(tx, subject_id, &arena, &rows, err))
        return false;
    if (rows.n_rows == 0)
        return true;
    struct value id = *row_value(&rows, 0, READY_FIND_ID);
    return STORE(tx, &ready_set_due, NULL, NULL, err, id) &&
           STORE(tx, &head_offer, NULL, NULL, err, id);
}

static bool recount(struct tx *tx, const struct query *lock, const char *lane_id, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, lock, &arena, &rows, err, V_TEXT(lane_id), V_INT(time_now_ms())))
        return false;
    return rows.n_rows == 0 || STORE(tx, &lane_recount, NULL, NULL, err, V_TEXT(lane_id));
}

bool queue_recount(struct tx *tx, const char *lane_id, struct error *err)
{
    return recount(tx, &lane_lock_limited, lane_id, err);
}

bool queue_relimit(struct tx *tx, const char *lane_id, struct error *err)
{
    return recount(tx, &lane_lock, lane_id, err);
}

bool queue_check(struct tx *tx, const char *ready_id, const char *lane_id, bool *is_there,
                 struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows lane, rows;

    if (!STORE(tx, &lane_lock, &arena, &lane, err, V_TEXT(lane_id), V_INT(time_now_ms())) ||
        (lane.n_rows == 1 && !STORE(tx, &claim_check, &arena, &rows, err, V_TEXT(ready_id),
                                    *row_value(&lane, 0, LANE_LOCK_MAX_LIVE), V_TEXT(lane_id))))
        return false;
    *is_there = lane.n_rows == 1 && row_int(&rows, 0, CLAIM_CHECK_IS_THERE) == 1 &&
                row_int(&rows, 0, CLAIM_CHECK_HAS_PLACE) == 1;
    return *is_there || STORE(tx, &lane_recount, NULL, NULL, err, V_TEXT(lane_id));
}

bool queue_collect(struct tx *tx, int64_t now, struct error *err)
{
    return STORE(tx, &lanes_collect, NULL, NULL, err, V_INT(now - LANE_MS), V_INT(COLLECT_MAX)) &&
           STORE(tx, &shapes_collect, NULL, NULL, err, V_INT(now - SHAPE_MS), V_INT(COLLECT_MAX));
}
