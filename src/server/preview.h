/* Previews: ports of sandboxes in a browser, on a listener and an origin of their own.
 *
 * A link from the API opens once and becomes a cookie of that port's path; with it requests are
 * passed on to the port. Nothing else is served there, and they are served nowhere else.
 */
#pragma once

#include "http/call.h"

extern const struct route preview_routes[];
extern const size_t n_preview_routes;
extern const char preview_headers[]; /* of answers that are our own */

/* The authorize hook of that listener: finds the grant. One is not needed for what has no body, so
 * that a handler can tell a person what to do. */
bool preview_authorize(struct call *call, struct error *err);
