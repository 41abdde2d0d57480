/* Firecracker's API: HTTP/1.1 over the socket that it makes in its jail.
 *
 * One request at a time, each under a deadline, every answer bounded. 204 is success; what
 * Firecracker says when it refuses is the error's text. The one at the other end may be a guest
 * that got out of its machine: nothing that it answers is believed beyond yes and no.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum { MACHINE_BODY_MAX = 8192 };

struct machine_api;

/* `folder` is the jail's root and stays the caller's; `user` is who must be at the other end. Waits
 * until the socket is there, or the process that makes it has ended. */
bool machine_api_open(int folder, const char *socket_name, unsigned user, int pidfd,
                      int64_t deadline_ms, struct machine_api **api, struct error *err) MUST_USE;
void machine_api_close(struct machine_api *api); /* accepts NULL */

/* `deadline_ms` is boot time. ERR_TIMEOUT; ERR_UNAVAILABLE: no whole answer came; ERR_INVALID: it
 * was refused, with the reason given. */
bool machine_api_send(struct machine_api *api, const char *method, const char *path,
                      struct str body, int64_t deadline_ms, struct error *err) MUST_USE;
