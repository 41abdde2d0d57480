/* Starting a session, and waiting for its run. */
#include "base/hash.h"
#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "model/queue_score.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/page.h"
#include "server/run_object.h"
#include "server/run_start.h"
#include "server/task_session_object.h"
#include "server/task_session_store.h"

enum { METADATA_MAX = 64 * 1024, WAIT_DEFAULT_SECONDS = 30, WAIT_MAX_SECONDS = 300 };

struct session_spec {
    struct run_spec run;
    struct str external_id, expires_at, workspace_id;
    int64_t timeout_seconds;
    bool has_timeout;

    /* made from the above */
    int64_t expires_ms;      /* 0: never */
    char workspace[ID_TEXT]; /* "": a new one */
    uint8_t fingerprint[BLAKE2B_LEN];
};

#define FIELD(name)  offsetof(struct session_spec, name)
#define OPTION(name) offsetof(struct session_spec, run.options.name)

static const struct json_field start_fields[] = {
    {"task_id", JSON_TEXT, FIELD(run.task_id), REQUIRED, .max = 128},
    {"payload", JSON_RAW, FIELD(run.payload), OPTIONAL, .max = RUN_BODY_MAX,
     .present = FIELD(run.has_payload)},
    {"secrets", JSON_MAP, FIELD(run.secrets), OPTIONAL, .max = RUN_SECRETS_MAX},
    {"external_id", JSON_TEXT, FIELD(external_id), OPTIONAL, .max = 512},
    {"expires_at", JSON_TEXT, FIELD(expires_at), OPTIONAL, .max = 64},
    {"workspace_id", JSON_TEXT, FIELD(workspace_id), OPTIONAL, .max = 64},
    {"queue", JSON_OBJ, OPTION(queue), OPTIONAL, .fields = run_queue_fields},
    {"concurrency_key", JSON_TEXT, OPTION(concurrency_key), OPTIONAL, .max = 512},
    {"priority", JSON_INTEGER, OPTION(priority), OPTIONAL, .min = -PRIORITY_MAX,
     .max = PRIORITY_MAX},
    {"ttl", JSON_RAW, OPTION(ttl), OPTIONAL, .max = 256},
    {"max_duration_seconds", JSON_INTEGER, OPTION(max_duration_seconds), OPTIONAL,
     .min = RUN_DURATION_MIN, .max = RUN_DURATION_MAX, .present = OPTION(has_max_duration)},
    {"retry", JSON_RAW, OPTION(retry), OPTIONAL, .max = 4096},
    {"metadata", JSON_RAW, OPTION(metadata), OPTIONAL, .max = METADATA_MAX},
    {"tags", JSON_LIST, OPTION(tags), OPTIONAL, .max = 32},
    {"timeout_seconds", JSON_INTEGER, FIELD(timeout_seconds), OPTIONAL, .min = 1,
     .max = WAIT_MAX_SECONDS, .present = FIELD(has_timeout)},
    {0},
};

static void make_fingerprint(struct session_spec *spec)
{
    uint8_t run[BLAKE2B_LEN];
    const struct str pieces[] = {
        {(const char *)run,               sizeof run             },
        str_of(spec->workspace),
        {(const char *)&spec->expires_ms, sizeof spec->expires_ms},
    };

    run_spec_fingerprint(&spec->run, run);
    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), spec->fingerprint);
}

static bool read_spec(struct call *call, bool waits, struct session_spec *spec, struct error *err)
{
    if (!json_read(call->request->body, start_fields, spec, sizeof *spec, call->arena, err))
        return false;
    if (spec->has_timeout && !waits)
        return error_set(err, ERR_UNKNOWN_FIELD, "/timeout_seconds is of start-and-wait");
    if (!run_spec_complete(&spec->run, call->arena, err))
        return false;
    run_spec_read_versions(call, &spec->run);
    if (spec->external_id.ptr && !name_check(NAME_EXTERNAL, "external_id", spec->external_id, err))
        return false;
    if (spec->expires_at.ptr && !time_parse(spec->expires_at, &spec->expires_ms, err))
        return error_wrap(err, "/expires_at");
    if (spec->workspace_id.ptr && !id_parse(spec->workspace_id, spec->workspace))
        return error_set(err, ERR_INVALID, "/workspace_id must be an id");
    make_fingerprint(spec);
    return true;
}

