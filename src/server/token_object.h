/* A token as the API shows it, and a request for a new one as API and programs write it. */
#pragma once

#include "base/json.h"
#include "server/context.h"
#include "server/idempotency.h"
#include "store/queries.h"

/* One row of token_get or of a list of tokens, columns TOKEN_GET_*. */
void token_object_write(struct json_writer *json, const char *name, const struct rows *rows,
                        size_t row);

/* The same with callback_url and public_access_token, for whoever made it, now or before. */
bool token_object_write_whole(struct json_writer *json, const char *name,
                              const struct server *server, const struct rows *rows, bool is_cached,
                              struct arena *arena, struct error *err) MUST_USE;

struct token_request {
    struct str timeout, metadata, idempotency_key, idempotency_key_ttl; /* ptr NULL: absent */
    struct key_origin idempotency_key_options;
    struct json_list tags;
};
extern const struct json_field token_request_fields[];

/* Makes the token, or finds the one that this idempotency key made before: *id. */
bool token_request_do(struct server *server, struct tx *tx, const char *environment_id,
                      const char *run_id, const struct token_request *request, struct arena *arena,
                      char id[ID_TEXT], bool *is_cached, struct error *err) MUST_USE;
