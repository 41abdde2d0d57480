/* What this worker has and what is taken: cpu, memory, disk, slots. One ledger, one lock.
 *
 * A claim is all or nothing and is given back exactly once.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct room {
    int64_t cpu_millis, memory_mib, disk_mib, slots, build_slots;
};

struct capacity {
    pthread_mutex_t lock;
    struct room total, taken;
};

void capacity_init(struct capacity *capacity, struct room total);
void capacity_finish(struct capacity *capacity);

/* False when any part does not fit; nothing is taken then. */
bool capacity_claim(struct capacity *capacity, struct room wanted);
void capacity_give_back(struct capacity *capacity, struct room taken);
struct room capacity_free(struct capacity *capacity);
