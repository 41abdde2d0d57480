/* Memory that a machine changed, as a file: what is a hole in it was not changed, and what is
 * zero in it was. Its length is the caller's to check. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Every extent that `changes` has goes over what is in `to`, zeros too. */
bool blocks_overlay(int changes, int to, struct error *err) MUST_USE;

bool blocks_equal(int one, int other, bool *is_equal, struct error *err) MUST_USE;
