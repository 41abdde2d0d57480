/* The life of a deployment: built once, then immutable. Promotion is not a state of it. */
#pragma once

#include "base/str.h"
#include "model/machine.h"

enum deployment_state {
    DEPLOYMENT_QUEUED,
    DEPLOYMENT_BUILDING,
    DEPLOYMENT_DEPLOYED,
    DEPLOYMENT_FAILED,
    DEPLOYMENT_STATE_COUNT,
};

enum deployment_event {
    DEPLOYMENT_START, /* a build lease began */
    DEPLOYMENT_BUILT, /* every image built, every task loaded */
    DEPLOYMENT_FAIL,
    DEPLOYMENT_CANCEL,
    DEPLOYMENT_LEASE_LOST,   /* a further lease is left */
    DEPLOYMENT_LEASES_SPENT, /* the last lease was lost */
    DEPLOYMENT_BUILD_DEADLINE,
    DEPLOYMENT_QUEUE_DEADLINE, /* no worker took it */
    DEPLOYMENT_EVENT_COUNT,
};

extern const struct machine deployment_machine;

/* Moves *state; false, with it left alone, when the move is not legal. */
bool deployment_state_apply(enum deployment_state *state, enum deployment_event on);
bool deployment_state_is_final(enum deployment_state state);
bool deployment_event_is_expiry(enum deployment_event event);

const char *deployment_state_name(enum deployment_state state);
const char *deployment_event_name(enum deployment_event event);
bool deployment_state_parse(struct str text, enum deployment_state *state);
