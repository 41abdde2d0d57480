/* Ports of programs in a mounted workspace: a client asks for one connection, the worker is told
 * to dial, and the two meet in a relay. */
#include <stdio.h>

#include "base/json.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/lease.h"
#include "server/outbox.h"
#include "server/relay.h"
#include "server/worker_plane.h"
#include "server/workspaces.h"
#include "store/queries.h"

static bool port_of_call(const struct call *call, struct str *text, uint16_t *port,
                         struct error *err)
{
    unsigned value = 0;

    *port = 0;
    *text = call_param(call, 1);
    for (size_t i = 0; i < text->len && value <= UINT16_MAX; i++) {
        if (text->ptr[i] < '0' || text->ptr[i] > '9' || (i == 0 && text->ptr[i] == '0'))
            return error_set(err, ERR_INVALID, "a port is a number");
        value = value * 10 + (unsigned)(text->ptr[i] - '0');
    }
    *port = (uint16_t)value;
    return (value > 0 && value <= UINT16_MAX) ||
           error_set(err, ERR_INVALID, "a port is a number up to 65535");
}

static bool is_listed(struct str network, struct str port, struct arena *arena)
{
    struct str listed = {0};

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
static bool find_mount(struct call *call, struct tx *tx, uint16_t *port, struct rows *mount,
                       struct error *err)
{
    char workspace[ID_TEXT];
    struct str text;

    if (!port_of_call(call, &text, port, err) || !workspace_of_call(call, tx, workspace, err) ||
        !STORE(tx, &workspace_port, call->arena, mount, err, V_TEXT(call_environment(call)),
               V_TEXT(workspace)))
        return false;
    if (mount->n_rows == 0 ||
        !is_listed(row_str(mount, 0, WORKSPACE_PORT_NETWORK), text, call->arena))
        return error_set(err, ERR_PORT_NOT_ALLOWED,
                         "the sandbox does not list port %u: network({ ports: [%u] })", *port,
                         *port);
    return row_str(mount, 0, WORKSPACE_PORT_LEASE_ID).ptr ||
           error_set(err, ERR_NOT_MOUNTED, "the workspace is not mounted");
}

static bool ask(struct call *call, struct error *err)
{
    struct server *server = server_of(call);
    char name[RELAY_NAME_TEXT];
    struct rows mount;
    uint16_t port = 0;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) || !find_mount(call, tx, &port, &mount, err) ||
        !relay_ask(server->relays, call->id, row_text(&mount, 0, WORKSPACE_PORT_LEASE_ID), port,
                   name, err))
        return false;
    if (send_open(server, &tx, &mount, name, err))
        return true;
    relay_forget(server->relays, call->id);
    return false;
}

bool workspace_port_get(struct call *call, struct response *res, struct error *err)
{
    struct relays *relays = server_of(call)->relays;
    bool is_asked, is_open;
    char topic[TOPIC_TEXT];

    if (!websocket_asked(call, res, "helmr.port.v1", err) ||
        !relay_look(relays, call->id, &is_asked, &is_open, err))
        return false;
    if (is_open)
        return relay_join_client(relays, call->id, call, res, err);
    if (!is_asked && !ask(call, err))
        return false;
    if (call->is_last_try) {
        relay_forget(relays, call->id);
        return error_set(err, ERR_TIMEOUT, "the sandbox did not answer in time");
    }
    relay_topic(call->id, topic);
    response_park(res, topic, RELAY_WAIT_MS);
    return true;
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
