/* One connection of a local program to a port in a sandbox: a socket on one side, a WebSocket on
 * the other, each held back while the other side does not read. Blocks until both are over.
 */
#pragma once

#include "http/websocket_client.h"

/* Takes the descriptor. `refusal` has the server's answer when there was one; its body needs a
 * maximum. The client may serve other threads. */
bool tunnel_run(const struct http_client *client, const char *path, int fd,
                struct http_answer *refusal, struct error *err) MUST_USE;
