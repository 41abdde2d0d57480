/* Numbers of this host, shared by every worker on it: a lock on /run/helmr/slots/<n>.
 *
 * A slot is held by its descriptor, so the kernel frees it when the holder dies. The
 * number picks the network link, hence at most one holder at a time. A worker that is not
 * root has neither links nor users to pick, and numbers of its own in its work directory.
 */
#pragma once

#include "base/error.h"

enum { SLOTS_MAX = 4096 };

#define SLOT_DIR "/run/helmr/slots"

struct slot {
    int number;
    int fd; /* -1: none */
};

/* The lowest number of the folder that is free and not below `from`. */
bool slot_claim(const char *folder, int from, struct slot *slot, struct error *err) MUST_USE;
void slot_free(struct slot *slot);
