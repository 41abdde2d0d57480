/* What a request wants of a schedule, read and checked before the database is touched. */
#pragma once

#include "http/call.h"
#include "server/schedule_store.h"

enum schedule_wish { WISH_NONE, WISH_ACTIVE, WISH_INACTIVE };

struct schedule_request {
    struct str key; /* of a POST; ptr NULL in a PUT, which may not name it */
    struct str task_id, cron, timezone, external_id;
    struct str options, secret_bindings; /* canonical JSON; of the bindings ptr NULL: none */
    bool is_pinned;
    enum schedule_wish wish;
};

bool schedule_request_read(struct call *call, bool has_key, struct schedule_request *request,
                           struct error *err) MUST_USE;

/* Makes a schedule, new or known, what is asked for. Without a wish a new one is active, a known
 * one stays switched on or off, and what was errored becomes active. */
bool schedule_request_apply(const struct schedule_request *request, struct server *server,
                            struct tx *tx, bool is_new, int64_t now, struct arena *arena,
                            struct schedule *schedule, struct error *err) MUST_USE;
