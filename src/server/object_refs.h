/* Who needs which objects: a checkpoint or a version names the packs and manifests it is made
 * of, and for as long as it does the collector leaves them.
 *
 * Only objects that are live in the same transaction can be named; a dead one is
 * ERR_OBJECT_GONE, and the worker uploads it again.
 */
#pragma once

#include "base/json.h"
#include "server/context.h"

/* `objects` is a list of struct wire_object. */
bool object_refs_add(struct server *server, struct tx *tx, const char *owner_id,
                     const struct json_list *objects, struct arena *arena,
                     struct error *err) MUST_USE;

/* Everything one owner needs is needed by another, too. */
bool object_refs_copy(struct server *server, struct tx *tx, const char *from, const char *to,
                      struct arena *arena, struct error *err) MUST_USE;

bool object_refs_drop(struct tx *tx, const char *owner_id, struct error *err) MUST_USE;
