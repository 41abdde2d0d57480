/* Images as the server knows them: the objects they consist of, and the finished build steps
 * that all workers of a project share.
 *
 * What is published refers only to objects that are live in the same transaction; a dead one
 * is ERR_OBJECT_GONE, and the worker uploads it again.
 */
#pragma once

#include "protocol/worker_api.h"
#include "server/context.h"

/* Refers to an object anew. The id is the digest's digits. */
bool object_keep(struct server *server, struct tx *tx, struct str id, struct arena *arena,
                 struct error *err) MUST_USE;

/* Refers to everything the build's images consist of, for as long as the deployment lives. */
bool images_publish(struct server *server, struct tx *tx, const char *deployment_id,
                    const struct wire_build_complete *built, struct error *err) MUST_USE;
