/* How workers are admitted and known: bootstrap token, credential, session, bearer.
 *
 * A bearer is worker, epoch and expiry with a tag under the `worker` subkey, so that it is
 * checked without the database. Every write checks the epoch again in its transaction. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/time.h"
#include "model/worker_state.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/lease.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum {
    BEARER_MS = 15 * 60 * 1000,
    IN_USE_MS = 60 * 1000,
    CLAIMS_MAX = 128,
    ROLES_MAX = 256,
};

static const char bearer_prefix[] = "hlmr_wb_";

bool worker_read(struct call *call, const struct json_field *fields, void *into, size_t size,
                 struct error *err)
{
    return json_read(call->request->body, fields, into, size, call->arena, err);
}

bool worker_answer(struct response *res, const struct json_field *fields, const void *from,
                   struct error *err)
{
    struct json_writer json = json_begin(response_body(res));

    wire_write(&json, NULL, fields, from);
    response_json(res, 200);
    return json_end(&json, err);
}

bool worker_answer_nothing(struct response *res, struct error *err)
{
    return worker_answer(res, wire_empty_fields, &(struct wire_empty){0}, err);
}

static void tag_claims(const struct server *server, struct str claims, uint8_t tag[BLAKE2B_LEN])
{
    keys_tag(&server->keys, KEY_WORKER, &claims, 1, tag);
}

/* hlmr_wb_<base64url of claims>.<base64url of tag> */
static struct str make_bearer(const struct server *server, const char *worker_id, int64_t epoch,
                              int64_t expires_ms, struct arena *arena)
{
    char claims[CLAIMS_MAX], text[2 * CLAIMS_MAX], tag_text[64];
    uint8_t tag[BLAKE2B_LEN];
    int len =
        snprintf(claims, sizeof claims, "%s %" PRId64 " %" PRId64, worker_id, epoch, expires_ms);

    tag_claims(server, (struct str){claims, (size_t)len}, tag);
    base64url_encode((struct str){claims, (size_t)len}, text);
    base64url_encode((struct str){(const char *)tag, sizeof tag}, tag_text);
    return str_of(arena_printf(arena, "%s%s.%s", bearer_prefix, text, tag_text));
}

static bool refuse_bearer(struct error *err)
{
    return error_set(err, ERR_UNAUTHENTICATED, "the worker's bearer is not valid");
}

static bool read_claims(const struct server *server, struct str token, char claims[CLAIMS_MAX])
{
    struct str rest = {token.ptr + sizeof bearer_prefix - 1, token.len - sizeof bearer_prefix + 1};
    struct str body;
    uint8_t given[BLAKE2B_LEN];
    size_t len = CLAIMS_MAX - 1, tag_len = sizeof given;

    if (!str_split(&rest, '.', &body) || !base64url_decode(body, claims, &len) ||
        !base64url_decode(rest, given, &tag_len) || tag_len != sizeof given)
        return false;
    claims[len] = '\0';
    return keys_tag_is_ours(&server->keys, KEY_WORKER, &(struct str){claims, len}, 1,
                            (struct str){(const char *)given, sizeof given});
}

bool worker_authorize(struct call *call, struct error *err)
{
    struct str header = call_header(call, STR("authorization")), scheme;
    struct caller *caller = arena_alloc(call->arena, sizeof *caller);
    char claims[CLAIMS_MAX], id[ID_TEXT];
    int64_t epoch, expires_ms;

    if (!str_split(&header, ' ', &scheme) || !str_equal_nocase(scheme, STR("bearer")) ||
        header.len <= sizeof bearer_prefix ||
        strncmp(header.ptr, bearer_prefix, sizeof bearer_prefix - 1) != 0)
        return refuse_bearer(err);
    if (!read_claims(server_of(call), header, claims) ||
        sscanf(claims, "%36s %" SCNd64 " %" SCNd64, id, &epoch, &expires_ms) != 3)
        return refuse_bearer(err);
    if (expires_ms <= time_now_ms())
        return error_set(err, ERR_UNAUTHENTICATED, "the worker's bearer has expired");
    caller->kind = CALLER_WORKER;
    caller->epoch = epoch;
    memcpy(caller->id, id, sizeof id);
    call->caller = caller;
    return true;
}

