/* The network of one sandbox: an edge namespace with the rules, an inner one with the
 * guest's eth0, and the link between the edge and the host.
 *
 * Each is journalled as an instance of its own (kind "pool"), made ahead of need in the
 * background and used once. NULL pools are allowed everywhere: no network then.
 */
#pragma once

#include "engine/engine.h"

struct network;
struct network_pool;

bool network_pool_create(struct engine_host *host, struct network_pool **pool,
                         struct error *err) MUST_USE;
void network_pool_destroy(struct network_pool *pool);
void network_pool_tick(struct network_pool *pool);

/* A prepared network with the sandbox's own denials added; made now when none is ready. */
bool network_take(struct network_pool *pool, const struct sandbox_spec *spec,
                  struct network **network, struct error *err) MUST_USE;

/* Everything of it is removed, or quarantined. */
void network_release(struct network *network);

int network_inner_fd(const struct network *network);
const char *network_inner_path(const struct network *network);

bool network_preflight(struct network_pool *pool, struct error *err) MUST_USE;

/* Removes the root table of a dead predecessor, once nothing of it is left that it held back. */
void network_reclaim(struct engine_host *host);
