#include <inttypes.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "http/multipart.h"
#include "model/name.h"
#include "model/version.h"
#include "server/archive.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/deployment_object.h"
#include "server/event.h"
#include "server/handlers.h"
#include "server/input.h"
#include "server/object_store.h"
#include "server/queue.h"
#include "store/queries.h"

enum { METADATA_MAX = 1024 * 1024, ENV_MAX = 128, ENV_BYTES_MAX = 256 * 1024, FORMAT = 2 };

#define SOURCE_MAX (512 * UINT64_C(1024) * 1024)

struct metadata {
    struct str content_hash;
    struct json_map env;
    bool no_cache;
    int64_t bundle_format_version;
    bool has_format;
};

static const struct json_field metadata_fields[] = {
    {"content_hash", JSON_TEXT, offsetof(struct metadata, content_hash), REQUIRED, .max = 71},
    {"env", JSON_MAP, offsetof(struct metadata, env), OPTIONAL, .max = ENV_MAX},
    {"no_cache", JSON_BOOL, offsetof(struct metadata, no_cache), OPTIONAL},
    {"bundle_format_version", JSON_INTEGER, offsetof(struct metadata, bundle_format_version),
     OPTIONAL, .min = FORMAT, .max = FORMAT, .present = offsetof(struct metadata, has_format)},
    {0},
};

/* An upload on its way. */
struct upload {
    struct call *call;
    struct metadata metadata;
    const char *expected; /* the hex part of the hash */
    struct multipart_part source;
    struct object_draft draft;
    struct buf env_sealed;
};

static void upload_finish(struct upload *upload)
{
    object_draft_discard(server_of(upload->call), &upload->draft);
    buf_finish(&upload->env_sealed);
}

static bool read_metadata(struct upload *upload, const struct multipart_part *part,
                          struct error *err)
{
    struct call *call = upload->call;
    if (part->len > METADATA_MAX)
        return error_set(err, ERR_TOO_LARGE, "the metadata is over %d bytes", METADATA_MAX);
    char *text = arena_alloc(call->arena, part->len + 1);
    ssize_t got = pread(call->upload_fd, text, part->len, (off_t)part->offset);
    if (got != (ssize_t)part->len)
        return error_errno(err, "read the metadata");
    if (!json_read((struct str){text, part->len}, metadata_fields, &upload->metadata,
                   sizeof upload->metadata, call->arena, err))
        return false;

    static const struct str prefix = STR("sha256:");
    struct str hash = upload->metadata.content_hash;
    if (hash.len != prefix.len + BLOB_ID_LEN || memcmp(hash.ptr, prefix.ptr, prefix.len) != 0 ||
        !blob_id_is_valid((struct str){hash.ptr + prefix.len, BLOB_ID_LEN}))
        return error_set(err, ERR_INVALID,
                         "/content_hash must be sha256: and 64 lower-case hex digits");
    upload->expected = arena_text(call->arena, (struct str){hash.ptr + prefix.len, BLOB_ID_LEN});
    return true;
}

static bool read_parts(struct upload *upload, struct error *err)
{
    struct call *call = upload->call;
    struct multipart parts;
    struct multipart_part part;
    bool found = false;
    if (!multipart_begin(&parts, call_header(call, STR("content-type")), call->upload_fd,
                         call->upload_len, err) ||
        !multipart_next(&parts, &part, &found, err))
        return false;
    if (!found || strcmp(part.name, "metadata") != 0)
        return error_set(err, ERR_INVALID, "the first part must be metadata");
    if (!read_metadata(upload, &part, err) || !multipart_next(&parts, &upload->source, &found, err))
        return false;
    if (!found || strcmp(upload->source.name, "deployment_source") != 0)
        return error_set(err, ERR_INVALID, "the second part must be deployment_source");
    if (!multipart_next(&parts, &part, &found, err))
        return false;
    if (found)
        return error_set(err, ERR_INVALID, "there is a third part");
    return upload->source.len <= SOURCE_MAX ||
           error_set(err, ERR_ARCHIVE_TOO_LARGE, "the source is over 512 MiB");
}

/* The build's variables may hold keys of the author, so they are kept sealed. */
static bool seal_env(struct upload *upload, struct error *err)
{
    const struct json_map *env = &upload->metadata.env;
    if (env->n == 0)
        return true;
    AUTO(buf_finish) struct buf plain = {.max = ENV_BYTES_MAX};
    struct json_writer json = json_begin(&plain);
    json_open(&json, NULL);
    for (size_t i = 0; i < env->n; i++) {
        if (!name_check(NAME_VARIABLE, "/env: a name", env->pairs[i].name, err))
            return false;
        json_text(&json, arena_text(upload->call->arena, env->pairs[i].name), env->pairs[i].value);
    }
    json_close(&json);
    upload->env_sealed.max = (size_t)2 * ENV_BYTES_MAX;
    bool ok = json_end(&json, err) &&
              keys_seal(&server_of(upload->call)->keys, KEY_SECRET, STR("deployment env"),
                        buf_str(&plain), &upload->env_sealed, err);
    if (plain.len)
        bytes_wipe(plain.bytes, plain.len);
    return ok;
}

