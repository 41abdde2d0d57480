/* What the ways to a port of a sandbox have in common. */
#pragma once

#include "http/call.h"
#include "server/caller.h"

struct server;

/* A port of a workspace of an environment. */
struct port_place {
    char environment_id[ID_TEXT], workspace_id[ID_TEXT];
    uint16_t port;
};

bool port_parse(struct str text, uint16_t *port, struct error *err) MUST_USE;

/* The one that the path of an API call names. ERR_PORT_NOT_ALLOWED when its sandbox does not list
 * it. */
bool port_of_call(struct call *call, struct port_place *place, struct error *err) MUST_USE;

/* Asks for a connection under the id of the call, once; true when it is there. Until then the call
 * is parked, and what the sandbox refuses is an error. */
bool port_reach(struct call *call, const struct port_place *place, struct response *res,
                bool *is_open, struct error *err) MUST_USE;
