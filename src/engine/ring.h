/* The last 64 KiB of what a pipe brought, kept up to date by the service thread. */
#pragma once

#include "base/str.h"
#include "engine/service.h"

enum { RING_BYTES = 65536 };

struct ring;

/* Takes the reading end. */
bool ring_create(struct service *service, int fd, struct ring **ring, struct error *err) MUST_USE;
void ring_destroy(struct ring *ring); /* accepts NULL */

/* What there is now, oldest first; valid until the next call. */
struct str ring_tail(struct ring *ring);
