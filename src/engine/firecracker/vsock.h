/* The agent's channel: a port of the machine's vsock, reached through Firecracker's socket.
 *
 * Firecracker is asked in a line of text and answers with one. From the byte after that line on
 * the socket is the agent's, so not one byte more is read here.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum { VSOCK_AGENT_PORT = 5000 };

/* Until somebody listens on the port inside, Firecracker just hangs up: it is asked again. The
 * channel blocks. */
bool vsock_connect(int root, const char *socket_name, unsigned user, int pidfd, unsigned port,
                   int64_t deadline_ms, int *channel, struct error *err) MUST_USE;
