/* An answer that is pulled piece by piece, and the only thing a streaming connection keeps.
 *
 * The next piece is asked for, on the pool, when the last one has been taken by the socket, and of
 * a download while it is; so a slow client slows its own source and holds one piece, or two. The
 * waiter of the connection stays in the topic from before the first pull to the end: no wake-up
 * falls between. A source may also take what the client says, which waits here within bounds.
 */
#pragma once

struct connection;
struct stream;

/* Takes the composed head and the source out of the exchange's response and lets go of the
 * exchange. */
void stream_begin(struct connection *connection);
void stream_destroy(struct stream *stream);

/* Sends, then pulls, waits or ends, whatever is due. */
void stream_pump(struct connection *connection);

/* The client has said something. */
void stream_heard(struct connection *connection);

void stream_wake(struct connection *connection);
void stream_time_over(struct connection *connection);
void stream_stop(struct connection *connection);
