/* Sessions of tasks as the server keeps them: one task, its runs in turn, one workspace. (Who is
 * signed in is session.h.)
 *
 * Every function works in the caller's transaction. Locks are taken in one order everywhere:
 * session, run, workspace; so nobody who holds a run locks its session.
 */
#pragma once

#include "base/id.h"
#include "http/call.h"
#include "model/session_state.h"
#include "server/context.h"
#include "store/store.h"

struct session_row {
    char id[ID_TEXT], environment_id[ID_TEXT], workspace_id[ID_TEXT];
    char active_deployment_id[ID_TEXT], current_run_id[ID_TEXT]; /* no run: "" */
    enum session_state state;
    int64_t expires_ms;                                 /* 0: never */
    struct str task_id, metadata, fingerprint, request; /* in the arena; ptr NULL: none */
};

/* ERR_SESSION_NOT_FOUND when there is none. */
bool task_session_load(struct tx *tx, const char *id, struct arena *arena,
                       struct session_row *session, struct error *err) MUST_USE;

/* The same, with the row locked until the end of the transaction. */
bool task_session_hold(struct tx *tx, const char *id, struct arena *arena,
                       struct session_row *session, struct error *err) MUST_USE;

/* Whether it takes anything yet: else ERR_SESSION_EXPIRED, also when that is only due, or
 * ERR_SESSION_TERMINAL. */
bool task_session_is_open(const struct session_row *session, int64_t now,
                          struct error *err) MUST_USE;

/* The id of the session that a path names: itself, or where the route says by-external-id by
 * ?external_id=. ERR_SESSION_NOT_FOUND when the caller's environment has none. */
bool task_session_of_call(struct call *call, struct tx *tx, char id[ID_TEXT],
                          struct error *err) MUST_USE;

/* The same in an environment that is not the caller's. */
bool task_session_in(struct call *call, struct tx *tx, const char *environment_id, char id[ID_TEXT],
                     struct error *err) MUST_USE;

/* The path's parameters behind the session, from 0. */
struct str task_session_param(const struct call *call, size_t index);

/* Ends it: a run that is not over is asked to end with it, or (SESSION_CLOSE) is a reason to
 * refuse. `by` is who, as caller_label writes it; the session is locked, and *session follows. */
struct session_ending {
    struct server *server;
    struct tx *tx;
    struct arena *arena;
    enum session_event on;
    struct str reason; /* ptr NULL: none */
    const char *by, *source;
    int64_t now;
};
bool task_session_end(const struct session_ending *ending, struct session_row *session,
                      struct wakes *wakes, struct error *err) MUST_USE;
