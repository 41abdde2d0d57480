/* One request of a browser to a program in a sandbox, over a relay, and its answer, both streamed;
 * or a WebSocket between them, whose bytes nobody here looks into.
 */
#pragma once

#include "server/preview_grant.h"
#include "server/preview_head.h"

/* Answers with what the program will say; the relay under the call's id must be open. */
bool preview_pass(struct call *call, const struct preview_grant *grant,
                  const struct preview_side *side, struct response *res,
                  struct error *err) MUST_USE;
