#include "server/fork.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/time.h"
#include "model/name.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/handlers.h"
#include "server/idempotency.h"
#include "server/input.h"
#include "server/json_row.h"
#include "server/page.h"
#include "server/run_object.h"
#include "server/stream_append.h"
#include "server/stream_wait.h"
#include "server/task_session_object.h"
#include "server/token_answer.h"
#include "server/token_object.h"
#include "server/wait_object.h"
#include "store/queries.h"

enum { METADATA_MAX = 64 * 1024, PARK_WAIT_MS = 10 * 1000, BY_MAX = 4096 };

struct fork_body {
    struct str wait_id, data, external_id, metadata, idempotency_key, idempotency_key_ttl;
    struct key_origin idempotency_key_options;
    struct json_list tags;
    bool has_data, has_tags;
};

static const struct json_field fork_fields[] = {
    {"wait_id", JSON_TEXT, offsetof(struct fork_body, wait_id), OPTIONAL, .max = 64},
    {"data", JSON_RAW, offsetof(struct fork_body, data), OPTIONAL, .max = WAIT_DATA_MAX,
     .present = offsetof(struct fork_body, has_data)},
    {"external_id", JSON_TEXT, offsetof(struct fork_body, external_id), OPTIONAL, .max = 512},
    {"metadata", JSON_RAW, offsetof(struct fork_body, metadata), OPTIONAL, .max = METADATA_MAX},
    {"tags", JSON_LIST, offsetof(struct fork_body, tags), OPTIONAL, .max = 32,
     .present = offsetof(struct fork_body, has_tags)},
    {"idempotency_key", JSON_TEXT, offsetof(struct fork_body, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct fork_body, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct fork_body, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

/* A fork as it is asked for. */
struct forking {
    struct call *call;
    struct fork_body body;
    struct str data;
    struct fork fork;
    struct wakes wakes;
    const char *topic;  /* to wait on until the source is parked; NULL: nothing to wait for */
    struct str details; /* of a refusal */
};

static bool read_request(struct forking *forking, struct error *err)
{
    struct call *call = forking->call;
    struct fork_body *body = &forking->body;
    struct fork *fork = &forking->fork;

    if (!call_body(call, fork_fields, body, sizeof *body, err) ||
        (body->external_id.ptr &&
         !name_check(NAME_EXTERNAL, "external_id", body->external_id, err)) ||
        (body->idempotency_key.ptr &&
         !name_check(NAME_EXTERNAL, "idempotency_key", body->idempotency_key, err)) ||
        (body->metadata.ptr && !input_object(body->metadata, "metadata", METADATA_MAX, call->arena,
                                             &fork->metadata, err)) ||
        (body->has_tags &&
         !input_tags(body->tags.items, body->tags.n, call->arena, &fork->tags, err)))
        return false;
    fork->external_id = body->external_id;
    fork->sdk_version = input_version(call_header(call, STR("helmr-sdk-version")));
    fork->cli_version = input_version(call_header(call, STR("helmr-cli-version")));
    return !body->has_data || token_data(body->data, call->arena, &forking->data, err);
}

static bool load_run(struct forking *forking, const char *id, struct error *err)
{
    struct fork *fork = &forking->fork;

    if (!STORE(fork->tx, &run_lock, NULL, NULL, err, V_TEXT(id)) ||
        !run_row_load(fork->tx, id, fork->arena, &fork->run, err))
        return false;
    return strcmp(fork->run.environment_id, call_environment(forking->call)) == 0 ||
           error_set(err, ERR_NOT_FOUND, "there is no run %s", id);
}

static bool load_wait(struct forking *forking, struct error *err)
{
    struct fork *fork = &forking->fork;
    char named[ID_TEXT];
    const char *id = named;
    struct rows rows;

    if (forking->body.wait_id.ptr && !id_parse(forking->body.wait_id, named))
        return error_set(err, ERR_INVALID, "/wait_id must be an id");
    if (!forking->body.wait_id.ptr) {
        if (!STORE(fork->tx, &fork_wait_find, fork->arena, &rows, err, V_TEXT(fork->run.id)))
            return false;
        if (rows.n_rows == 0)
            return error_set(err, ERR_WAIT_NOT_FORKABLE, "the run has not waited for anything");
        id = row_text(&rows, 0, FORK_WAIT_FIND_ID);
    }
    if (!wait_load(fork->tx, id, fork->arena, &fork->wait, err))
        return false;
    return strcmp(fork->wait.run_id, fork->run.id) == 0 ||
           error_set(err, ERR_NOT_FOUND, "there is no wait %s of this run", id);
}

/* A sandbox that still lives is parked first, and the call waits for that. */
static bool wait_for_park(struct forking *forking, struct error *err)
{
    struct fork *fork = &forking->fork;
    struct rows rows;

    if (!STORE(fork->tx, &fork_engine, fork->arena, &rows, err, V_TEXT(fork->run.id)))
        return false;
    if (rows.n_rows == 1 && row_is_null(&rows, 0, FORK_ENGINE_COMPAT))
        return error_set(err, ERR_NO_CHECKPOINTS,
                         "the engine of the run's worker makes no checkpoints");
    if (forking->call->is_last_try)
        return error_set(err, ERR_CHECKPOINT_UNAVAILABLE,
                         "the run is not parked yet; try again in a moment");
    forking->topic = arena_printf(fork->arena, "run:%s", fork->run.id);
    return true;
}

static bool load_checkpoint(struct forking *forking, struct error *err)
{
    struct fork *fork = &forking->fork;
    const struct wait_row *wait = &fork->wait;
    bool is_hot =
        wait->suspension == SUSPENSION_HOT || wait->suspension == SUSPENSION_CHECKPOINTING;

    if (is_hot && wait_is_live(wait))
        return error_set(err, ERR_WAIT_NOT_FORKABLE,
                         "the program listens as it runs, and is not stopped for that");
    if (is_hot && wait->condition == WAIT_PENDING)
        return wait_for_park(forking, err);
    if (!wait->checkpoint_id[0])
        return error_set(err, ERR_CHECKPOINT_UNAVAILABLE, "the run was never parked at this wait");
    if (!checkpoint_load(fork->tx, wait->checkpoint_id, fork->arena, &fork->checkpoint, err))
        return false;
    if (fork->checkpoint.state != CHECKPOINT_READY)
        return error_set(err, ERR_CHECKPOINT_UNAVAILABLE, "the checkpoint of this wait is %s",
                         checkpoint_state_name(fork->checkpoint.state));
    if (fork->checkpoint.can_fork)
        return true;
    forking->details = STR("{\"reason\":\"shared_entropy\"}");
    return error_set(
        err, ERR_WAIT_NOT_FORKABLE,
        "the program cannot be given new entropy: branches would share random numbers");
}

static bool write_by(const struct call *call, struct buf *out, struct error *err)
{
    const struct audit_entry who = audit_entry_of(call, "run.fork");
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "type", who.actor_type);
    json_string(&json, "id", who.actor_id);
    if (who.actor_name && *who.actor_name)
        json_string(&json, "name", who.actor_name);
    json_close(&json);
    return json_end(&json, err);
}

/* As if somebody had sent it to the branch. */
static bool send_record(struct forking *forking, struct error *err)
{
    struct fork *fork = &forking->fork;
    char by[STREAM_BY_TEXT];
    struct stream_entry entry = {.written_by = by};
    struct stream_appended made;
    struct stream_want want;
    struct stream_ref ref;

    caller_label(caller_of(forking->call), by);
    if (!stream_want_of(fork->wait.params, fork->arena, &want, err))
        return false;
    entry.correlation_id = want.correlation_id;
    return stream_ref_make(fork->run.environment_id, fork->session_id, want.stream, STREAM_INPUT,
                           &ref, err) &&
           stream_entry_read(forking->data, fork->arena, &entry, err) &&
           stream_append(fork->tx, &ref, &entry, fork->arena, &made, fork->wakes, err);
}

/* The branch is answered at once: by its token, by a record, or where there is neither by the data
 * itself. */
static bool answer_branch(struct forking *forking, struct error *err)
{
    struct fork *fork = &forking->fork;
    AUTO(buf_finish) struct buf text = {.max = WAIT_DECISION_MAX + BY_MAX};
    struct token_hold hold;
    struct wait_row wait;
    bool already;

    if (!forking->body.has_data)
        return true;
    if (fork->token_id[0])
        return write_by(forking->call, &text, err) &&
               token_hold(fork->tx, fork->token_id, fork->arena, &hold, err) &&
               token_complete(fork->tx, &hold, forking->data, buf_str(&text), &already, fork->wakes,
                              err);
    if (fork->wait.kind == WAIT_STREAM)
        return send_record(forking, err);
    return wait_load(fork->tx, fork->wait_id, fork->arena, &wait, err) &&
           wait_decision(CONDITION_COMPLETE, forking->data, (struct str){0}, &text, err) &&
           wait_settle(fork->tx, &wait, CONDITION_COMPLETE, buf_str(&text), fork->wakes, err);
}

static bool claim_key(struct forking *forking, const char *source, char first[ID_TEXT],
                      struct error *err)
{
    struct fork *fork = &forking->fork;
    struct idempotency claim = {
        .environment_id = call_environment(forking->call),
        .route = "POST /api/runs/:run/fork",
        .key = forking->body.idempotency_key,
        .subject_id = fork->run_id,
        .now = fork->now,
        .ttl_ms = DAY_MS,
    };
    const struct str pieces[] = {
        str_of(source),    forking->body.wait_id, forking->body.has_data ? forking->data : STR(""),
        fork->external_id, fork->metadata,        fork->tags};
    struct blake2b state;

    first[0] = '\0';
    if (!claim.key.ptr)
        return true;
    blake2b_init(&state, (struct str){0});
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        uint64_t len = pieces[i].len;
        blake2b_update(&state, (struct str){(const char *)&len, sizeof len});
        blake2b_update(&state, pieces[i]);
    }
    blake2b_final(&state, claim.fingerprint);
    return input_key_ttl(forking->body.idempotency_key_ttl, &claim.ttl_ms, err) &&
           idempotency_claim_key(fork->tx, &claim, fork->arena, first, err);
}

/* Read back, for a branch that was made just now and for one that its key made before. */
static bool answer(struct forking *forking, const char *run_id, int status, struct response *res,
                   struct error *err)
{
    struct fork *fork = &forking->fork;
    struct value environment = V_TEXT(call_environment(forking->call));
    struct rows run, session, waits, token = {0};

    if (!STORE(fork->tx, &run_get, fork->arena, &run, err, environment, V_TEXT(run_id)))
        return false;
    if (run.n_rows == 0)
        return error_set(err, ERR_GONE, "the branch of this idempotency key is gone");
    if (!STORE(fork->tx, &session_get, fork->arena, &session, err, environment,
               V_STR(row_str(&run, 0, RUN_GET_SESSION_ID))) ||
        !STORE(fork->tx, &wait_list, fork->arena, &waits, err, environment, V_TEXT(run_id)))
        return false;
    bool has_token = waits.n_rows > 0 && !row_is_null(&waits, 0, WAIT_LIST_TOKEN_ID);
    if (has_token && !STORE(fork->tx, &token_get, fork->arena, &token, err, environment,
                            V_STR(row_str(&waits, 0, WAIT_LIST_TOKEN_ID))))
        return false;
    struct json_writer json = json_begin(response_body(res));
    json_open(&json, NULL);
    session_object_write(&json, "session", &session, 0, fork->now);
    run_object_write(&json, "run", &run, 0, status == 200);
    if (waits.n_rows > 0)
        wait_object_write(&json, "wait", &waits, 0);
    if (token.n_rows > 0 &&
        !token_object_write_whole(&json, "token", fork->server, &token, false, fork->arena, err))
        return false;
    json_close(&json);
    response_json(res, status);
    return json_end(&json, err);
}

static bool make_branch(struct forking *forking, struct response *res, struct error *err)
{
    struct fork *fork = &forking->fork;

    return fork_copy(fork, err) && answer_branch(forking, err) &&
           answer(forking, fork->run_id, 201, res, err) &&
           audit_call(fork->tx, forking->call, "run.fork", str_of(fork->run.id), err) &&
           hub_commit(&fork->server->hub, &fork->tx, fork->wakes, err);
}

/* Either the branch, or what to wait for, or a refusal. */
static bool do_fork(struct forking *forking, const char *source, struct response *res,
                    struct error *err)
{
    struct fork *fork = &forking->fork;
    char first[ID_TEXT];

    if (!store_begin(fork->server->store, &fork->tx, err) ||
        !claim_key(forking, source, first, err))
        return false;
    if (first[0])
        return answer(forking, first, 200, res, err) && store_commit(&fork->tx, err);
    if (!load_run(forking, source, err) || !load_wait(forking, err) ||
        !load_checkpoint(forking, err))
        return false;
    return forking->topic || make_branch(forking, res, err);
}

/* In a transaction of its own: nothing that was claimed for the branch is kept meanwhile. */
static bool ask_to_park(struct forking *forking, struct response *res, struct error *err)
{
    struct fork *fork = &forking->fork;
    char source[ID_TEXT];

    memcpy(source, fork->run.id, sizeof source);
    store_rollback(&fork->tx);
    if (!store_begin(fork->server->store, &fork->tx, err) || !load_run(forking, source, err) ||
        !load_wait(forking, err))
        return false;
    if (fork->wait.suspension == SUSPENSION_HOT &&
        !resume_ask_to_park(fork->tx, &fork->wait, fork->arena, fork->wakes, err))
        return false;
    response_park(res, forking->topic, PARK_WAIT_MS);
    return hub_commit(&fork->server->hub, &fork->tx, fork->wakes, err);
}

bool run_fork(struct call *call, struct response *res, struct error *err)
{
    struct forking *forking = arena_alloc(call->arena, sizeof *forking);
    struct fork *fork = &forking->fork;
    char source[ID_TEXT];

    *forking = (struct forking){.call = call};
    fork->server = server_of(call);
    fork->arena = call->arena;
    fork->wakes = &forking->wakes;
    fork->now = time_now_ms();
    id_make(fork->run_id);
    if (!call_id(call, 0, source, err) || !read_request(forking, err))
        return false;
    bool fine =
        do_fork(forking, source, res, err) && (!forking->topic || ask_to_park(forking, res, err));
    store_rollback(&fork->tx);
    if (fine || !forking->details.ptr)
        return fine;
    response_error(res, err, forking->details);
    return true;
}
