/* The verifier of the audit log: entry after entry, then the end. It needs the keys and nothing of
 * a running server. What it returns false for is a sentence that names the first entry that was
 * changed, removed or cut off.
 */
#pragma once

#include "server/audit_record.h"

struct audit_verifier {
    const struct keys *keys;
    struct str chain_id;
    int64_t last; /* the entry that was checked last */
    uint8_t mac[BLAKE2B_LEN];
    size_t mac_len; /* 0 before the first entry of all */
};

bool audit_verify_next(struct audit_verifier *verifier, const struct audit_record *record,
                       struct error *err) MUST_USE;

/* The whole log of a database, in one snapshot. checkpoint: the path of the file, or NULL. */
bool audit_verify_store(struct store *store, const struct keys *keys, const char *checkpoint,
                        int64_t *n_entries, struct error *err) MUST_USE;

/* An exported file. */
bool audit_verify_file(const char *path, const struct keys *keys, int64_t *n_entries,
                       struct error *err) MUST_USE;
