/* Why a run waits in vain although workers are there: none of them is large enough, or can keep the
 * rules of its network. */
#pragma once

#include "base/arena.h"
#include "store/store.h"

/* *words is NULL when some worker could take the run if it had nothing else to do. */
bool queued_in_vain(struct tx *tx, const char *run_id, struct arena *arena, const char **words,
                    struct error *err) MUST_USE;
