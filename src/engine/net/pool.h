/* Inside of networks and their pool, for the files of this folder. */
#pragma once

#include "engine/host_state.h"
#include "engine/net/dns_server.h"
#include "engine/net/link.h"
#include "engine/net/network.h"
#include "engine/net/policy.h"
#include "engine/record.h"
#include "engine/slot.h"

struct network {
    struct engine_host *host;
    struct record record;
    struct slot slot;
    enum network_kind kind;
    int edge_fd, inner_fd, tap_fd; /* the last two: -1 for the other kind */
    char edge_path[RUN_DIR_ROOM + 32], inner_path[RUN_DIR_ROOM + 32];
    char link[IFNAMSIZ];
    struct dns_listener *dns;
    uint8_t rules[BLAKE2B_LEN]; /* the hash of what was loaded */
    char user[16];              /* short id of the sandbox it was given to */
    struct network *next;
};

bool network_make(struct engine_host *host, enum network_kind kind, const struct policy *policy,
                  struct dns_server *dns, struct network **network, struct error *err) MUST_USE;
void network_unmake(struct network *network);

bool network_rules_hold(const struct network *network);
/* Takes the link down, so that nothing goes in or out any more. */
void network_cut(const struct network *network);
