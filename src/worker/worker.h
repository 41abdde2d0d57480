/* The worker process: holds leases, runs sandboxes, reports. It never decides.
 *
 * Threads: main (signals, drain), keeper (heartbeat, renewals, bearer), three pollers (runs,
 * builds, messages), and one per lease. Everything shared is in this struct, behind its own locks.
 */
#pragma once

#include <stdatomic.h>

#include "base/hash.h"
#include "blob/seal.h"
#include "engine/engine.h"
#include "engine/guest_files.h"
#include "image/image.h"
#include "worker/capacity.h"
#include "worker/lease.h"
#include "worker/link.h"
#include "worker/pack_cache.h"
#include "worker/platform.h"
#include "worker/settings.h"
#include "worker/warm.h"

enum { COMPAT_HEX = 2 * BLAKE2B_LEN + 1 };

struct worker {
    const struct worker_settings *settings;
    struct link link;
    struct lease_table leases;
    struct capacity capacity;
    struct warm warm;
    struct engine_host *host;
    const struct engine *engine;       /* of runs */
    const struct engine *build_engine; /* of builds; NULL: it takes none */
    bool saves;       /* the engine of runs was proved to save sandboxes and to bring them back */
    bool accelerated; /* its microVMs run with KVM */
    struct guest_files guest_files; /* what they boot; empty where it has none */
    struct engine_result probes[4];
    size_t n_probes;
    struct image_store *images;
    struct pack_cache *packs; /* of versions */
    struct standby *standby;
    struct upkeep *upkeep;
    struct platform platform;
    struct wire_settings rules; /* the server's: lease TTL, cancel grace, hot time */

    /* Which checkpoints can be restored here: sealed with this key, of this kind of worker. */
    char checkpoint_key_id[SEAL_KEY_ID_TEXT];
    char compat[COMPAT_HEX];

    pthread_mutex_t room_lock;
    pthread_cond_t room_grew;

    atomic_bool draining;   /* takes no new work */
    volatile bool stopping; /* pollers and keeper end; also aborts their calls under way */
    volatile bool fenced;   /* a newer process has our identity: leave everything, exit */
    volatile bool is_quiet; /* no lease is left: the message poller may go too */
    int64_t message_cursor; /* of the message poller alone */
};

/* Its machines have no hardware to run on: their instructions are translated, in each copy anew. */
static inline bool worker_translates(const struct worker *worker)
{
    return worker->engine->has_drives && !worker->accelerated;
}

/* Runs until SIGTERM, SIGINT or a newer epoch. */
bool worker_run(const struct worker_settings *settings, struct error *err) MUST_USE;

/* Capacity came back: a poller waiting for room looks again. */
void worker_room_grew(struct worker *worker);

/* Thread bodies; arg is the worker, or the lease. */
void *keeper_main(void *arg);
void *run_poller_main(void *arg);
void *build_poller_main(void *arg);
void *message_poller_main(void *arg);
void *run_main(void *arg);
void *build_main(void *arg);
void *mount_main(void *arg);
