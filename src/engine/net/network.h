/* The network of one sandbox: an edge namespace with the rules and the guest's gateway, in0, and
 * the link between the edge and the host. Behind in0 is either an inner namespace with the
 * guest's eth0, or, when in0 is a tap, what a virtual machine sends and receives.
 *
 * Each is journalled as an instance of its own (kind "pool"), made ahead of need in the
 * background and used once. NULL pools are allowed everywhere: no network then.
 */
#pragma once

#include "engine/engine.h"

struct network;
struct network_pool;

enum network_kind { NETWORK_INNER, NETWORK_TAP, NETWORK_KIND_COUNT };

bool network_pool_create(struct engine_host *host, struct network_pool **pool,
                         struct error *err) MUST_USE;
void network_pool_destroy(struct network_pool *pool);
void network_pool_tick(struct network_pool *pool);

/* A prepared network with the sandbox's own denials added; made now when none is ready. */
bool network_take(struct network_pool *pool, const struct sandbox_spec *spec,
                  enum network_kind kind, struct network **network, struct error *err) MUST_USE;

/* Everything of it is removed, or quarantined. */
void network_release(struct network *network);

/* Of NETWORK_INNER. */
int network_inner_fd(const struct network *network);
const char *network_inner_path(const struct network *network);

/* Of NETWORK_TAP: the tap, the network's to close; or, for machines that open it by name in the
 * edge namespace, left there for one user. */
int network_tap_fd(const struct network *network);
bool network_tap_leave(struct network *network, uint32_t user, struct error *err) MUST_USE;
const char *network_edge_path(const struct network *network);

/* The hardware address that every guest has. */
#define NETWORK_GUEST_MAC "02:68:6c:6d:72:02"

bool network_preflight(struct network_pool *pool, struct error *err) MUST_USE;

/* Removes the root table of a dead predecessor, once nothing of it is left that it held back. */
void network_reclaim(struct engine_host *host);
