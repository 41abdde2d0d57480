/* What a worker reports about parking a run and about bringing it back: each call again, in the
 * state it led to, gets the same answer, for the first one may have been lost. */
#include "base/time.h"
#include "server/caller.h"
#include "server/event.h"
#include "server/object_refs.h"
#include "server/resume.h"
#include "server/stream_wait.h"
#include "server/versions.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum {
    CHECKPOINTING_MS = 10 * 60 * 1000,
    RETRY_FIRST_MS = 10 * 1000,
    RETRY_MOST_MS = 5 * 60 * 1000,
};

/* A call about a run's wait: lease, run and wait are locked, in this order. */
struct park {
    struct call *call;
    struct server *server;
    struct tx *tx;
    struct lease_row lease;
    struct run_row run;
    struct wait_row wait;
    struct checkpoint_row checkpoint;
    struct wakes wakes;
    int64_t now;
};

static void finish_park(struct park *park)
{
    store_rollback(&park->tx);
}

static bool open_park(struct call *call, const struct wire_fence *fence, struct park *park,
                      struct error *err)
{
    park->call = call;
    park->server = server_of(call);
    park->now = time_now_ms();
    return store_begin(park->server->store, &park->tx, err) &&
           lease_open(park->tx, call, fence, true, &park->lease, err) &&
           lease_is_for(&park->lease, SUBJECT_RUN, err) &&
           lease_load_run(park->tx, &park->lease, call->arena, &park->run, err);
}

static bool commit(struct park *park, struct error *err)
{
    return hub_commit(&park->server->hub, &park->tx, &park->wakes, err);
}

static bool load_wait(struct park *park, const char *id, struct error *err)
{
    if (!wait_load(park->tx, id, park->call->arena, &park->wait, err))
        return false;
    return strcmp(park->wait.run_id, park->run.id) == 0 ||
           error_set(err, ERR_NOT_FOUND, "there is no wait %s of this run", id);
}

/* The checkpoint of this very lease, after its wait. */
static bool load_checkpoint(struct park *park, struct str checkpoint_id, struct error *err)
{
    struct arena *arena = park->call->arena;
    const char *id = arena_text(arena, checkpoint_id);
    struct rows rows;

    if (!STORE(park->tx, &checkpoint_find, arena, &rows, err, V_TEXT(id), V_TEXT(park->lease.id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no checkpoint %s of this lease", id);
    return load_wait(park, row_text(&rows, 0, CHECKPOINT_FIND_WAIT_ID), err) &&
           checkpoint_load(park->tx, id, arena, &park->checkpoint, err);
}

static bool append(struct park *park, const char *kind, const char *severity, struct buf *text,
                   struct json_writer *json, struct error *err)
{
    json_close(json);
    if (!json_end(json, err))
        return false;
    const struct event event = {.kind = kind,
                                .severity = severity,
                                .source = "worker",
                                .attempt = park->lease.attempt,
                                .attributes = buf_str(text)};
    wakes_add(&park->wakes, "run:", park->run.id);
    return run_event_append(park->tx, park->run.id, &event, err);
}

static bool started_event(struct park *park, const char *checkpoint_id, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "checkpoint_id", checkpoint_id);
    json_string(&json, "wait_id", park->wait.id);
    return append(park, "checkpoint.started", "debug", &text, &json, err);
}

/* Whether it is worth it: nobody has answered, and nobody wants the run to end. */
static bool may_park(const struct park *park)
{
    return park->lease.state == LEASE_RUNNING && park->run.state == RUN_WAITING &&
           park->wait.suspension == SUSPENSION_HOT && park->wait.condition == WAIT_PENDING &&
           !wait_is_live(&park->wait);
}

static bool begin(struct park *park, struct str checkpoint_id, struct error *err)
{
    struct arena *arena = park->call->arena;
    char id[ID_TEXT];
    struct rows rows;

    if (!id_parse(checkpoint_id, id))
        return error_set(err, ERR_INVALID, "/checkpoint_id must be an id");
    if (!STORE(park->tx, &checkpoint_insert, arena, &rows, err, V_TEXT(id),
               V_TEXT(park->run.environment_id), V_TEXT(park->run.id), V_TEXT(park->wait.id),
               V_INT(park->lease.attempt), V_TEXT(park->lease.id), V_INT(park->now)))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_CONFLICT, "there was a checkpoint %s before", id);
    return lease_apply(park->tx, &park->lease, LEASE_CHECKPOINT_BEGIN, park->now + CHECKPOINTING_MS,
                       err) &&
           wait_suspend(park->tx, &park->wait, WAIT_CHECKPOINT, park->now, err) &&
           STORE(park->tx, &wait_set_checkpoint, NULL, NULL, err, V_TEXT(park->wait.id),
                 V_TEXT(id)) &&
           started_event(park, id, err) && commit(park, err);
}

bool checkpoint_begin_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_park) struct park park = {0};
    struct wire_checkpoint_begun answer = {0};
    struct wire_checkpoint_begin wanted;

    if (!worker_read(call, wire_checkpoint_begin_fields, &wanted, sizeof wanted, err) ||
        !open_park(call, &wanted.fence, &park, err) ||
        !load_wait(&park, arena_text(call->arena, wanted.wait_id), err))
        return false;
    if (lease_state_is_final(park.lease.state))
        return error_set(err, ERR_LEASE_STALE, "the lease is over");
    if (park.lease.state == LEASE_CHECKPOINTING)
        answer.proceed = str_equal(str_of(park.wait.checkpoint_id), wanted.checkpoint_id);
    else if (may_park(&park)) {
        answer.proceed = true;
        if (!begin(&park, wanted.checkpoint_id, err))
            return false;
    }
    return worker_answer(res, wire_checkpoint_begun_fields, &answer, err);
}

