/* Idempotency keys: the first request with a key is done, the same again gets its answer.
 *
 * The key is claimed in the transaction that does the work, so it is remembered exactly when
 * the work is done.
 */
#pragma once

#include <stdint.h>

#include "base/hash.h"
#include "base/id.h"
#include "base/json.h"
#include "store/store.h"

/* What a client made the key of. It is for people who look at requests: only the key counts. */
struct key_origin {
    struct str key, scope;
};
extern const struct json_field key_origin_fields[];

struct idempotency {
    const char *environment_id;
    const char *route; /* method and pattern: the scope of the key */
    struct str key;
    const char *subject_id; /* what the first request makes */
    uint8_t fingerprint[BLAKE2B_LEN];
    int64_t now, ttl_ms;
};

/* *first is empty when this request is the first, else the subject of the first one.
 * ERR_IDEMPOTENCY_MISMATCH when that had other parameters. */
bool idempotency_claim_key(struct tx *tx, const struct idempotency *claim, struct arena *arena,
                           char first[ID_TEXT], struct error *err) MUST_USE;
