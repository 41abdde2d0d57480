/* The version that a run begins with, put into its workspace. */
#pragma once

#include "worker/guest.h"
#include "worker/link.h"

/* `manifest` is the digest of the version's manifest. The task waits for its release. */
bool place_version(struct guest *guest, struct lease *lease, struct line *line,
                   const char *manifest, int64_t until_ms, struct error *err) MUST_USE;
