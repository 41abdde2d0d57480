/* What a program asks of the server while it runs. Each operation is done once: asked again by
 * the same lease, it gets the answer of the first time. */
#include <stdio.h>

#include "base/encode.h"
#include "base/hash.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/run_ops.h"
#include "server/stream_wait.h"
#include "server/token_object.h"
#include "server/token_store.h"
#include "server/wait_open.h"
#include "server/worker_plane.h"

enum { HASH_TEXT = 2 * BLAKE2B_LEN + 1, OPERATION_TEXT = 32, REFUSAL_MAX = 4096 };

static void answer_wait(const struct wait_row *wait, struct wire_op_result *result)
{
    result->ok = true;
    if (wait->condition != WAIT_PENDING) {
        result->body = wait->decision;
        return;
    }
    result->wait_id = str_of(wait->id);
    result->park_at_ms = wait->park_at_ms;
    result->is_live = wait_is_live(wait);
}

static bool do_wait_open(struct asked *asked, const struct wire_op *op,
                         struct wire_op_result *result, char subject[ID_TEXT], struct error *err)
{
    struct wait_row *wait = arena_alloc(asked->call->arena, sizeof *wait);
    const struct opening opening = {
        .server = asked->server,
        .tx = asked->tx,
        .lease = &asked->lease,
        .run = &asked->run,
        .arena = asked->call->arena,
        .wakes = &asked->wakes,
        .op = op->op,
    };

    if (!wait_open(&opening, op->body, wait, err))
        return false;
    memcpy(subject, wait->id, ID_TEXT);
    answer_wait(wait, result);
    return true;
}

static bool wait_open_again(struct asked *asked, const char *subject, struct wire_op_result *result,
                            struct error *err)
{
    struct wait_row *wait = arena_alloc(asked->call->arena, sizeof *wait);

    if (!wait_load(asked->tx, subject, asked->call->arena, wait, err))
        return false;
    answer_wait(wait, result);
    return true;
}

static bool show_token(struct asked *asked, const char *id, struct wire_op_result *result,
                       struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = WIRE_OP_BODY_MAX};
    struct json_writer json = json_begin(&text);
    struct arena *arena = asked->call->arena;
    struct rows rows;

    if (!STORE(asked->tx, &token_get, arena, &rows, err, V_TEXT(asked->run.environment_id),
               V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_TOKEN_NOT_FOUND, "there is no token %s", id);
    if (!token_object_write_whole(&json, NULL, asked->server, &rows, false, arena, err) ||
        !json_end(&json, err))
        return false;
    result->ok = true;
    result->body = arena_str(arena, buf_str(&text));
    return true;
}

static bool do_token_create(struct asked *asked, const struct wire_op *op,
                            struct wire_op_result *result, char subject[ID_TEXT], struct error *err)
{
    struct arena *arena = asked->call->arena;
    struct token_request request;
    bool is_cached;

    return json_read(op->body, token_request_fields, &request, sizeof request, arena, err) &&
           token_request_do(asked->server, asked->tx, asked->run.environment_id, asked->run.id,
                            &request, arena, subject, &is_cached, err) &&
           show_token(asked, subject, result, err);
}

static bool token_create_again(struct asked *asked, const char *subject,
                               struct wire_op_result *result, struct error *err)
{
    return show_token(asked, subject, result, err);
}

/* Without `again`: it changes nothing that doing it once more would change, and is not kept. */
static const struct kind {
    struct str name;
    operation *act;
    operation_again *again;
} kinds[] = {
    {STR("wait.open"),          do_wait_open,          wait_open_again    },
    {STR("wait.cancel"),        do_wait_cancel,        NULL               },
    {STR("token.create"),       do_token_create,       token_create_again },
    {STR("stream.append"),      do_stream_append,      stream_append_again},
    {STR("stream.read"),        do_stream_read,        NULL               },
    {STR("stream.list"),        do_stream_list,        NULL               },
    {STR("metadata.set"),       do_metadata_set,       said_again         },
    {STR("metadata.patch"),     do_metadata_patch,     said_again         },
    {STR("metadata.increment"), do_metadata_increment, said_again         },
    {STR("event.emit"),         do_event_emit,         said_again         },
};

static const struct kind *find_kind(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_equal(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

/* Errors that are the program's and found before anything was written; the others fail the call
 * and are tried again by the worker. */
static bool is_refusal(const struct error *err)
{
    static const enum error_code codes[] = {
        ERR_INVALID,          ERR_INVALID_JSON,     ERR_UNKNOWN_FIELD,
        ERR_TOO_LARGE,        ERR_UNSUPPORTED,      ERR_TOKEN_NOT_FOUND,
        ERR_CONCURRENT_WAIT,  ERR_CANCELLED,        ERR_IDEMPOTENCY_MISMATCH,
        ERR_STREAM_NOT_FOUND, ERR_STREAM_DIRECTION, ERR_SESSION_TERMINAL,
    };

    for (size_t i = 0; i < COUNT_OF(codes); i++)
        if (err->code == codes[i])
            return true;
    return false;
}

static bool refuse(struct asked *asked, const struct error *why, struct wire_op_result *result,
                   struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = REFUSAL_MAX};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "code",
                why->code == ERR_UNSUPPORTED ? "unsupported" : error_wire_name(why->code));
    json_string(&json, "message", why->text);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    result->ok = false;
    result->body = arena_str(asked->call->arena, buf_str(&text));
    return true;
}

