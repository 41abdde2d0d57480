/* Who asks, what they may do, and in which environment.
 *
 * authorize runs before every handler, so a handler of a route with a permission always has
 * a caller, and a handler of a scoped route always has an environment the caller may use.
 */
#pragma once

#include <stdint.h>

#include "base/hash.h"
#include "base/id.h"
#include "http/call.h"
#include "model/permission.h"

/* Needs of a route that are more than one permission; beside enum permission. */
enum need {
    NEED_ANY_CALLER = PERM_COUNT, /* a person or a key */
    NEED_DEPLOY_OR_READ,          /* tasks:deploy or runs:read */
    NEED_SANDBOX_READ,            /* those, or any workspace permission */
    NEED_RUN_AND_VERSIONS,        /* runs:read and workspace-versions:read */
    NEED_ANY_WORKSPACE,           /* any workspace permission */
    NEED_PUBLIC_GRANT,            /* one of what public access tokens are for */
    NEED_COUNT,
};

enum caller_kind { CALLER_NONE, CALLER_KEY, CALLER_SESSION, CALLER_WORKER };

enum { SCOPE_SLUG = 64, CALLER_NAME = 256, ROLE_TEXT = 16 };

struct scope {
    char environment_id[ID_TEXT], environment_slug[SCOPE_SLUG];
    char project_id[ID_TEXT], project_slug[SCOPE_SLUG];
};

struct caller {
    enum caller_kind kind;
    uint64_t permissions; /* bit per enum permission */
    char id[ID_TEXT];     /* of the key, the session or the worker */
    char user_id[ID_TEXT];
    char name[CALLER_NAME];  /* of the key, or the person's */
    char email[CALLER_NAME]; /* of a person */
    char role[ROLE_TEXT];
    char organization_id[ID_TEXT];
    int64_t expires_ms;        /* 0: never */
    struct scope scope;        /* a key's own; of a session the one of this call */
    int64_t epoch;             /* of a worker */
    uint8_t hash[BLAKE2B_LEN]; /* of the token of a key or session */
};

static inline const struct caller *caller_of(const struct call *call)
{
    return call->caller;
}

/* The environment of a scoped call. */
static inline const char *call_environment(const struct call *call)
{
    return caller_of(call)->scope.environment_id;
}

bool caller_may(const struct caller *caller, enum permission permission);

/* For events and operations: "user:<id>", "key:<id>". */
void caller_label(const struct caller *caller, char label[64]);

/* The authorize hook of the HTTP server. */
bool caller_authorize(struct call *call, struct error *err);

/* Who opened a stream, and for what; it outlives the call. */
struct caller_hold {
    struct server *server;
    enum caller_kind kind;
    int needs;
    uint8_t hash[BLAKE2B_LEN];
};
struct caller_hold caller_hold(const struct call *call);

/* Asked before every piece that is sent. Any thread. */
bool caller_still_may(const struct caller_hold *hold);

/* For the pages: the person signed in by cookie with the default environment. False when there
 * is none. */
bool caller_find(struct call *call, struct caller *caller);

/* Whether a person may sign in on this connection without a password. */
bool caller_is_local(const struct call *call);
