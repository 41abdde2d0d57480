/* The master key and what hangs on it: what is under which key, rotation on disk, and wrapping
 * stored secrets anew. Hashes of credentials move to the current key when they are next used.
 */
#pragma once

#include "base/arena.h"
#include "server/keys.h"
#include "store/store.h"

/* Before anything is written at a start: refuses a database that was written under a key which is
 * not among ours, and names its id. */
bool master_check(struct tx *tx, const struct keys *keys, struct arena *arena,
                  struct error *err) MUST_USE;

struct master_count {
    enum key_context context;
    const char *key_id; /* empty: sealed under none yet */
    const char *kind;   /* "api_keys", "secrets", "blobs" */
    int64_t n;
};

/* All that is still good for something, per key and kind; in the arena. */
bool master_counts(struct tx *tx, struct arena *arena, struct master_count **counts, size_t *n,
                   struct error *err) MUST_USE;

/* A new <data_dir>/keys/master; the one before goes to the front of keys/master.old. */
bool master_rotate(const char *data_dir, char key_id[KEY_ID_TEXT], struct error *err) MUST_USE;

/* Wraps up to `limit` secrets under the current key, each in a transaction of its own, beside a
 * server that runs. */
bool master_reencrypt(struct store *store, const struct keys *keys, int64_t limit, int64_t *done,
                      int64_t *remaining, struct error *err) MUST_USE;