static bool perform(struct asked *asked, const struct wire_op *op, const struct kind *kind,
                    struct wire_op_result *result, char subject[ID_TEXT], struct error *err)
{
    struct error why;

    if (!kind) {
        error_set(&why, ERR_UNSUPPORTED, "there is no operation %.*s", (int)op->kind.len,
                  op->kind.ptr);
        return refuse(asked, &why, result, err);
    }
    if (kind->act(asked, op, result, subject, &why))
        return true;
    if (is_refusal(&why))
        return refuse(asked, &why, result, err);
    *err = why;
    return false;
}

static void fingerprint_of(const struct wire_op *op, char text[HASH_TEXT])
{
    const struct str pieces[] = {op->kind, op->body};
    uint8_t hash[BLAKE2B_LEN];

    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), hash);
    hex_encode((struct str){(const char *)hash, sizeof hash}, text);
}

static bool answer_again(struct asked *asked, const struct rows *rows, const struct kind *kind,
                         const char *fingerprint, struct wire_op_result *result, struct error *err)
{
    struct str answer = row_str(rows, 0, LEASE_OPERATION_FIND_ANSWER);

    if (!str_equal(row_str(rows, 0, LEASE_OPERATION_FIND_FINGERPRINT), str_of(fingerprint)))
        return error_set(err, ERR_CONFLICT, "operation %lld was another one before",
                         (long long)result->op);
    if (kind && answer.len == ID_LEN)
        return kind->again(asked, answer.ptr, result, err);
    result->ok = false;
    result->body = answer;
    return true;
}

/* A refusal is kept as it was said, anything else as the id of what it made. */
static bool do_one(struct asked *asked, const struct wire_op *op, struct wire_op_result *result,
                   struct error *err)
{
    const struct kind *kind = find_kind(op->kind);
    char name[OPERATION_TEXT], fingerprint[HASH_TEXT], subject[ID_TEXT] = "";
    struct rows rows;

    result->op = op->op;
    snprintf(name, sizeof name, "op:%lld", (long long)op->op);
    fingerprint_of(op, fingerprint);
    if (!STORE(asked->tx, &lease_operation_find, asked->call->arena, &rows, err,
               V_TEXT(asked->lease.id), V_TEXT(name)))
        return false;
    if (rows.n_rows > 0)
        return answer_again(asked, &rows, kind, fingerprint, result, err);
    if (asked->lease.state != LEASE_RUNNING)
        return error_set(err, ERR_LEASE_STALE, "a lease that is %s asks for nothing",
                         lease_state_name(asked->lease.state));
    if (kind && !kind->again)
        return perform(asked, op, kind, result, subject, err);
    return perform(asked, op, kind, result, subject, err) &&
           STORE(asked->tx, &lease_operation_answer, NULL, NULL, err, V_TEXT(asked->lease.id),
                 V_TEXT(name), V_TEXT(fingerprint),
                 result->ok ? V_TEXT(subject) : V_STR(result->body), V_INT(time_now_ms()));
}

static bool do_all(struct asked *asked, const struct wire_ops *wanted,
                   struct wire_op_result *results, struct error *err)
{
    const struct wire_op *operations = wanted->operations.items;

    for (size_t i = 0; i < wanted->operations.n; i++)
        if (!do_one(asked, &operations[i], &results[i], err))
            return false;
    return true;
}

bool lease_ops_post(struct call *call, struct response *res, struct error *err)
{
    struct asked *asked = arena_alloc(call->arena, sizeof *asked);
    struct wire_ops wanted;
    AUTO_TX tx = NULL;

    *asked = (struct asked){.call = call, .server = server_of(call)};
    if (!worker_read(call, wire_ops_fields, &wanted, sizeof wanted, err) ||
        !store_begin(asked->server->store, &tx, err))
        return false;
    asked->tx = tx;
    struct wire_op_result *results =
        arena_array(call->arena, wanted.operations.n + 1, sizeof *results);
    if (!lease_open(tx, call, &wanted.fence, false, &asked->lease, err) ||
        !lease_is_for(&asked->lease, SUBJECT_RUN, err) ||
        !lease_load_run(tx, &asked->lease, call->arena, &asked->run, err) ||
        !do_all(asked, &wanted, results, err) ||
        !hub_commit(&asked->server->hub, &tx, &asked->wakes, err))
        return false;
    const struct wire_op_results answer = {
        {results, wanted.operations.n}
    };
    return worker_answer(res, wire_op_results_fields, &answer, err);
}