/* What the checkpoint fits, in words: as the worker said when it became active. */
static struct str find_facts(struct park *park, struct error *err)
{
    struct arena *arena = park->call->arena;
    struct str facts = {0};
    struct rows rows;

    if (!STORE(park->tx, &worker_compat, arena, &rows, err, V_TEXT(park->lease.worker_id)))
        return facts;
    if (rows.n_rows == 0 || !json_find_raw(row_str(&rows, 0, WORKER_COMPAT_CAPABILITIES),
                                           "compat_facts", arena, &facts))
        facts = STR("{}");
    return facts;
}

static bool names_manifest(const struct wire_checkpoint_stage *stage)
{
    const struct wire_object *objects = stage->objects.items;

    for (size_t i = 0; i < stage->objects.n; i++)
        if (str_equal(objects[i].digest, stage->manifest))
            return true;
    return false;
}

/* The workspace as it is in the checkpoint, for those who look at it while the run is parked. */
static bool publish_version(struct park *park, const struct wire_checkpoint_stage *wanted,
                            struct error *err)
{
    return !wanted->has_version || version_publish(park->server, park->tx, &wanted->version,
                                                   park->run.id, VERSION_SYSTEM, &park->wakes, err);
}

static bool stage(struct park *park, const struct wire_checkpoint_stage *wanted, struct error *err)
{
    struct str facts = find_facts(park, err);
    const char *id = park->checkpoint.id;

    if (!facts.ptr)
        return false;
    if (!names_manifest(wanted))
        return error_set(err, ERR_INVALID, "/objects lacks the manifest");
    return object_refs_add(park->server, park->tx, id, &wanted->objects, park->call->arena, err) &&
           publish_version(park, wanted, err) &&
           STORE(park->tx, &checkpoint_fill, NULL, NULL, err, V_TEXT(id), V_STR(wanted->manifest),
                 V_STR(wanted->key_id), V_STR(wanted->compat), V_STR(facts), V_INT(wanted->op),
                 V_INT(wanted->can_fork), wanted->has_version ? V_STR(wanted->version.id) : V_NULL,
                 V_INT(wanted->logical_bytes), V_INT(wanted->stored_bytes)) &&
           checkpoint_move_by(park->tx, &park->checkpoint, CHECKPOINT_STAGE, park->now, err) &&
           commit(park, err);
}

