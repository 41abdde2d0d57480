#include "engine/net/network.h"

bool network_pool_create(struct engine_host *host, struct network_pool **pool, struct error *err)
{
    (void)host;
    *pool = NULL;
    (void)err;
    return true;
}

void network_pool_destroy(struct network_pool *pool)
{
    (void)pool;
}

void network_pool_tick(struct network_pool *pool)
{
    (void)pool;
}

bool network_take(struct network_pool *pool, const struct sandbox_spec *spec,
                  struct network **network, struct error *err)
{
    (void)pool, (void)spec, (void)network;
    return error_set(err, ERR_UNSUPPORTED, "no network");
}

void network_release(struct network *network)
{
    (void)network;
}

int network_inner_fd(const struct network *network)
{
    (void)network;
    return -1;
}

const char *network_inner_path(const struct network *network)
{
    (void)network;
    return NULL;
}

bool network_preflight(struct network_pool *pool, struct error *err)
{
    (void)pool;
    return error_set(err, ERR_UNSUPPORTED, "no network");
}

void network_reclaim(struct engine_host *host)
{
    (void)host;
}
