#include "server/idempotency.h"

#include "store/queries.h"

const struct json_field key_origin_fields[] = {
    {"key", JSON_RAW, offsetof(struct key_origin, key), OPTIONAL, .max = 4096},
    {"scope", JSON_TEXT, offsetof(struct key_origin, scope), OPTIONAL, .max = 32},
    {0},
};

bool idempotency_claim_key(struct tx *tx, const struct idempotency *claim, struct arena *arena,
                           char first[ID_TEXT], struct error *err)
{
    struct str fingerprint = {(const char *)claim->fingerprint, sizeof claim->fingerprint};
    struct rows rows;
    first[0] = '\0';
    if (!STORE(tx, &idempotency_claim, arena, &rows, err, V_TEXT(claim->environment_id),
               V_TEXT(claim->route), V_STR(claim->key), V_BYTES(fingerprint),
               V_TEXT(claim->subject_id), V_INT(claim->now), V_INT(claim->now + claim->ttl_ms)))
        return false;
    if (rows.n_changed == 1)
        return true;

    if (!STORE(tx, &idempotency_find, arena, &rows, err, V_TEXT(claim->environment_id),
               V_TEXT(claim->route), V_STR(claim->key), V_INT(claim->now)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_IDEMPOTENCY_PENDING,
                         "the first request with this key is still in progress");
    if (!str_equal(row_str(&rows, 0, IDEMPOTENCY_FIND_FINGERPRINT), fingerprint))
        return error_set(err, ERR_IDEMPOTENCY_MISMATCH, "the key was used with other parameters");
    row_id(&rows, 0, IDEMPOTENCY_FIND_SUBJECT_ID, first);
    return true;
}