bool checkpoint_stage_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_park) struct park park = {0};
    struct wire_checkpoint_stage wanted;

    if (!worker_read(call, wire_checkpoint_stage_fields, &wanted, sizeof wanted, err) ||
        !open_park(call, &wanted.fence, &park, err) ||
        !load_checkpoint(&park, wanted.checkpoint_id, err))
        return false;
    if (park.checkpoint.state == CHECKPOINT_STAGED || park.checkpoint.state == CHECKPOINT_READY)
        return (str_equal(park.checkpoint.manifest, wanted.manifest) ||
                error_set(err, ERR_CONFLICT, "another manifest was staged")) &&
               worker_answer_nothing(res, err);
    if (park.lease.state != LEASE_CHECKPOINTING)
        return error_set(err, ERR_LEASE_STALE, "a lease that is %s makes no checkpoint",
                         lease_state_name(park.lease.state));
    return stage(&park, &wanted, err) && worker_answer_nothing(res, err);
}

/* Its sandbox is gone and the lease with it: the place in the lane is free. */
static bool end_parked(struct park *park, struct error *err)
{
    if (!lease_apply(park->tx, &park->lease, LEASE_CHECKPOINT_READY, 0, err) ||
        !lease_released_event(park->tx, &park->lease, "checkpointed", err))
        return false;
    wakes_add(&park->wakes, "g", park->run.group_id);
    if (park->run.state == RUN_PENDING_CANCEL)
        return checkpoint_move_by(park->tx, &park->checkpoint, CHECKPOINT_FENCE, park->now, err) &&
               lease_finish_run(park->tx, &park->lease, &park->run, RUN_GONE,
                                &(struct run_end){.source = "worker"}, &park->wakes, err);
    return resume_park(park->tx, &park->wait, &park->checkpoint, CHECKPOINT_FENCE, "worker",
                       &park->wakes, err);
}

bool checkpoint_ready_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_park) struct park park = {0};
    struct wire_checkpoint_ready wanted;

    if (!worker_read(call, wire_checkpoint_ready_fields, &wanted, sizeof wanted, err) ||
        !open_park(call, &wanted.fence, &park, err) ||
        !load_checkpoint(&park, wanted.checkpoint_id, err))
        return false;
    /* Promoted meanwhile, or told twice: what the worker wanted holds. */
    if (park.checkpoint.state == CHECKPOINT_READY)
        return worker_answer_nothing(res, err);
    if (park.lease.state != LEASE_CHECKPOINTING)
        return error_set(err, ERR_LEASE_STALE, "a lease that is %s has no checkpoint",
                         lease_state_name(park.lease.state));
    if (park.checkpoint.state != CHECKPOINT_STAGED)
        return error_set(err, ERR_CONFLICT, "the checkpoint is not staged");
    return end_parked(&park, err) && commit(&park, err) && worker_answer_nothing(res, err);
}

/* 10 s, 20 s, 40 s … 5 min. */
static int64_t retry_after_ms(int64_t failures)
{
    int64_t delay = RETRY_FIRST_MS;

    for (int64_t i = 1; i < failures && delay < RETRY_MOST_MS; i++)
        delay *= 2;
    return delay < RETRY_MOST_MS ? delay : RETRY_MOST_MS;
}

static bool failed_event(struct park *park, const struct wire_checkpoint_abort *wanted,
                         int64_t retry_ms, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = KIB(16)};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "checkpoint_id", park->checkpoint.id);
    json_string(&json, "wait_id", park->wait.id);
    json_text(&json, "code", wanted->code);
    json_text(&json, "message", wanted->detail.ptr ? wanted->detail : wanted->code);
    json_int(&json, "retry_after_ms", retry_ms);
    return append(park, "run.wait_checkpoint_failed", "warn", &text, &json, err);
}

