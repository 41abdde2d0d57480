/* Byte channels from a client of the API into a sandbox: two WebSockets of this process, the
 * client's and the one the sandbox's worker dials, and between them two bounded buffers.
 *
 * A client waits until the worker says that the other end is there, and only then becomes a
 * WebSocket; so a refusal is an ordinary answer. Whoever reads nothing holds the other: a full
 * buffer takes nothing more. All of it may be called from any thread.
 */
#pragma once

#include "http/call.h"
#include "server/hub.h"

enum { RELAY_NAME_TEXT = 48, RELAYS_OF_LEASE_MAX = 64, RELAY_WAIT_MS = 20 * 1000 };

struct relays;

struct relays *relays_create(struct hub *hub);
void relays_destroy(struct relays *relays); /* accepts NULL */

/* A channel that a client asks for, under the id of its call; its name is what the worker is to
 * dial. ERR_QUOTA when the lease has as many as it may. */
bool relay_ask(struct relays *relays, const char *id, const char *lease_id, uint16_t port,
               char name[RELAY_NAME_TEXT], struct error *err) MUST_USE;
void relay_forget(struct relays *relays, const char *id); /* one that could not be asked for */

/* Whether a channel of the id is asked for, and whether it is open by now; an error when it was
 * refused, which also forgets it. */
bool relay_look(struct relays *relays, const char *id, bool *is_asked, bool *is_open,
                struct error *err) MUST_USE;
/* What wakes a client that waits. */
void relay_topic(const char *id, char topic[TOPIC_TEXT]);

/* The two ends. ERR_NOT_FOUND when there is no such channel, or none that waits for it. */
bool relay_join_client(struct relays *relays, const char *id, struct call *call,
                       struct response *res, struct error *err) MUST_USE;
/* The client's end as calls of this process, of whoever owns it until relay_leave. Reading moves
 * up to `most` bytes; *is_over when none will come any more. Writing says how many were taken: of
 * a full buffer none, until the topic is woken. */
struct relay_end;
bool relay_join_here(struct relays *relays, const char *id, struct relay_end **end,
                     struct error *err) MUST_USE;
bool relay_read(struct relay_end *end, size_t most, struct buf *bytes, bool *is_over,
                struct error *err) MUST_USE;
bool relay_write(struct relay_end *end, struct str bytes, size_t *taken,
                 struct error *err) MUST_USE;
void relay_leave(struct relay_end *end); /* accepts NULL */

bool relay_join_worker(struct relays *relays, struct str lease_id, struct str name,
                       struct call *call, struct response *res, struct error *err) MUST_USE;
