/* Connections of an earlier life. Their other ends are gone or believe that we are: each is ended
 * here, so that whoever holds one is told at once and not by a timeout.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Ends every TCP connection of this network namespace that does not stay inside it. */
bool sockets_close(uint32_t *n_closed, struct error *err) MUST_USE;