/* The program goes on where it was: it waits, or it gets the answer that came meanwhile. */
static bool go_on_hot(struct park *park, const struct wire_checkpoint_abort *wanted,
                      int64_t *retry_ms, struct error *err)
{
    bool is_settled = park->wait.condition != WAIT_PENDING;
    int64_t failures = park->wait.checkpoint_failures + !is_settled;

    *retry_ms = is_settled ? 0 : retry_after_ms(failures);
    if (!lease_apply(park->tx, &park->lease, LEASE_CHECKPOINT_ABORT, 0, err) ||
        !checkpoint_move_by(park->tx, &park->checkpoint, CHECKPOINT_ABORT, park->now, err) ||
        !wait_suspend(park->tx, &park->wait, WAIT_CHECKPOINT_FAIL, park->now, err) ||
        !STORE(park->tx, &wait_retry_park, NULL, NULL, err, V_TEXT(park->wait.id), V_INT(failures),
               V_INT(park->now + *retry_ms)))
        return false;
    return is_settled ? wait_deliver_hot(park->tx, &park->wait, &park->wakes, err)
                      : failed_event(park, wanted, *retry_ms, err);
}

bool checkpoint_abort_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_park) struct park park = {0};
    struct wire_checkpoint_aborted answer = {0};
    struct wire_checkpoint_abort wanted;

    if (!worker_read(call, wire_checkpoint_abort_fields, &wanted, sizeof wanted, err) ||
        !open_park(call, &wanted.fence, &park, err) ||
        !load_checkpoint(&park, wanted.checkpoint_id, err))
        return false;
    if (lease_state_is_final(park.lease.state))
        return error_set(err, ERR_LEASE_STALE, "the lease is over");
    bool is_replay =
        park.lease.state == LEASE_RUNNING && park.checkpoint.state == CHECKPOINT_INVALID;
    if (is_replay && park.wait.condition == WAIT_PENDING)
        answer.retry_after_ms = retry_after_ms(park.wait.checkpoint_failures);
    if (!is_replay &&
        (!go_on_hot(&park, &wanted, &answer.retry_after_ms, err) || !commit(&park, err)))
        return false;
    return worker_answer(res, wire_checkpoint_aborted_fields, &answer, err);
}

static bool resumed_event(struct park *park, const struct wire_resumed *wanted, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);
    bool is_hot = park->wait.suspension == SUSPENSION_HOT;

    json_open(&json, NULL);
    json_string(&json, "wait_id", park->wait.id);
    if (!is_hot)
        json_string(&json, "checkpoint_id", park->wait.checkpoint_id);
    json_string(&json, "mode", is_hot ? "hot" : "restored");
    json_int(&json, "resume_ms", wanted->resume_ms);
    return append(park, "run.resumed", "info", &text, &json, err);
}

static bool release_wait(struct park *park, const struct wire_resumed *wanted, struct error *err)
{
    bool is_hot = park->wait.suspension == SUSPENSION_HOT;
    bool is_theirs = is_hot || strcmp(park->wait.lease_id, park->lease.id) == 0;

    if (!is_theirs || park->wait.condition == WAIT_PENDING ||
        (!is_hot && park->wait.resume_version != wanted->resume_version))
        return error_set(err, ERR_CONFLICT, "the answer of wait %s is not theirs", park->wait.id);
    return resumed_event(park, wanted, err) &&
           wait_suspend(park->tx, &park->wait, is_hot ? WAIT_DELIVER : WAIT_ACKNOWLEDGE, park->now,
                        err) &&
           wait_set_deadline(park->tx, &park->lease, &park->run, err) && commit(park, err);
}

bool lease_resumed_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_park) struct park park = {0};
    struct wire_resumed wanted;

    if (!worker_read(call, wire_resumed_fields, &wanted, sizeof wanted, err) ||
        !open_park(call, &wanted.fence, &park, err) ||
        !load_wait(&park, arena_text(call->arena, wanted.wait_id), err))
        return false;
    if (park.wait.suspension == SUSPENSION_RELEASED)
        return worker_answer_nothing(res, err);
    if (lease_state_is_final(park.lease.state))
        return error_set(err, ERR_LEASE_STALE, "the lease is over");
    return release_wait(&park, &wanted, err) && worker_answer_nothing(res, err);
}
