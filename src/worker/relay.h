/* Connections of people to ports in a sandbox, as its lease's thread carries them: a WebSocket
 * that is dialled to the server on one side, a stream of the agent on the other.
 *
 * Dialling has a thread of its own; everything else happens on the guest's loop. Bytes are passed
 * on as the other side takes them, each way with the credit of its own.
 */
#pragma once

#include "worker/guest.h"

struct guest_relay;

/* The server asks for one of this name: "port-3000-1". A repeated one does nothing; one that cannot
 * be dialled is forgotten. */
void relay_open(struct guest *guest, struct str name);

/* How many there are: a sandbox with some is not idle. */
size_t relay_count(const struct guest *guest);

/* What the agent says of them. */
void relay_connected(struct guest *guest, const struct message_relay *message);
void relay_refused(struct guest *guest, const struct message_error *error);
void relay_was_reset(struct guest *guest, uint32_t stream);
bool relay_owns(const struct guest *guest, uint16_t stream);
bool relay_data(struct guest *guest, uint16_t stream, struct str bytes, bool is_end,
                struct error *err) MUST_USE;

/* Moves what can move; before the channel is flushed. */
bool relay_settle(struct guest *guest, struct error *err) MUST_USE;

/* At the end of the guest, before its loop's. */
void relay_drop_all(struct guest *guest);
