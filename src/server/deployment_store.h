/* Moving a deployment, for the workers' reports and the sweeper: the model's table decides,
 * the row changes by compare-and-set, the event is written beside it.
 */
#pragma once

#include "protocol/worker_api.h"
#include "server/hub.h"
#include "store/store.h"

enum { BUILD_LEASES_MAX = 3 };

struct deployment_fault {
    const char *layer, *failure_kind;
    struct str message, details; /* details: a JSON object, or ptr NULL */
    const char *source;
};

/* A build lease has started. */
struct deployment_builder {
    const char *worker_id, *lease_id;
    struct str engine, grade; /* what separates its steps from the host */
};
bool deployment_start_build(struct tx *tx, const char *id, const struct deployment_builder *builder,
                            struct wakes *wakes, struct error *err) MUST_USE;

/* Its lease is over without a result: queued again, or failed when that was the last. */
bool deployment_give_back(struct tx *tx, const char *id, const char *lane_id, const char *reason,
                          struct str text, struct wakes *wakes, struct error *err) MUST_USE;

/* `on` is one of enum deployment_event that ends in failed. */
bool deployment_end_failed(struct tx *tx, const char *id, int on,
                           const struct deployment_fault *fault, struct wakes *wakes,
                           struct error *err) MUST_USE;

/* Takes over what the build found: tasks, sandboxes, queues, images, bundle. */
bool deployment_end_deployed(struct tx *tx, const char *id, const struct wire_build_complete *built,
                             struct wakes *wakes, struct error *err) MUST_USE;