static struct str roles_text(const struct json_list *roles, struct arena *arena)
{
    struct buf text = {.max = ROLES_MAX};
    struct json_writer json = json_begin(&text);
    struct error err;

    json_open_list(&json, NULL);
    for (size_t i = 0; i < roles->n; i++)
        json_text(&json, NULL, ((const struct str *)roles->items)[i]);
    json_close_list(&json);
    struct str kept = json_end(&json, &err) ? arena_str(arena, buf_str(&text)) : STR("[]");
    buf_finish(&text);
    return kept;
}

static struct str labels_text(const struct json_map *labels, struct arena *arena)
{
    struct buf text = {.max = KIB(64)};
    struct json_writer json = json_begin(&text);
    struct error err;

    json_open(&json, NULL);
    for (size_t i = 0; i < labels->n; i++)
        json_text(&json, labels->pairs[i].name.ptr, labels->pairs[i].value);
    json_close(&json);
    struct str kept = json_end(&json, &err) ? arena_str(arena, buf_str(&text)) : STR("{}");
    buf_finish(&text);
    return kept;
}

/* A new worker, or the known one of that name with a new credential. */
static bool enlist(struct call *call, struct tx *tx, const struct wire_register *wanted,
                   const char *group_id, struct str hash, char id[ID_TEXT], struct error *err)
{
    struct server *server = server_of(call);
    struct value roles = V_STR(roles_text(&wanted->roles, call->arena));
    struct value labels = V_STR(labels_text(&wanted->labels, call->arena));
    struct value key_id = V_TEXT(server->keys.ids[KEY_AUTH]);
    int64_t now = time_now_ms();
    struct rows rows;

    if (!STORE(tx, &worker_find_resource, call->arena, &rows, err, V_TEXT(group_id),
               V_STR(wanted->resource_id)))
        return false;
    if (rows.n_rows == 0) {
        id_make(id);
        return STORE(tx, &worker_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(group_id),
                     V_STR(wanted->resource_id), V_STR(wanted->machine_id), V_BYTES(hash), key_id,
                     roles, labels, V_STR(wanted->version), V_STR(wanted->protocol), V_INT(now));
    }
    bool same = str_equal(row_str(&rows, 0, WORKER_FIND_RESOURCE_MACHINE_ID), wanted->machine_id);
    bool fresh = row_int(&rows, 0, WORKER_FIND_RESOURCE_HEARTBEAT_MS) > now - IN_USE_MS &&
                 !str_equal(row_str(&rows, 0, WORKER_FIND_RESOURCE_STATE), STR("lost"));
    if (!same && fresh)
        return error_set(err, ERR_WORKER_IN_USE,
                         "another live worker is called %.*s; set HELMR_WORKER_RESOURCE_ID",
                         (int)wanted->resource_id.len, wanted->resource_id.ptr);
    snprintf(id, ID_TEXT, "%s", row_text(&rows, 0, WORKER_FIND_RESOURCE_ID));
    return STORE(tx, &worker_enlist_again, NULL, NULL, err, V_TEXT(id), V_STR(wanted->machine_id),
                 V_BYTES(hash), key_id, roles, labels, V_STR(wanted->version),
                 V_STR(wanted->protocol), V_INT(now));
}

static bool find_group(struct call *call, struct tx *tx, struct str name, char id[ID_TEXT],
                       struct error *err)
{
    struct server *server = server_of(call);
    struct str rest = str_of(server->config->worker_groups), first;
    struct rows rows;

