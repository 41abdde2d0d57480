/* The network of a machine, by netlink: loopback, and eth0 with the address that every guest has
 * (src/engine/net/network.c has the other end). Nothing in it changes from one life to the next.
 */
#pragma once

#include "base/error.h"

/* In the network namespace of the caller. Without an eth0 there is only loopback. */
bool link_setup(struct error *err) MUST_USE;
