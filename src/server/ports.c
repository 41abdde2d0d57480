/* Ports of programs in a mounted workspace: a client asks for one connection, the worker is told
 * to dial, and the two meet in a relay. */
#include <stdio.h>

#include "base/json.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/lease.h"
#include "server/outbox.h"
#include "server/ports.h"
#include "server/relay.h"
#include "server/worker_plane.h"
#include "server/workspaces.h"
#include "store/queries.h"

bool port_parse(struct str text, uint16_t *port, struct error *err)
{
    unsigned value = 0;

    *port = 0;
    for (size_t i = 0; i < text.len && value <= UINT16_MAX; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || (i == 0 && text.ptr[i] == '0'))
            return error_set(err, ERR_INVALID, "a port is a number");
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    *port = (uint16_t)value;
    return (value > 0 && value <= UINT16_MAX) ||
           error_set(err, ERR_INVALID, "a port is a number up to 65535");
}

static bool is_listed(struct str network, uint16_t number, struct arena *arena)
{
    struct str listed = {0}, port = str_of(arena_printf(arena, "%u", number));

    for (size_t i = 0; i < json_count(network, "ports"); i++)
        if (json_find_raw(network, arena_printf(arena, "ports.%zu", i), arena, &listed) &&
            str_equal(listed, port))
            return true;
    return false;
}

static bool send_open(struct server *server, struct tx **tx, const struct rows *mount,
                      const char *name, struct error *err)
{
    char body[96];
    struct wakes wakes = {0};
    int len = snprintf(body, sizeof body, "{\"name\":\"%s\"}", name);

    return outbox_send(*tx, row_text(mount, 0, WORKSPACE_PORT_WORKER_ID),
                       row_text(mount, 0, WORKSPACE_PORT_LEASE_ID), "relay_open",
                       (struct str){body, (size_t)len}, &wakes, err) &&
           hub_commit(&server->hub, tx, &wakes, err);
}

/* What a sandbox lets in is looked at before whether it is there: a list tells more than a mount.
 */
static bool find_listed(struct tx *tx, const struct port_place *place, struct arena *arena,
                        struct rows *mount, struct error *err)
{
    if (!STORE(tx, &workspace_port, arena, mount, err, V_TEXT(place->environment_id),
               V_TEXT(place->workspace_id)))
        return false;
    return (mount->n_rows > 0 &&
            is_listed(row_str(mount, 0, WORKSPACE_PORT_NETWORK), place->port, arena)) ||
           error_set(err, ERR_PORT_NOT_ALLOWED,
                     "the sandbox does not list port %u: network({ ports: [%u] })", place->port,
                     place->port);
}

bool port_of_call(struct call *call, struct port_place *place, struct error *err)
{
    struct rows mount;
    AUTO_TX tx = NULL;

    snprintf(place->environment_id, ID_TEXT, "%s", call_environment(call));
    return port_parse(call_param(call, 1), &place->port, err) &&
           store_begin_read(server_of(call)->store, &tx, err) &&
           workspace_of_call(call, tx, place->workspace_id, err) &&
           find_listed(tx, place, call->arena, &mount, err);
}

static bool ask(struct call *call, const struct port_place *place, struct error *err)
{
    struct server *server = server_of(call);
    char name[RELAY_NAME_TEXT];
    struct rows mount;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) || !find_listed(tx, place, call->arena, &mount, err))
        return false;
    if (!row_str(&mount, 0, WORKSPACE_PORT_LEASE_ID).ptr)
        return error_set(err, ERR_NOT_MOUNTED, "the workspace is not mounted");
    if (!relay_ask(server->relays, call->id, row_text(&mount, 0, WORKSPACE_PORT_LEASE_ID),
                   place->port, name, err))
        return false;
    if (send_open(server, &tx, &mount, name, err))
        return true;
    relay_forget(server->relays, call->id);
    return false;
}

bool port_reach(struct call *call, const struct port_place *place, struct response *res,
                bool *is_open, struct error *err)
{
    struct relays *relays = server_of(call)->relays;
    bool is_asked;
    char topic[TOPIC_TEXT];

    if (!relay_look(relays, call->id, &is_asked, is_open, err))
        return false;
    if (*is_open)
        return true;
    if (!is_asked && !ask(call, place, err))
        return false;
    if (call->is_last_try) {
        relay_forget(relays, call->id);
        return error_set(err, ERR_TIMEOUT, "the sandbox did not answer in time");
    }
    relay_topic(call->id, topic);
    response_park(res, topic, RELAY_WAIT_MS);
    return true;
}

bool workspace_port_get(struct call *call, struct response *res, struct error *err)
{
    struct port_place place = {0};
    bool is_open = false;

    return websocket_asked(call, res, "helmr.port.v1", err) && port_of_call(call, &place, err) &&
           port_reach(call, &place, res, &is_open, err) &&
           (!is_open || relay_join_client(server_of(call)->relays, call->id, call, res, err));
}

/* GET …/leases/:lease/relay/:name?epoch=&sequence=: the worker's end of one that waits. */
bool lease_relay_get(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_fence fence = {.lease_id = call_param(call, 0)};
    struct lease_row lease;
    AUTO_TX tx = NULL;

    return websocket_asked(call, res, "helmr.relay.v0", err) &&
           call_query_int(call, "epoch", 0, INT64_MAX, 0, &fence.epoch, err) &&
           call_query_int(call, "sequence", 0, INT64_MAX, 0, &fence.sequence, err) &&
           store_begin(server->store, &tx, err) &&
           lease_open(tx, call, &fence, false, &lease, err) &&
           relay_join_worker(server->relays, fence.lease_id, call_param(call, 1), call, res, err);
}