    if (name.len == 0 && str_split(&rest, ',', &first))
        name = first;
    if (!STORE(tx, &worker_group_find, call->arena, &rows, err, V_TEXT(server->organization_id),
               V_STR(name)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_INVALID, "there is no worker group %.*s", (int)name.len,
                         name.ptr);
    snprintf(id, ID_TEXT, "%s", row_text(&rows, 0, WORKER_GROUP_FIND_ID));
    return true;
}

static bool audit_enrolment(struct tx *tx, struct call *call, const char *worker_id,
                            struct str name, struct error *err)
{
    struct audit_entry entry = audit_entry_of(call, "worker.enrol");
    entry.actor_type = "worker";
    entry.actor_id = worker_id;
    entry.actor_name = arena_text(call->arena, name);
    entry.subject = str_of(worker_id);
    return audit_write(tx, server_of(call), &entry, err);
}

bool worker_register_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    char credential[TOKEN_TEXT], worker_id[ID_TEXT], group_id[ID_TEXT];
    uint8_t hash[BLAKE2B_LEN];
    struct wire_register wanted;
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_register_fields, &wanted, sizeof wanted, err))
        return false;
    if (!secret_is_set(&server->keys.bootstrap) ||
        !secret_equals(&server->keys.bootstrap, wanted.token))
        return error_set(err, ERR_UNAUTHENTICATED, "the bootstrap token is not valid");
    if (!str_equal(wanted.protocol, STR(WORKER_PROTOCOL)))
        return error_set(err, ERR_INVALID, "this server speaks %s", WORKER_PROTOCOL);
    token_make("hlmr_wrk_", credential);
    keys_hash_token(&server->keys, str_of(credential), hash);
    if (!store_begin(server->store, &tx, err) ||
        !find_group(call, tx, wanted.group, group_id, err) ||
        !enlist(call, tx, &wanted, group_id, (struct str){(const char *)hash, sizeof hash},
                worker_id, err) ||
        !audit_enrolment(tx, call, worker_id, wanted.resource_id, err) || !store_commit(&tx, err))
        return false;
    const struct wire_registered given = {str_of(worker_id), str_of(group_id), str_of(credential)};
    return worker_answer(res, wire_registered_fields, &given, err);
}

static bool find_by_credential(struct call *call, struct tx *tx, struct str worker_id,
                               struct str credential, struct rows *rows, struct error *err)
{
    const struct keys *keys = &server_of(call)->keys;
    uint8_t hash[BLAKE2B_LEN];
    size_t key = 0;

    for (rows->n_rows = 0; rows->n_rows == 0 && key < keys_count(keys); key++) {
        keys_hash_token_under(keys, key, credential, hash);
        if (!STORE(tx, &worker_find_credential, call->arena, rows, err,
                   V_BYTES(((struct str){(const char *)hash, sizeof hash}))))
            return false;
    }
    if (rows->n_rows == 0 || !str_equal(row_str(rows, 0, WORKER_FIND_CREDENTIAL_ID), worker_id) ||
        str_equal(row_str(rows, 0, WORKER_FIND_CREDENTIAL_STATE), STR("disabled")))
        return error_set(err, ERR_UNAUTHENTICATED, "the worker's credential is not valid");
    if (key == 1)
        return true;
    /* A former master key has made it: from here on it is the current one's. */
    keys_hash_token(keys, credential, hash);
    return STORE(tx, &worker_rehash, NULL, NULL, err, V_STR(worker_id),
                 V_BYTES(((struct str){(const char *)hash, sizeof hash})),
                 V_TEXT(keys->ids[KEY_AUTH]));
}

static bool identity_is_free(const struct rows *rows, const struct wire_session *wanted,
                             struct error *err)
{
    int64_t heartbeat = row_int(rows, 0, WORKER_FIND_CREDENTIAL_HEARTBEAT_MS);
    bool same = str_equal(row_str(rows, 0, WORKER_FIND_CREDENTIAL_MACHINE_ID), wanted->machine_id);

    if (!same && heartbeat > time_now_ms() - IN_USE_MS)
        return error_set(err, ERR_WORKER_IN_USE,
                         "another machine uses this worker's credential right now");
    return true;
}

static bool open_session(struct call *call, struct tx *tx, const struct wire_session *wanted,
                         const struct rows *found, int64_t *epoch, struct wakes *wakes,
                         struct error *err)
{
    static const struct lease_fault fault = {
        .on = LEASE_SUPERSEDE,
        .reason = "lost",
        .source = "control",
        .text = {"the worker started anew", 23},
    };
    static const int64_t every_message = INT64_MAX; /* they were for the older process */
    const char *id = row_text(found, 0, WORKER_FIND_CREDENTIAL_ID);
    bool draining = str_equal(row_str(found, 0, WORKER_FIND_CREDENTIAL_STATE), STR("draining"));
    struct rows rows;

