/* Every state machine of the product, for what is done with all of them. */
#pragma once

#include "model/machine.h"

extern const struct machine *const machines[];
extern const size_t n_machines;
