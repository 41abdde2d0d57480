/* The workers' side of the API, below /api/worker, and the pieces its files share. */
#pragma once

#include "http/call.h"
#include "model/worker_state.h"
#include "protocol/worker_api.h"
#include "server/context.h"

route_handler worker_register_post, worker_session_post, worker_bearer_post, worker_activate_post,
    worker_heartbeat_post, worker_poll_post, worker_drained_post;
route_handler lease_begin_post, lease_start_post, lease_renew_post, lease_reject_post,
    lease_release_post, lease_logs_post, lease_events_post, lease_finalize_post,
    lease_complete_post, build_progress_post, build_complete_post;
route_handler checkpoint_begin_post, checkpoint_stage_post, checkpoint_ready_post,
    checkpoint_abort_post, lease_resumed_post;
route_handler lease_file_post, lease_snapshot_post;
route_handler mount_ready_post, mount_version_post, mount_closed_post, lease_process_post;
route_handler lease_secrets_post, lease_relay_get;
route_handler lease_ops_post;
route_handler object_get, object_put;
route_handler image_lookup_post, image_record_post, images_needed_post;

/* The authorize hook for PERM_WORKER routes. */
bool worker_authorize(struct call *call, struct error *err);

/* Whether the call comes from the newest process of a worker that is not lost. */
bool worker_check(struct call *call, struct tx *tx, int64_t epoch, enum worker_state *state,
                  struct error *err) MUST_USE;

/* Body in, by its table; answer out, by its table. */
bool worker_read(struct call *call, const struct json_field *fields, void *into, size_t size,
                 struct error *err) MUST_USE;
bool worker_answer(struct response *res, const struct json_field *fields, const void *from,
                   struct error *err) MUST_USE;
bool worker_answer_nothing(struct response *res, struct error *err) MUST_USE;

/* What there is for a poll. */
enum offer {
    OFFER_NONE,   /* nothing is to be given out */
    OFFER_OTHERS, /* something that this worker cannot take */
    OFFER_BACK,   /* what this worker has just rejected */
    OFFER_WORK,
};

/* Claims work for a poll: grants go to the list, at most what fits the room. */
struct claim {
    struct server *server;
    struct arena *arena;
    const char *worker_id, *group_id, *arch;
    const char *compat, *key_id; /* of the checkpoints it can go on from; NULL: none */
    int64_t epoch, grade;
    bool runs, resumes, builds, mounts;
    bool has_rules; /* it can deny networks to a sandbox */
    struct wire_room room;
    const struct wire_warm *warm; /* what the worker has ready */
    struct wire_grant *grants;
    size_t n_grants, max_grants, n_bytes; /* n_bytes: payloads in the list */
    enum offer offer;                     /* as last seen: before a claim, and what it left */
};

/* Whether one more grant fits into the answer. */
bool dispatch_has_place(const struct claim *claim);

bool dispatch_claim(struct claim *claim, struct error *err) MUST_USE;

/* What a claim would get now. */
bool dispatch_look(struct claim *claim, struct tx *tx, struct error *err) MUST_USE;

/* Of what comes next and its equals, the rows of claim_next, the one the worker has something ready
 * for; else the first stays. The item is then a row of claim_equals, whose columns begin alike. */
bool dispatch_prefer_warm(struct claim *claim, struct tx *tx, struct rows *item,
                          struct error *err) MUST_USE;

/* Takes the lock of the worker's group: until the commit no lease of it is granted. It comes
 * before every other lock. */
bool dispatch_lock(struct tx *tx, const char *worker_id, struct error *err) MUST_USE;

/* The grant of a lease, into the list. Does nothing when the list is full or the answer would
 * become too large: an unheard one is sent with a later poll. */
bool dispatch_grant(struct claim *claim, struct tx *tx, const char *lease_id,
                    struct error *err) MUST_USE;
