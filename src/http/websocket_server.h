/* A connection that became a WebSocket, on the loop's thread: frames in and out, pings, and the
 * pool jobs that take messages and pull new ones.
 *
 * New messages are pulled when the last ones are with the socket, so a slow client slows its own
 * source; a source that takes nothing stops the reading, so a fast client waits. What the client
 * says is taken also while it reads nothing.
 */
#pragma once

struct connection;
struct websocket_line;

/* Takes head and state out of the exchange's response and lets go of the exchange. */
void websocket_line_begin(struct connection *connection);
void websocket_line_destroy(struct websocket_line *line);

void websocket_line_ready(struct connection *connection, unsigned events);
void websocket_line_wake(struct connection *connection);
void websocket_line_time_over(struct connection *connection);
void websocket_line_stop(struct connection *connection);