/* A start on its way. */
struct session_start {
    struct call *call;
    struct tx *tx;
    struct session_spec spec;
    struct run_start start;
    struct wakes wakes;
    char session_id[ID_TEXT], run_id[ID_TEXT]; /* that are answered with */
    bool is_cached;
};

/* The session that has the name already, if the same was asked of it and it goes on. */
static bool find_named(struct session_start *start, struct error *err)
{
    const struct session_spec *spec = &start->spec;
    struct str fingerprint = {(const char *)spec->fingerprint, sizeof spec->fingerprint};
    struct session_row session;
    struct rows rows;

    if (!spec->external_id.ptr)
        return true;
    if (!STORE(start->tx, &session_find_external, start->call->arena, &rows, err,
               V_TEXT(call_environment(start->call)), V_STR(spec->external_id)))
        return false;
    if (rows.n_rows == 0)
        return true;
    row_id(&rows, 0, SESSION_FIND_EXTERNAL_ID, start->session_id);
    if (!task_session_load(start->tx, start->session_id, start->call->arena, &session, err) ||
        !task_session_is_open(&session, start->start.now, err))
        return false;
    if (!session.fingerprint.ptr || !str_equal(session.fingerprint, fingerprint))
        return error_set(err, ERR_SESSION_MISMATCH,
                         "the session with this external_id was started with other parameters");
    if (!session.current_run_id[0])
        return error_set(err, ERR_SESSION_WITHOUT_RUN, "the session has no run");
    memcpy(start->run_id, session.current_run_id, ID_TEXT);
    start->is_cached = true;
    return true;
}

/* A call that waits is run again whenever it is woken. It knows its session by the id of the
 * request, which is as unique as any and stays the same. */
static bool find_own(struct session_start *start, struct error *err)
{
    struct rows rows;

    if (!STORE(start->tx, &session_run_ids, start->call->arena, &rows, err, V_TEXT(start->call->id),
               V_INT(-1), V_INT(1)))
        return false;
    if (rows.n_rows == 0)
        return true;
    memcpy(start->session_id, start->call->id, ID_TEXT);
    row_id(&rows, 0, SESSION_RUN_IDS_ID, start->run_id);
    return true;
}

static void fill_start(struct session_start *start)
{
    const struct session_spec *spec = &start->spec;
    struct run_start *run = &start->start;

    run->tx = start->tx;
    run->session = (struct session_terms){
        .external_id = spec->external_id,
        .metadata = spec->run.metadata,
        .tags = spec->run.tags,
        .fingerprint = {(const char *)spec->fingerprint, sizeof spec->fingerprint},
        .expires_ms = spec->expires_ms,
    };
    memcpy(run->session_id, start->call->id, ID_TEXT);
    memcpy(start->session_id, run->session_id, ID_TEXT);
    memcpy(start->run_id, run->run_id, ID_TEXT);
    if (spec->workspace[0]) {
        run->joins_workspace = true;
        memcpy(run->workspace_id, spec->workspace, ID_TEXT);
    }
}

static bool make(struct session_start *start, struct error *err)
{
    if (start->spec.expires_ms && start->spec.expires_ms <= start->start.now)
        return error_set(err, ERR_INVALID, "/expires_at must be in the future");
    fill_start(start);
    return run_start_prepare(&start->start, err) &&
           run_start_insert(&start->start, &start->wakes, err) &&
           audit_call(start->tx, start->call, "session.start", str_of(start->session_id), err);
}

/* Read back, so that a session that was there is shown as a new one is. */
static bool answer(struct session_start *start, const char *timed_out, struct response *res,
                   struct error *err)
{
    struct arena *arena = start->call->arena;
    struct value environment = V_TEXT(call_environment(start->call));
    struct rows session, run;

