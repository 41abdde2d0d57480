/* Start-up and retries: everything a dead worker of this work directory left, by journal. */
#pragma once

#include "engine/host_state.h"

/* Fills host->reclaimed. False only when the instances cannot even be listed. */
bool reclaim_all(struct engine_host *host, struct error *err) MUST_USE;

/* Tries every quarantined instance again. */
void reclaim_retry(struct engine_host *host);
