/* Starting a run: the request of a caller, the slot of a schedule and the next turn of a session
 * come through here.
 *
 * Session, workspace, run, its place in the queue and its first event are made in the caller's
 * transaction, so there are all of them or none.
 */
#pragma once

#include "server/hub.h"
#include "server/run_spec.h"
#include "server/task_secrets.h"

enum { TRACE_TEXT = 33 };

/* What a new session gets beside its task; zeroed: nothing. */
struct session_terms {
    struct str external_id, metadata, tags; /* ptr NULL: none */
    struct str fingerprint;                 /* of the request, in bytes; ptr NULL: none */
    int64_t expires_ms;                     /* 0: never */
};

/* The run that one of the same session follows. */
struct run_before {
    const char *run_id;
    int64_t turn_index;
};

struct run_start {
    /* who starts, and what; the caller's */
    struct tx *tx;
    struct arena *arena;
    const char *environment_id;
    const struct run_spec *spec;
    const char *reason; /* "api", "schedule", … */
    struct str cause;   /* JSON object; ptr NULL: none */
    const char *source; /* of the first event; NULL: control */
    bool drops_payload; /* a task that takes no payload is started without */
    int64_t now;
    struct session_terms session;    /* of a new one */
    const struct run_before *before; /* the session of session_id goes on; NULL: a new one */
    bool joins_workspace;            /* the workspace of workspace_id is there already */

    /* what came of it */
    struct rows found; /* RUN_START_FIND_*, one row */
    char run_id[ID_TEXT], session_id[ID_TEXT], workspace_id[ID_TEXT], lane_id[ID_TEXT];
    char trace_id[TRACE_TEXT];
    int64_t score, ttl_ms, max_duration_seconds;
    struct str payload, queue, retry_policy, base_version;
    struct task_bindings secrets; /* .missing is set where that is why it was refused */
};

/* New ids for run, session and workspace. */
void run_start_make_ids(struct run_start *start);

/* Whether it may start, and on which terms: deployment, task, queue and secrets are there, and the
 * workspace is free (then it is locked). */
bool run_start_prepare(struct run_start *start, struct error *err) MUST_USE;

/* Makes it, after run_start_prepare. A conflict that may pass when another session has got the
 * external_id meanwhile. */
bool run_start_insert(struct run_start *start, struct wakes *wakes, struct error *err) MUST_USE;