    if (!STORE(start->tx, &session_get, arena, &session, err, environment,
               V_TEXT(start->session_id)) ||
        !STORE(start->tx, &run_get, arena, &run, err, environment, V_TEXT(start->run_id)))
        return false;
    if (session.n_rows == 0 || run.n_rows == 0)
        return error_set(err, ERR_GONE, "the session is gone");
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    session_object_write(&json, "session", &session, 0, start->start.now);
    if (!run_object_show(start->tx, &json, "run", &run, 0, arena, err))
        return false;
    json_bool(&json, "is_cached", start->is_cached);
    if (timed_out)
        json_raw(&json, "timed_out", str_of(timed_out));
    json_close(&json);
    response_json(res, start->is_cached || timed_out ? 200 : 201);
    return json_end(&json, err);
}

static bool begin(struct call *call, bool waits, struct session_start *start, struct error *err)
{
    *start = (struct session_start){.call = call};
    start->start = (struct run_start){
        .arena = call->arena,
        .environment_id = call_environment(call),
        .spec = &start->spec.run,
        .reason = "api",
        .now = time_now_ms(),
    };
    run_start_make_ids(&start->start);
    return read_spec(call, waits, &start->spec, err);
}

/* A refusal that names what is missing is an answer of its own. */
static bool refuse(const struct session_start *start, struct response *res, const struct error *err)
{
    if (!start->start.secrets.missing.ptr)
        return false;
    response_error(res, err, start->start.secrets.missing);
    return true;
}

bool session_create(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct session_start *start = arena_alloc(call->arena, sizeof *start);
    AUTO_TX tx = NULL;

    if (!begin(call, false, start, err) || !store_begin(server->store, &tx, err))
        return false;
    start->tx = tx;
    if (!find_named(start, err))
        return false;
    if (!start->is_cached && !make(start, err))
        return refuse(start, res, err);
    return answer(start, NULL, res, err) && hub_commit(&server->hub, &tx, &start->wakes, err);
}

static bool is_over(struct session_start *start, bool *over, struct error *err)
{
    enum run_state state;
    struct rows rows;

    if (!STORE(start->tx, &run_progress, start->call->arena, &rows, err, V_TEXT(start->run_id)))
        return false;
    *over = rows.n_rows == 0 || (run_state_parse(row_str(&rows, 0, RUN_PROGRESS_STATE), &state) &&
                                 run_state_is_final(state));
    return true;
}

static bool wait_for_run(struct session_start *start, struct response *res, struct error *err)
{
    const struct session_spec *spec = &start->spec;
    int64_t seconds = spec->has_timeout ? spec->timeout_seconds : WAIT_DEFAULT_SECONDS;
    bool over;

    if (!is_over(start, &over, err))
        return false;
    if (over || start->call->is_last_try)
        return answer(start, over ? "false" : "true", res, err);
    response_park(res, arena_printf(start->call->arena, "run:%s", start->run_id), seconds * 1000);
    return true;
}

/* Whether it was started when the call was run before; then it is waited for. */
static bool wait_again(struct session_start *start, bool *found, struct response *res,
                       struct error *err)
{
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(start->call)->store, &tx, err))
        return false;
    start->tx = tx;
    if (!find_own(start, err))
        return false;
    *found = start->session_id[0];
    return !*found || wait_for_run(start, res, err);
}

bool session_start_and_wait(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct session_start *start = arena_alloc(call->arena, sizeof *start);
    bool found = false;
    AUTO_TX tx = NULL;

    if (!begin(call, true, start, err) || !wait_again(start, &found, res, err))
        return false;
    if (found)
        return true;
    if (!store_begin(server->store, &tx, err))
        return false;
    start->tx = tx;
    if (!find_named(start, err))
        return false;
    if (!start->is_cached && !make(start, err))
        return refuse(start, res, err);
    return wait_for_run(start, res, err) && hub_commit(&server->hub, &tx, &start->wakes, err);
}
