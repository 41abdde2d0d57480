/* What an audit entry consists of and how entries hang together; for writer, export and verifier.
 *
 * mac = keyed BLAKE2b(chain id, mac before, sequence, time, every text). The key is the `audit`
 * subkey named by key_id; the mac before the first entry is empty. A seal says with the key where
 * the chain ends.
 */
#pragma once

#include <stdint.h>

#include "server/keys.h"

enum audit_text {
    AUDIT_ACTOR_TYPE,
    AUDIT_ACTOR_ID,
    AUDIT_ACTOR_NAME,
    AUDIT_ACTION,
    AUDIT_PROJECT_ID,
    AUDIT_ENVIRONMENT_ID,
    AUDIT_SUBJECT,
    AUDIT_REQUEST_ID,
    AUDIT_OUTCOME,
    AUDIT_KEY_ID,
    AUDIT_TEXTS,
};

struct audit_record {
    int64_t sequence, at_ms;
    struct str texts[AUDIT_TEXTS];
    struct str mac;
};

/* Where a chain ends. */
struct audit_end {
    struct str chain_id;
    int64_t sequence;
    struct str mac;
};

void audit_mac(struct str key, struct str chain_id, struct str before,
               const struct audit_record *record, uint8_t mac[BLAKE2B_LEN]);

/* `what` keeps the seals of the head, of checkpoints and of exports apart. */
void audit_seal(struct str key, const char *what, const struct audit_end *end,
                uint8_t seal[BLAKE2B_LEN]);
