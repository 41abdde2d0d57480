#include "server/task_session_store.h"

#include <string.h>

#include "server/caller.h"
#include "server/run_stop.h"
#include "store/queries.h"

static const char by_external_id[] = "/by-external-id";

bool task_session_load(struct tx *tx, const char *id, struct arena *arena,
                       struct session_row *session, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &session_load, arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_SESSION_NOT_FOUND, "there is no session %s", id);
    *session = (struct session_row){
        .expires_ms = row_int(&rows, 0, SESSION_LOAD_EXPIRES_MS),
        .task_id = row_str(&rows, 0, SESSION_LOAD_TASK_ID),
        .metadata = row_str(&rows, 0, SESSION_LOAD_METADATA),
        .fingerprint = row_str(&rows, 0, SESSION_LOAD_START_FINGERPRINT),
        .request = row_str(&rows, 0, SESSION_LOAD_REQUEST),
    };
    row_id(&rows, 0, SESSION_LOAD_ID, session->id);
    row_id(&rows, 0, SESSION_LOAD_ENVIRONMENT_ID, session->environment_id);
    row_id(&rows, 0, SESSION_LOAD_WORKSPACE_ID, session->workspace_id);
    row_id(&rows, 0, SESSION_LOAD_ACTIVE_DEPLOYMENT_ID, session->active_deployment_id);
    row_id(&rows, 0, SESSION_LOAD_CURRENT_RUN_ID, session->current_run_id);
    return session_state_parse(row_str(&rows, 0, SESSION_LOAD_STATUS), &session->state) ||
           error_set(err, ERR_INTERNAL, "session %s is in no known state", id);
}

bool task_session_hold(struct tx *tx, const char *id, struct arena *arena,
                       struct session_row *session, struct error *err)
{
    return STORE(tx, &session_lock, NULL, NULL, err, V_TEXT(id)) &&
           task_session_load(tx, id, arena, session, err);
}

bool task_session_is_open(const struct session_row *session, int64_t now, struct error *err)
{
    bool is_due = session->expires_ms && session->expires_ms <= now;

    if (session->state == SESSION_EXPIRED || (session->state == SESSION_OPEN && is_due))
        return error_set(err, ERR_SESSION_EXPIRED, "the session has expired");
    return session->state == SESSION_OPEN ||
           error_set(err, ERR_SESSION_TERMINAL, "the session is %s",
                     session_state_name(session->state));
}

static bool is_by_external_id(const struct call *call)
{
    return strstr(call->match.route->pattern, by_external_id);
}

bool task_session_in(struct call *call, struct tx *tx, const char *environment_id, char id[ID_TEXT],
                     struct error *err)
{
    struct value environment = V_TEXT(environment_id);
    struct str external_id = {0};
    bool found = true;
    struct rows rows;

    if (is_by_external_id(call)) {
        if (!call_query(call, "external_id", &external_id, &found, err))
            return false;
        if (!found || external_id.len == 0)
            return error_set(err, ERR_INVALID, "external_id must be given");
        if (!STORE(tx, &session_find_external, call->arena, &rows, err, environment,
                   V_STR(external_id)))
            return false;
    } else if (!id_parse(call_param(call, 0), id)) {
        return error_set(err, ERR_SESSION_NOT_FOUND, "there is no such session");
    } else if (!STORE(tx, &session_find, call->arena, &rows, err, environment, V_TEXT(id))) {
        return false;
    }
    if (rows.n_rows == 0)
        return error_set(err, ERR_SESSION_NOT_FOUND, "there is no such session");
    row_id(&rows, 0, SESSION_FIND_ID, id);
    return true;
}

bool task_session_of_call(struct call *call, struct tx *tx, char id[ID_TEXT], struct error *err)
{
    return task_session_in(call, tx, call_environment(call), id, err);
}

struct str task_session_param(const struct call *call, size_t index)
{
    return call_param(call, is_by_external_id(call) ? index : index + 1);
}

/* Its run, locked after the session; *is_live false when it has none or that is over. */
static bool hold_run(const struct session_ending *ending, const struct session_row *session,
                     struct run_row *run, bool *is_live, struct error *err)
{
    *is_live = false;
    if (!session->current_run_id[0])
        return true;
    if (!STORE(ending->tx, &run_lock, NULL, NULL, err, V_TEXT(session->current_run_id)) ||
        !run_row_load(ending->tx, session->current_run_id, ending->arena, run, err))
        return false;
    *is_live = !run_state_is_final(run->state);
    return true;
}

static bool may_close(const struct session_ending *ending, const struct session_row *session,
                      bool run_is_live, struct error *err)
{
    struct rows rows;

    if (run_is_live)
        return error_set(err, ERR_CLOSE_RUN_ACTIVE, "the session's run is not over");
    if (!STORE(ending->tx, &continuation_pending, ending->arena, &rows, err, V_TEXT(session->id)))
        return false;
    return rows.n_rows == 0 ||
           error_set(err, ERR_CLOSE_RUN_ACTIVE, "the session is about to go on with a new run");
}

static bool end_run(const struct session_ending *ending, const struct run_row *run,
                    struct wakes *wakes, struct error *err)
{
    struct run_stop stop = {
        .server = ending->server,
        .tx = ending->tx,
        .arena = ending->arena,
        .run = *run,
        .reason = ending->reason.ptr             ? ending->reason
                  : ending->on == SESSION_EXPIRE ? STR("the session has expired")
                                                 : STR("the session was cancelled"),
        .by = ending->by,
        .source = ending->source,
        .now = ending->now,
    };

    id_make(stop.operation_id);
    return run_stop(&stop, wakes, err);
}

bool task_session_end(const struct session_ending *ending, struct session_row *session,
                      struct wakes *wakes, struct error *err)
{
    enum session_state after = session->state;
    struct run_row run;
    struct rows rows;
    bool is_live;

    if (!session_state_apply(&after, ending->on))
        return error_set(err, ERR_SESSION_TERMINAL, "the session is %s",
                         session_state_name(session->state));
    if (!hold_run(ending, session, &run, &is_live, err))
        return false;
    if (ending->on == SESSION_CLOSE && !may_close(ending, session, is_live, err))
        return false;
    if (is_live && !end_run(ending, &run, wakes, err))
        return false;
    if (!STORE(ending->tx, &session_end, ending->arena, &rows, err, V_TEXT(session->id),
               V_TEXT(session_state_name(session->state)), V_TEXT(session_state_name(after)),
               V_STR_OR_NULL(ending->reason),
               after == SESSION_EXPIRED ? V_INT(ending->now) : V_NULL, V_INT(ending->now)))
        return false;
    if (rows.n_changed != 1)
        return store_lost_race(err, "the session moved meanwhile");
    session->state = after;
    wakes_add(wakes, "session:", session->id);
    wakes_add(wakes, "env:", session->environment_id);
    return true;
}
