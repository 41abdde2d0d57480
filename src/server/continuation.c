#include "server/continuation.h"

#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "model/continuation_state.h"
#include "server/run_start.h"
#include "server/run_store.h"
#include "server/task_session_store.h"
#include "store/queries.h"

enum { ERROR_MAX = 4096 };

/* What a record means for its session. */
enum verdict {
    LEAVE, /* a program can read it, or nothing goes on any more */
    HOLD,  /* the run is about to end */
    MAKE,
};

/* One more turn of a session, which is locked. */
struct turn {
    struct tx *tx;
    struct arena *arena;
    struct wakes *wakes;
    char id[ID_TEXT]; /* of the continuation */
    struct stream_record_ref record;
    struct session_row session;
    int64_t now, turn_index;
    struct str payload; /* of the run before */
    bool has_run;
};

const char *continuation_status_name(enum continuation_status status)
{
    switch (status) {
    case CONTINUE_PENDING: return "accepted_run_pending";
    case CONTINUE_CREATED: return "created";
    case CONTINUE_DUPLICATE: return "duplicate";
    case CONTINUE_NOT: break;
    }
    return NULL;
}

/* The run is locked after its session: whoever ends it is either done, and seen here, or waits
 * until the record is there. */
static bool look(struct turn *turn, enum verdict *verdict, struct error *err)
{
    const struct session_row *session = &turn->session;
    struct error why;
    enum run_state state;
    struct rows rows;

    *verdict = LEAVE;
    if (!task_session_is_open(session, turn->now, &why))
        return true;
    if (!STORE(turn->tx, &run_lock, NULL, NULL, err, V_TEXT(session->current_run_id)) ||
        !STORE(turn->tx, &session_run_find, turn->arena, &rows, err,
               V_TEXT(session->current_run_id)))
        return false;
    *verdict = MAKE;
    turn->has_run = rows.n_rows > 0;
    if (!turn->has_run)
        return true;
    turn->payload = row_str(&rows, 0, SESSION_RUN_FIND_PAYLOAD);
    turn->turn_index = row_int(&rows, 0, SESSION_RUN_FIND_TURN_INDEX);
    if (!run_state_parse(row_str(&rows, 0, SESSION_RUN_FIND_STATE), &state))
        return error_set(err, ERR_INTERNAL, "the run of session %s is in no known state",
                         session->id);
    if (!run_state_is_final(state))
        *verdict = row_int(&rows, 0, SESSION_RUN_FIND_IS_FINALIZED) ? HOLD : LEAVE;
    return true;
}

static bool write_cause(const struct turn *turn, struct buf *out, struct error *err)
{
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "kind", "stream_record");
    json_string(&json, "record_id", turn->record.record_id);
    json_int(&json, "sequence", turn->record.sequence);
    json_string(&json, "stream_id", turn->record.stream_id);
    json_close(&json);
    return json_end(&json, err);
}

/* The current deployment if it fits, else the one the session last ran. */
static bool choose_deployment(struct turn *turn, struct run_spec *spec, struct error *err)
{
    const struct session_row *session = &turn->session;
    struct rows rows;

    if (!STORE(turn->tx, &continuation_deployment, turn->arena, &rows, err,
               V_TEXT(session->environment_id), V_STR(session->task_id),
               V_TEXT(session->workspace_id), V_STR_OR_NULL(spec->options.queue.name)))
        return false;
    spec->options.deployment_id = rows.n_rows > 0 ? row_str(&rows, 0, CONTINUATION_DEPLOYMENT_ID)
                                                  : str_of(session->active_deployment_id);
    return true;
}

/* The start of the session, asked for once more. */
static bool read_spec(struct turn *turn, struct run_spec *spec, struct error *err)
{
    struct str request = turn->session.request;

    if (!request.ptr)
        request = str_of(arena_printf(turn->arena, "{\"task_id\":\"%.*s\"}",
                                      (int)turn->session.task_id.len, turn->session.task_id.ptr));
    if (!run_spec_parse(request, turn->arena, spec, err))
        return error_wrap(err, "the request of session %s", turn->session.id);
    spec->payload = turn->payload;
    spec->metadata = turn->session.metadata;
    return choose_deployment(turn, spec, err);
}

