/* The dispatcher: which ready item a poll gets. One group's claims come one after the other,
 * under its row's lock; each is one indexed query, a lease, and the move of its subject. */
#include "base/time.h"
#include "server/event.h"
#include "server/lease.h"
#include "server/mount_store.h"
#include "server/queue.h"
#include "server/resume.h"
#include "server/worker_plane.h"
#include "store/queries.h"

/* PASSES_MAX: how often one poll begins anew because what it met was past its time. */
enum { ASSIGNED_MS = 60 * 1000, PASSES_MAX = 100 };

static struct str column(const struct rows *rows, size_t at)
{
    return row_str(rows, 0, at);
}

static bool assigned_event(struct tx *tx, const char *run_id, const char *lease_id,
                           const char *worker_id, int64_t attempt, int64_t number,
                           struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "lease_id", lease_id);
    json_string(&json, "worker_id", worker_id);
    json_int(&json, "dispatch_number", number);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "run.lease_assigned",
                                .attempt = attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(tx, run_id, &event, err);
}

static bool insert_lease(struct claim *claim, struct tx *tx, const struct rows *item,
                         const char *lease_id, int64_t attempt, int64_t sequence, struct error *err)
{
    int64_t now = time_now_ms();
    struct str kind = column(item, CLAIM_NEXT_KIND);

    return STORE(tx, &lease_insert, NULL, NULL, err, V_TEXT(lease_id),
                 V_STR(str_equal(kind, STR("resume")) ? STR("run") : kind),
                 V_STR(column(item, CLAIM_NEXT_SUBJECT_ID)),
                 V_STR(column(item, CLAIM_NEXT_ENVIRONMENT_ID)),
                 V_STR(column(item, CLAIM_NEXT_LANE_ID)), V_INT(attempt), V_INT(sequence),
                 V_TEXT(claim->worker_id), V_INT(claim->epoch), V_INT(now),
                 V_INT(now + claim->server->config->lease_ttl_ms), V_INT(now + ASSIGNED_MS));
}

static bool lease_build(struct claim *claim, struct tx *tx, const struct rows *item,
                        const char *lease_id, bool *moved, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &build_lease, claim->arena, &rows, err,
               *row_value(item, 0, CLAIM_NEXT_SUBJECT_ID), V_INT(time_now_ms())))
        return false;
    *moved = rows.n_rows == 1;
    return !*moved ||
           insert_lease(claim, tx, item, lease_id, row_int(&rows, 0, BUILD_LEASE_BUILD_NUMBER),
                        row_int(&rows, 0, BUILD_LEASE_LEASE_SEQUENCE), err);
}

static bool lease_mount(struct claim *claim, struct tx *tx, const struct rows *item,
                        const char *lease_id, bool *moved, struct wakes *wakes, struct error *err)
{
    int64_t attempt, sequence;

    return mount_give(tx, row_text(item, 0, CLAIM_NEXT_SUBJECT_ID), lease_id, claim->worker_id,
                      claim->arena, moved, &attempt, &sequence, wakes, err) &&
           (!*moved || insert_lease(claim, tx, item, lease_id, attempt, sequence, err));
}

/* The run is the newest writer of its workspace: an older one publishes nothing any more. */
static bool fence_workspace(struct claim *claim, struct tx *tx, const char *run_id,
                            struct error *err)
{
    struct rows rows;

    return STORE(tx, &run_raise, claim->arena, &rows, err, V_TEXT(run_id)) &&
           (rows.n_rows == 0 || STORE(tx, &run_set_generation, NULL, NULL, err, V_TEXT(run_id),
                                      *row_value(&rows, 0, RUN_RAISE_FENCING_GENERATION)));
}

static bool lease_run(struct claim *claim, struct tx *tx, const struct rows *item,
                      const char *lease_id, bool *moved, struct wakes *wakes, struct error *err)
{
    const char *subject = row_text(item, 0, CLAIM_NEXT_SUBJECT_ID);
    struct rows rows;

    if (!STORE(tx, &run_lease, claim->arena, &rows, err, V_TEXT(subject),
               V_TEXT(run_state_name(RUN_QUEUED)), V_TEXT(run_state_name(RUN_LEASED)),
               V_INT(time_now_ms())))
        return false;
    *moved = rows.n_rows == 1;
    if (!*moved)
        return true;
    wakes_add(wakes, "run:", subject);
    if (!fence_workspace(claim, tx, subject, err) ||
        (str_equal(column(item, CLAIM_NEXT_KIND), STR("resume")) &&
         !resume_take(tx, subject, lease_id, err)))
        return false;
    int64_t attempt = row_int(&rows, 0, RUN_LEASE_ATTEMPT);
    return insert_lease(claim, tx, item, lease_id, attempt,
                        row_int(&rows, 0, RUN_LEASE_LEASE_SEQUENCE), err) &&
           assigned_event(tx, subject, lease_id, claim->worker_id, attempt,
                          row_int(&rows, 0, RUN_LEASE_DISPATCHES), err);
}

