/* Sessions of people: opened at a sign-in with a fresh token, kept by its hash, carried by a
 * browser in a cookie and by the command line as a bearer.
 *
 * A session ends 7 days after its last use, 30 days after it was opened, or when it is revoked.
 */
#pragma once

#include "server/keys.h"
#include "store/store.h"

struct call;
struct response;
struct server;

#define SESSION_IDLE_MS  (INT64_C(7) * 24 * 60 * 60 * 1000)
#define SESSION_TOTAL_MS (INT64_C(30) * 24 * 60 * 60 * 1000)

/* Over https the prefix makes browsers insist on Secure, on Path=/ and on no Domain. */
#define SESSION_COOKIE        "helmr_session_dev"
#define SESSION_COOKIE_SECURE "__Host-helmr_session"

/* The name of the cookie here, by the scheme of the public URL. */
const char *session_cookie_name(const struct server *server);

bool session_open(struct tx *tx, const struct server *server, const char *user_id,
                  char token[TOKEN_TEXT], struct error *err) MUST_USE;

/* A sign-in, for the audit log; in the same transaction. */
bool session_audit(const struct call *call, struct tx *tx, const char *user_id,
                   struct error *err) MUST_USE;

/* Ends the session the browser came with, opens a new one and commits: a token that somebody
 * knew before a sign-in is worth nothing after it. */
bool session_begin(struct call *call, struct tx **tx, const char *user_id, char token[TOKEN_TEXT],
                   struct error *err) MUST_USE;

/* A new token for the session of a call that came by cookie; of a bearer's nothing changes. */
bool session_rotate(struct call *call, struct response *res, struct tx *tx,
                    struct error *err) MUST_USE;

/* An empty token takes the cookie away. */
bool session_set_cookie(struct call *call, struct response *res, const char *token,
                        struct error *err) MUST_USE;

/* A cookie of this name out of the request. */
bool session_find_cookie(const struct call *call, const char *name, struct str *value);

/* Whether the Origin is this server's; without one only when it is not required. ERR_ORIGIN. */
bool session_check_origin(const struct call *call, bool is_required, struct error *err) MUST_USE;

/* Where to go after a sign-in: a path of this server, else "/". In the arena. */
const char *session_next(struct call *call, struct str next);

/* {redirect_after} and the cookie; wipes the token. */
bool session_answer(struct call *call, struct response *res, int status, char token[TOKEN_TEXT],
                    struct str next, struct error *err) MUST_USE;