static bool start_run(struct turn *turn, char run_id[ID_TEXT], struct error *err)
{
    AUTO(buf_finish) struct buf cause = {.max = ERROR_MAX};
    struct run_spec spec;
    const struct run_before before = {turn->session.current_run_id, turn->turn_index};
    struct run_start start = {
        .tx = turn->tx,
        .arena = turn->arena,
        .environment_id = turn->session.environment_id,
        .spec = &spec,
        .reason = "input",
        .now = turn->now,
        .before = &before,
        .joins_workspace = true,
        .drops_payload = true,
    };

    if (!turn->has_run)
        return error_set(err, ERR_SESSION_WITHOUT_RUN, "the session has no run to go on from");
    if (!read_spec(turn, &spec, err) || !write_cause(turn, &cause, err))
        return false;
    run_start_make_ids(&start);
    memcpy(start.session_id, turn->session.id, ID_TEXT);
    memcpy(start.workspace_id, turn->session.workspace_id, ID_TEXT);
    start.cause = buf_str(&cause);
    memcpy(run_id, start.run_id, ID_TEXT);
    return run_start_prepare(&start, err) && run_start_insert(&start, turn->wakes, err);
}

static bool move(struct turn *turn, enum continuation_event on, struct value run,
                 struct value error_text, struct error *err)
{
    enum continuation_state before = CONTINUATION_CLAIMED, after = before;
    struct rows rows;

    if (!continuation_state_apply(&after, on))
        return error_set(err, ERR_CONFLICT, "a continuation that is %s cannot %s",
                         continuation_state_name(before), continuation_event_name(on));
    if (!STORE(turn->tx, &continuation_move, turn->arena, &rows, err, V_TEXT(turn->id),
               V_TEXT(continuation_state_name(before)), V_TEXT(continuation_state_name(after)), run,
               error_text, V_INT(turn->now)))
        return false;
    return rows.n_changed == 1 || store_lost_race(err, "the continuation moved meanwhile");
}

/* Found before anything was written, and no better at the next try. */
static bool is_refusal(const struct error *err)
{
    static const enum error_code codes[] = {
        ERR_NOT_FOUND,           ERR_NO_CURRENT_DEPLOYMENT, ERR_NOT_DEPLOYED,
        ERR_TASK_NOT_FOUND,      ERR_TASK_NOT_DEPLOYED,     ERR_QUEUE_NOT_DECLARED,
        ERR_SECRET_MISSING,      ERR_WORKSPACE_NOT_FOUND,   ERR_WORKSPACE_INACTIVE,
        ERR_TASK_ARCHIVED,       ERR_SANDBOX_NOT_DEPLOYED,  ERR_WORKSPACE_SANDBOX,
        ERR_WORKSPACE_RESOURCES, ERR_SESSION_WITHOUT_RUN,   ERR_WORKSPACE_RECOVERY,
    };

    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (err->code == codes[i])
            return true;
    return false;
}

static bool fail(struct turn *turn, const struct error *why, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = ERROR_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "code", error_wire_name(why->code));
    json_string(&json, "message", why->text);
    json_close(&json);
    log_warn("session not continued", LOG_STR("session", turn->session.id), LOG_ERR(why));
    wakes_add(turn->wakes, "session:", turn->session.id);
    return json_end(&json, err) &&
           move(turn, CONTINUATION_FAIL, V_NULL, V_STR(buf_str(&text)), err) &&
           STORE(turn->tx, &continuation_fail_note, NULL, NULL, err, V_TEXT(turn->session.id),
                 V_STR(buf_str(&text)), V_INT(turn->now));
}

/* Of a claimed one. */
static bool make(struct turn *turn, enum continuation_status *status, struct error *err)
{
    char run_id[ID_TEXT];
    struct error why;

    *status = CONTINUE_CREATED;
    if (start_run(turn, run_id, &why))
        return move(turn, CONTINUATION_CREATE, V_TEXT(run_id), V_NULL, err);
    if (why.code == ERR_WORKSPACE_WRITER) {
        *status = CONTINUE_PENDING;
        return move(turn, CONTINUATION_CLAIM_OVER, V_NULL, V_NULL, err);
    }
    if (is_refusal(&why)) {
        *status = CONTINUE_NOT;
        return fail(turn, &why, err);
    }
    *err = why;
    return false;
}

