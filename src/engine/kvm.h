/* Whether hardware virtualisation is there and whether a guest runs in it.
 *
 * That /dev/kvm opens proves nothing, so a few instructions are really executed: in real
 * mode, and in long mode with paging on, which is what any kernel does first.
 */
#pragma once

#include <stddef.h>

#include "base/attr.h"
#include "base/error.h"

/* True: both guests ran. `reason` says in words what was found, either way. */
bool kvm_probe(char *reason, size_t room);
