#include "server/token_object.h"

#include "base/time.h"
#include "model/name.h"
#include "server/idempotency.h"
#include "server/input.h"
#include "server/json_row.h"
#include "server/token_store.h"

enum { IDEMPOTENCY_DAYS = 30 };

static void write_fields(struct json_writer *json, const struct rows *rows, size_t row)
{
    json_row_text(json, "id", rows, row, TOKEN_GET_ID);
    json_row_text(json, "status", rows, row, TOKEN_GET_STATUS);
    json_row_time(json, "timeout_at", rows, row, TOKEN_GET_TIMEOUT_AT_MS);
    json_row_raw_if(json, "data", rows, row, TOKEN_GET_DATA);
    json_row_raw(json, "tags", rows, row, TOKEN_GET_TAGS);
    json_row_raw(json, "metadata", rows, row, TOKEN_GET_METADATA);
    json_row_text_if(json, "wait_id", rows, row, TOKEN_GET_WAIT_ID);
    json_row_text_if(json, "run_id", rows, row, TOKEN_GET_RUN_ID);
    json_row_raw_if(json, "completed_by", rows, row, TOKEN_GET_COMPLETED_BY);
    json_row_time(json, "created_at", rows, row, TOKEN_GET_CREATED_MS);
    json_row_time(json, "updated_at", rows, row, TOKEN_GET_UPDATED_MS);
    json_row_time_if(json, "completed_at", rows, row, TOKEN_GET_COMPLETED_MS);
}

void token_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                        size_t row)
{
    json_open(json, name);
    write_fields(json, rows, row);
    json_close(json);
}

bool token_object_write_whole(struct json_writer *json, const char *name,
                              const struct server *server, const struct rows *rows, bool is_cached,
                              struct arena *arena, struct error *err)
{
    const char *id = row_text(rows, 0, TOKEN_GET_ID);
    struct token_secrets secrets;

    if (!token_secrets_of(&server->keys, row_str(rows, 0, TOKEN_GET_KEY_ID), id, &secrets))
        return error_set(err, ERR_KEY_MISSING, "the key that made token %s is gone", id);
    const char *url = arena_printf(arena, "%s/api/v1/tokens/%s/callback/%s", server->public_url, id,
                                   secrets.callback);
    json_open(json, name);
    write_fields(json, rows, 0);
    json_string(json, "callback_url", url);
    json_string(json, "public_access_token", secrets.bearer);
    if (is_cached)
        json_bool(json, "is_cached", true);
    json_close(json);
    return true;
}

const struct json_field token_request_fields[] = {
    {"timeout", JSON_RAW, offsetof(struct token_request, timeout), OPTIONAL, .max = 256},
    {"metadata", JSON_RAW, offsetof(struct token_request, metadata), OPTIONAL},
    {"tags", JSON_LIST, offsetof(struct token_request, tags), OPTIONAL, .max = 64},
    {"idempotency_key", JSON_TEXT, offsetof(struct token_request, idempotency_key), OPTIONAL,
     .max = 512},
    {"idempotency_key_ttl", JSON_RAW, offsetof(struct token_request, idempotency_key_ttl), OPTIONAL,
     .max = 256},
    {"idempotency_key_options", JSON_OBJ, offsetof(struct token_request, idempotency_key_options),
     OPTIONAL, .fields = key_origin_fields},
    {0},
};

static bool is_given(struct str raw)
{
    return raw.ptr && !str_equal(raw, STR("null"));
}

static bool read_request(const struct token_request *request, struct arena *arena, int64_t *timeout,
                         struct token_new *made, struct error *err)
{
    *timeout = TOKEN_TIMEOUT_MS;
    made->metadata = STR("{}");
    return (!is_given(request->timeout) ||
            input_duration(request->timeout, "timeout", TOKEN_TIMEOUT_MAX, timeout, err)) &&
           (!is_given(request->metadata) ||
            input_object(request->metadata, "metadata", WAIT_METADATA_MAX, arena, &made->metadata,
                         err)) &&
           input_tags(request->tags.items, request->tags.n, arena, &made->tags, err);
}

static void fingerprint_of(int64_t timeout, const struct token_new *made, struct arena *arena,
                           uint8_t fingerprint[BLAKE2B_LEN])
{
    const struct str pieces[] = {
        str_of(arena_printf(arena, "%lld", (long long)timeout)),
        made->metadata,
        made->tags,
        str_of(made->run_id ? made->run_id : ""),
    };

    blake2b_list((struct str){0}, pieces, COUNT_OF(pieces), fingerprint);
}

bool token_request_do(struct server *server, struct tx *tx, const char *environment_id,
                      const char *run_id, const struct token_request *request, struct arena *arena,
                      char id[ID_TEXT], bool *is_cached, struct error *err)
{
    struct token_new made = {.environment_id = environment_id, .run_id = run_id};
    int64_t timeout, now = time_now_ms();
    int64_t ttl = IDEMPOTENCY_DAYS * DAY_MS;
    char first[ID_TEXT] = "";

    if (!read_request(request, arena, &timeout, &made, err) ||
        !input_key_ttl(request->idempotency_key_ttl, &ttl, err))
        return false;
    made.timeout_at_ms = now + timeout;
    id_make(id);
    if (request->idempotency_key.ptr) {
        struct idempotency claim = {
            .environment_id = environment_id,
            .route = "POST /api/tokens",
            .key = request->idempotency_key,
            .subject_id = id,
            .now = now,
            .ttl_ms = ttl,
        };

        fingerprint_of(timeout, &made, arena, claim.fingerprint);
        if (!name_check(NAME_EXTERNAL, "idempotency_key", claim.key, err) ||
            !idempotency_claim_key(tx, &claim, arena, first, err))
            return false;
    }
    *is_cached = first[0];
    if (*is_cached) {
        memcpy(id, first, ID_TEXT);
        return true;
    }
    return token_create(tx, &server->keys, &made, id, err);
}