static bool insert(struct turn *turn, enum continuation_state state, struct error *err)
{
    const struct stream_record_ref *record = &turn->record;

    id_make(turn->id);
    wakes_add(turn->wakes, "session:", turn->session.id);
    return STORE(turn->tx, &continuation_insert, NULL, NULL, err, V_TEXT(turn->id),
                 V_TEXT(turn->session.environment_id), V_TEXT(turn->session.id),
                 V_TEXT(record->record_id), V_TEXT(record->stream_id), V_INT(record->sequence),
                 V_TEXT(continuation_state_name(state)), V_INT(turn->now));
}

bool session_continue(struct tx *tx, const struct stream_record_ref *record,
                      enum continuation_status *status, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct turn turn = {
        .tx = tx, .arena = &arena, .wakes = wakes, .record = *record, .now = time_now_ms()};
    enum verdict verdict;
    struct rows rows;

    *status = CONTINUE_DUPLICATE;
    if (!task_session_hold(tx, record->session_id, &arena, &turn.session, err) ||
        !STORE(tx, &continuation_find, &arena, &rows, err, V_TEXT(record->record_id)))
        return false;
    if (rows.n_rows > 0)
        return true;
    *status = CONTINUE_NOT;
    if (!look(&turn, &verdict, err))
        return false;
    if (verdict == LEAVE)
        return true;
    if (!STORE(tx, &continuation_pending, &arena, &rows, err, V_TEXT(turn.session.id)))
        return false;
    /* The next run reads the oldest record first, and that is the one it has to be made for. */
    if (verdict == MAKE && rows.n_rows == 0)
        return insert(&turn, CONTINUATION_CLAIMED, err) && make(&turn, status, err);
    *status = CONTINUE_PENDING;
    return insert(&turn, CONTINUATION_ACCEPTED, err);
}

/* The session is not locked: its run is, and whoever appends waits for that. */
bool continuation_ask(struct tx *tx, const struct run_row *run, struct wakes *wakes,
                      struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct turn turn = {.tx = tx, .arena = &arena, .wakes = wakes, .now = time_now_ms()};
    struct rows rows;

    if (!STORE(tx, &session_unread, &arena, &rows, err, V_TEXT(run->session_id)))
        return false;
    if (rows.n_rows == 0)
        return true;
    turn.record = (struct stream_record_ref){
        .session_id = run->session_id,
        .record_id = row_text(&rows, 0, SESSION_UNREAD_ID),
        .stream_id = row_text(&rows, 0, SESSION_UNREAD_STREAM_ID),
        .sequence = row_int(&rows, 0, SESSION_UNREAD_SEQUENCE),
    };
    memcpy(turn.session.id, run->session_id, ID_TEXT);
    memcpy(turn.session.environment_id, run->environment_id, ID_TEXT);
    return STORE(tx, &continuation_forget, NULL, NULL, err, V_TEXT(turn.record.record_id)) &&
           insert(&turn, CONTINUATION_ACCEPTED, err);
}

static bool load(struct turn *turn, const char *id, struct error *err)
{
    struct rows rows;

    if (!STORE(turn->tx, &continuation_load, turn->arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_CONFLICT, "the continuation is gone");
    memcpy(turn->id, id, ID_TEXT);
    turn->record = (struct stream_record_ref){
        .session_id = row_text(&rows, 0, CONTINUATION_LOAD_SESSION_ID),
        .record_id = row_text(&rows, 0, CONTINUATION_LOAD_RECORD_ID),
        .stream_id = row_text(&rows, 0, CONTINUATION_LOAD_STREAM_ID),
        .sequence = row_int(&rows, 0, CONTINUATION_LOAD_SEQUENCE),
    };
    return task_session_hold(turn->tx, turn->record.session_id, turn->arena, &turn->session, err);
}

bool continuation_resolve(struct tx *tx, const char *id, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct turn turn = {.tx = tx, .arena = &arena, .wakes = wakes, .now = time_now_ms()};
    enum continuation_status status;
    enum verdict verdict;

    if (!load(&turn, id, err) || !look(&turn, &verdict, err))
        return false;
    wakes_add(wakes, "session:", turn.session.id);
    switch (verdict) {
    case MAKE: return make(&turn, &status, err);
    case HOLD: return move(&turn, CONTINUATION_CLAIM_OVER, V_NULL, V_NULL, err);
    case LEAVE: break;
    }
    return move(&turn, CONTINUATION_SKIP, V_NULL, V_NULL, err);
}