    /* The worker's row last: a cancel locks its run before it writes to the worker. */
    if (!lease_end_all(server_of(call), tx, id, &fault, wakes, err) ||
        !STORE(tx, &worker_open_session, call->arena, &rows, err, V_TEXT(id),
               V_STR(wanted->boot_id), V_STR(wanted->machine_id),
               V_TEXT(draining ? "draining" : "registering"), V_INT(time_now_ms())))
        return false;
    *epoch = row_int(&rows, 0, WORKER_OPEN_SESSION_EPOCH);
    return STORE(tx, &worker_messages_forget, NULL, NULL, err, V_TEXT(id), V_INT(every_message));
}

/* Found again under the group's lock: another session of it may have been faster. */
static bool find_for_session(struct call *call, struct tx *tx, const struct wire_session *wanted,
                             struct rows *found, struct error *err)
{
    return find_by_credential(call, tx, wanted->worker_id, wanted->credential, found, err) &&
           dispatch_lock(tx, row_text(found, 0, WORKER_FIND_CREDENTIAL_ID), err) &&
           find_by_credential(call, tx, wanted->worker_id, wanted->credential, found, err) &&
           identity_is_free(found, wanted, err);
}

/* Workers seal and open the objects of the store themselves. A key is not sent where it could be
 * read on the way. */
static struct json_list store_keys(const struct call *call)
{
    const struct keys *keys = &server_of(call)->keys;
    struct arena *arena = call->arena;
    size_t n = call->is_secure || call->peer_is_local ? keys_count(keys) : 0;
    struct wire_store_key *list = arena_array(arena, n + 1, sizeof *list);

    for (size_t i = 0; i < n; i++) {
        struct str key = keys_subkey(keys, KEY_STORE, i);
        size_t len = base64_encoded_len(key.len);
        char *text = arena_alloc(arena, len);

        base64_encode(key, text);
        list[i].key = (struct str){text, len};
    }
    return (struct json_list){list, n};
}

bool worker_session_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_session wanted;
    struct wakes wakes = {0};
    struct rows found;
    int64_t epoch, now = time_now_ms();
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_session_fields, &wanted, sizeof wanted, err) ||
        !store_begin(server->store, &tx, err) ||
        !find_for_session(call, tx, &wanted, &found, err) ||
        !open_session(call, tx, &wanted, &found, &epoch, &wakes, err) ||
        !hub_commit(&server->hub, &tx, &wakes, err))
        return false;
    const struct wire_session_open opened = {
        .epoch = epoch,
        .bearer = make_bearer(server, row_text(&found, 0, WORKER_FIND_CREDENTIAL_ID), epoch,
                              now + BEARER_MS, call->arena),
        .bearer_expires_ms = now + BEARER_MS,
        .server_time_ms = now,
        .settings = {server->config->lease_ttl_ms, server->config->cancel_grace_ms,
                     server->config->hot_time_ms},
        .store_keys = store_keys(call),
    };
    return worker_answer(res, wire_session_open_fields, &opened, err);
}

bool worker_bearer_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_bearer wanted;
    struct rows found;
    int64_t now = time_now_ms();
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_bearer_fields, &wanted, sizeof wanted, err) ||
        !store_begin_read(server->store, &tx, err) ||
        !find_by_credential(call, tx, wanted.worker_id, wanted.credential, &found, err))
        return false;
    if (row_int(&found, 0, WORKER_FIND_CREDENTIAL_EPOCH) != wanted.epoch)
        return error_set(err, ERR_EPOCH_SUPERSEDED, "a newer process of this worker is active");
    const struct wire_bearer_given given = {
        make_bearer(server, row_text(&found, 0, WORKER_FIND_CREDENTIAL_ID), wanted.epoch,
                    now + BEARER_MS, call->arena),
        now + BEARER_MS,
        store_keys(call),
    };
    return worker_answer(res, wire_bearer_given_fields, &given, err);
}
