/* A stored secret at rest: the value under a data key of its own, the data key wrapped under the
 * `secret` subkey. Both are bound to environment and name, so that neither opens in another row.
 * Rotation of the master key wraps the data key anew and never touches the value.
 */
#pragma once

#include "base/buf.h"
#include "server/keys.h"

struct sealed_secret {
    struct buf value, wrapped;
};

/* As its row has it. */
struct stored_secret {
    struct str value, wrapped, key_id;
};

void sealed_secret_finish(struct sealed_secret *sealed);

bool secret_seal(const struct keys *keys, const char *environment, struct str name,
                 struct str value, struct sealed_secret *sealed, struct error *err) MUST_USE;

/* A key that is not configured is named in the error. */
bool secret_unseal(const struct keys *keys, const char *environment, struct str name,
                   const struct stored_secret *stored, struct buf *value,
                   struct error *err) MUST_USE;

/* The same data key, wrapped under the current master key. */
bool secret_rewrap(const struct keys *keys, const char *environment, struct str name,
                   const struct stored_secret *stored, struct buf *wrapped,
                   struct error *err) MUST_USE;
