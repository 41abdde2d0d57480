/* For tests: an adapter that waits, parks at its barrier and goes on, as `node` of the image. */
#pragma once

#include "protocol/channel.h"

/* Speaks on after LOADED. `mode` begins with "park"; "busy" and "deaf" in it say how it fails,
 * "tcp" that it has a server. */
int probe_park(struct channel *link, const char *mode);

/* Writes on and on: to the file `count` and to its output, each time with the state of a child that
 * job control has stopped. */
int probe_tick(void);