/* Moves the subject out of the queue; *moved is false when somebody else was faster. */
static bool lease_subject(struct claim *claim, struct tx *tx, const struct rows *item,
                          const char *lease_id, bool *moved, struct wakes *wakes, struct error *err)
{
    struct str kind = column(item, CLAIM_NEXT_KIND);

    if (str_equal(kind, STR("build")))
        return lease_build(claim, tx, item, lease_id, moved, err);
    if (str_equal(kind, STR("mount")))
        return lease_mount(claim, tx, item, lease_id, moved, wakes, err);
    return lease_run(claim, tx, item, lease_id, moved, wakes, err);
}

static void take_room(struct claim *claim)
{
    const struct wire_grant *grant = &claim->grants[claim->n_grants - 1];

    if (grant->has_build) {
        claim->room.build_slots--;
        return;
    }
    const struct wire_sandbox *sandbox =
        grant->has_mount ? &grant->mount.sandbox : &grant->run.sandbox;
    claim->room.slots--;
    claim->room.cpu_millis -= sandbox->vcpus * 1000;
    claim->room.memory_mib -= sandbox->memory_mib;
    claim->room.disk_mib -= sandbox->disk_mib;
}

static bool find_next(struct claim *claim, struct tx *tx, struct rows *item, struct error *err)
{
    bool runs = claim->runs && claim->room.slots > 0;
    bool resumes = claim->resumes && claim->compat && claim->room.slots > 0;
    bool builds = claim->builds && claim->room.build_slots > 0;
    bool mounts = claim->mounts && claim->room.slots > 0;

    *item = (struct rows){0};
    if (!runs && !resumes && !builds && !mounts)
        return true;
    return STORE(tx, &claim_next, claim->arena, item, err, V_TEXT(claim->group_id), V_INT(runs),
                 V_INT(builds), V_INT(claim->room.cpu_millis), V_INT(claim->room.memory_mib),
                 V_INT(claim->room.disk_mib), V_INT(claim->grade),
                 V_TEXT(claim->arch ? claim->arch : ""), V_INT(resumes),
                 V_TEXT(resumes ? claim->compat : ""), V_TEXT(resumes ? claim->key_id : ""),
                 V_INT(mounts), V_TEXT(claim->has_rules ? QUEUE_RULES : ""));
}

static bool look_for_others(struct claim *claim, struct tx *tx, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &group_has_work, claim->arena, &rows, err, V_TEXT(claim->group_id)))
        return false;
    claim->offer = row_int(&rows, 0, GROUP_HAS_WORK_N) > 0 ? OFFER_OTHERS : OFFER_NONE;
    return true;
}

bool dispatch_look(struct claim *claim, struct tx *tx, struct error *err)
{
    struct rows item;

    if (!find_next(claim, tx, &item, err))
        return false;
    if (item.n_rows == 0)
        return look_for_others(claim, tx, err);
    bool is_back = !row_is_null(&item, 0, CLAIM_NEXT_REJECTED_BY) &&
                   str_equal(column(&item, CLAIM_NEXT_REJECTED_BY), str_of(claim->worker_id));
    claim->offer = is_back ? OFFER_BACK : OFFER_WORK;
    return true;
}

bool dispatch_lock(struct tx *tx, const char *worker_id, struct error *err)
{
    return STORE(tx, &worker_group_lock, NULL, NULL, err, V_TEXT(worker_id));
}

/* Why a claim ends. */
enum verdict {
    CLAIM_GOES_ON,
    CLAIM_IS_DONE, /* nothing more fits, or somebody else is at what comes next */
    CLAIM_MET_LATE /* what comes next is past its ttl */
};

static bool is_late(const struct rows *item)
{
    return !row_is_null(item, 0, CLAIM_NEXT_TTL_MS) &&
           row_int(item, 0, CLAIM_NEXT_TTL_MS) <= time_now_ms();
}

/* What cannot be moved is on the move: who moves it takes it out of the queue. Something that is
 * not queued and in it all the same would hold up everything behind it. */
