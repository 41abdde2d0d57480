/* What a server enters into the audit log when it starts: that it did, a master key that was
 * changed, and the names of settings that are others than at the start before. Values are kept
 * as keyed hashes only.
 */
#pragma once

#include "server/context.h"

bool audit_start(struct server *server, struct error *err) MUST_USE;