static bool insert_deployment(struct upload *upload, struct tx *tx, const char *id, int64_t now,
                              struct error *err)
{
    struct call *call = upload->call;
    struct value environment = V_TEXT(call_environment(call));
    struct str sdk = input_version(call_header(call, STR("helmr-sdk-version")));
    struct str cli = input_version(call_header(call, STR("helmr-cli-version")));
    bool has_env = upload->env_sealed.len > 0;
    char day[9], version[VERSION_TEXT];
    struct rows number;
    time_date(now, day);
    if (!STORE(tx, &deployment_next_number, call->arena, &number, err, environment, V_TEXT(day)))
        return false;
    int64_t n = row_int(&number, 0, DEPLOYMENT_NEXT_NUMBER_NUMBER);
    return STORE(tx, &deployment_insert, NULL, NULL, err, V_TEXT(id), environment,
                 V_TEXT(version_format(now, n, version)), V_TEXT(day), V_INT(n),
                 V_STR(upload->metadata.content_hash), V_TEXT(upload->draft.blob.id),
                 V_INT(upload->source.len), V_INT(FORMAT),
                 has_env ? V_BYTES(buf_str(&upload->env_sealed)) : V_NULL,
                 has_env ? V_TEXT(server_of(call)->keys.ids[KEY_SECRET]) : V_NULL,
                 V_INT(upload->metadata.no_cache), V_TEXT(API_VERSION), V_STR_OR_NULL(sdk),
                 V_STR_OR_NULL(cli), V_INT(now));
}

static bool put_in_queue(struct upload *upload, struct tx *tx, const char *id, int64_t now,
                         struct error *err)
{
    char lane_id[ID_TEXT];
    struct rows lane;
    id_make(lane_id);
    if (!STORE(tx, &lane_upsert, upload->call->arena, &lane, err, V_TEXT(lane_id),
               V_TEXT(call_environment(upload->call)), V_TEXT("build"), V_TEXT("builds"),
               V_TEXT(""), V_NULL, V_INT(now)))
        return false;
    const struct queue_item item = {
        .kind = "build",
        .subject_id = id,
        .lane_id = row_text(&lane, 0, LANE_UPSERT_ID),
        .environment_id = call_environment(upload->call),
        .score_ms = now,
        .not_before_ms = now,
    };
    return queue_put(tx, &item, err);
}

static bool insert_event(const struct upload *upload, struct tx *tx, const char *id,
                         struct error *err)
{
    AUTO(buf_finish) struct buf attributes = {.max = 1024};
    struct json_writer json = json_begin(&attributes);
    json_open(&json, NULL);
    json_text(&json, "content_hash", upload->metadata.content_hash);
    json_int(&json, "size_bytes", (int64_t)upload->source.len);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    struct event event = {.kind = "deployment.queued", .attributes = buf_str(&attributes)};
    return deployment_event_first(tx, id, &event, err);
}

/* A source that is being built already is not built twice; *id is then the earlier one. */
static bool insert(struct upload *upload, struct tx *tx, char id[ID_TEXT], bool *is_new,
                   struct wakes *wakes, struct error *err)
{
    struct call *call = upload->call;
    int64_t now = time_now_ms();
    struct value environment = V_TEXT(call_environment(call));
    struct rows locked, pending;
    if (!STORE(tx, &environment_lock, call->arena, &locked, err, environment) ||
        !STORE(tx, &deployment_pending_find, call->arena, &pending, err, environment,
               V_STR(upload->metadata.content_hash)))
        return false;
    *is_new = pending.n_rows == 0;
    if (!*is_new) {
        row_id(&pending, 0, DEPLOYMENT_PENDING_FIND_ID, id);
        return true;
    }
    id_make(id);
    wakes_add(wakes, "g", row_text(&locked, 0, ENVIRONMENT_LOCK_GROUP_ID));
    wakes_add(wakes, "env:", call_environment(call));
    wakes_add(wakes, "deployment:", id);
    return insert_deployment(upload, tx, id, now, err) && put_in_queue(upload, tx, id, now, err) &&
           insert_event(upload, tx, id, err);
}

static bool answer(struct upload *upload, struct tx *tx, const char *id, int status,
                   struct response *res, struct error *err)
{
    struct call *call = upload->call;
    struct rows rows;
    if (!STORE(tx, &deployment_get, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(id)))
        return false;
    struct json_writer json = json_begin(response_body(res));
    if (!deployment_object_write(tx, call->arena, &json, NULL, &rows, 0, err))
        return false;
    response_json(res, status);
    return json_end(&json, err);
}

bool deployment_create(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    AUTO(upload_finish) struct upload upload = {.call = call};
    if (!read_parts(&upload, err) || !seal_env(&upload, err) ||
        !archive_check(call->upload_fd, upload.source.offset, upload.source.len, err) ||
        !object_draft_blob(server, call->upload_fd, upload.source.offset, upload.source.len,
                           upload.expected, &upload.draft, err))
        return false;

    char id[ID_TEXT];
    bool is_new;
    struct wakes wakes = {0};
    AUTO_TX tx = NULL;
    return store_begin(server->store, &tx, err) && insert(&upload, tx, id, &is_new, &wakes, err) &&
           answer(&upload, tx, id, is_new ? 201 : 200, res, err) &&
           object_publish(server, tx, &upload.draft, err) &&
           audit_call(tx, call, "deployment.create", str_of(id), err) &&
           hub_commit(&server->hub, &tx, &wakes, err);
}