static bool look_again(struct tx *tx, const struct rows *item, enum verdict *verdict,
                       struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *subject = row_text(item, 0, CLAIM_NEXT_SUBJECT_ID);
    struct rows rows;

    if (!STORE(tx, &subject_is_queued, &arena, &rows, err, V_TEXT(subject)))
        return false;
    if (row_int(&rows, 0, SUBJECT_IS_QUEUED_N) == 0)
        return queue_remove(tx, subject, err);
    *verdict = CLAIM_IS_DONE;
    return true;
}

static bool claim_item(struct claim *claim, struct tx *tx, const struct rows *item,
                       enum verdict *verdict, struct wakes *wakes, struct error *err)
{
    const char *lane_id = row_text(item, 0, CLAIM_NEXT_LANE_ID);
    char lease_id[ID_TEXT];
    bool is_there, moved;

    if (!queue_check(tx, row_text(item, 0, CLAIM_NEXT_ID), lane_id, &is_there, err))
        return false;
    if (!is_there)
        return true;
    id_make(lease_id);
    if (!lease_subject(claim, tx, item, lease_id, &moved, wakes, err))
        return false;
    if (!moved)
        return look_again(tx, item, verdict, err);
    if (!queue_remove(tx, row_text(item, 0, CLAIM_NEXT_SUBJECT_ID), err) ||
        !queue_recount(tx, lane_id, err) || !dispatch_grant(claim, tx, lease_id, err))
        return false;
    take_room(claim);
    return true;
}

static bool claim_all(struct claim *claim, struct tx *tx, enum verdict *verdict, char late[ID_TEXT],
                      struct wakes *wakes, struct error *err)
{
    *verdict = CLAIM_GOES_ON;
    while (*verdict == CLAIM_GOES_ON && dispatch_has_place(claim)) {
        struct rows item;

        if (!find_next(claim, tx, &item, err) || !dispatch_prefer_warm(claim, tx, &item, err))
            return false;
        if (item.n_rows == 0) {
            *verdict = CLAIM_IS_DONE;
        } else if (is_late(&item)) {
            row_id(&item, 0, CLAIM_NEXT_SUBJECT_ID, late);
            *verdict = CLAIM_MET_LATE;
        } else if (!claim_item(claim, tx, &item, verdict, wakes, err)) {
            return false;
        }
    }
    return true;
}

/* Under the group's lock the worker cannot be superseded, drained or lost any more. */
static bool may_claim(struct claim *claim, struct tx *tx, bool *may, struct error *err)
{
    struct rows group, worker;

    if (!STORE(tx, &group_lock, claim->arena, &group, err, V_TEXT(claim->group_id)) ||
        !STORE(tx, &worker_epoch, claim->arena, &worker, err, V_TEXT(claim->worker_id)))
        return false;
    *may = group.n_rows == 1 && str_equal(column(&group, GROUP_LOCK_STATE), STR("active")) &&
           worker.n_rows == 1 && row_int(&worker, 0, WORKER_EPOCH_EPOCH) == claim->epoch &&
           str_equal(column(&worker, WORKER_EPOCH_STATE), STR("active"));
    return true;
}

static bool claim_once(struct claim *claim, enum verdict *verdict, char late[ID_TEXT],
                       struct error *err)
{
    struct server *server = claim->server;
    struct wakes wakes = {0};
    bool may;
    AUTO_TX tx = NULL;

    *verdict = CLAIM_IS_DONE;
    if (!store_begin(server->store, &tx, err) || !may_claim(claim, tx, &may, err))
        return false;
    return !may || (claim_all(claim, tx, verdict, late, &wakes, err) &&
                    look_for_others(claim, tx, err) && hub_commit(&server->hub, &tx, &wakes, err));
}

/* In a transaction of its own: the run is locked before its lane, and here no lane is held. */
static bool expire(struct claim *claim, const char *run_id, struct error *err)
{
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;

    if (store_begin(claim->server->store, &tx, err) &&
        run_expire(tx, run_id, "control", claim->arena, &wakes, err) &&
        hub_commit(&claim->server->hub, &tx, &wakes, err))
        return true;
    /* Somebody else moved it. */
    return err->code == ERR_CONFLICT;
}

bool dispatch_claim(struct claim *claim, struct error *err)
{
    enum verdict verdict = CLAIM_MET_LATE;
    char late[ID_TEXT];

    for (int i = 0; i < PASSES_MAX && verdict == CLAIM_MET_LATE; i++) {
        if (!claim_once(claim, &verdict, late, err))
            return false;
        if (verdict == CLAIM_MET_LATE && !expire(claim, late, err))
            return false;
    }
    return true;
}
