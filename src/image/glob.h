/* Patterns over paths: ** for any number of folders, * and ? within one name. */
#pragma once

#include "base/str.h"

/* The path is relative, without leading slash. Time is bounded by the product of the lengths. */
bool glob_match(struct str pattern, struct str path);
