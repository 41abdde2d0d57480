/* The server's state: made once before the first request, then shared by every handler.
 *
 * All of it may be used from any thread; what changes is behind its own lock.
 */
#pragma once

#include "base/id.h"
#include "base/loop.h"
#include "base/pool.h"
#include "blob/blob.h"
#include "http/server.h"
#include "server/caller_cache.h"
#include "server/config.h"
#include "server/hub.h"
#include "server/keys.h"
#include "server/oidc_provider.h"
#include "server/password.h"
#include "server/rate.h"
#include "store/store.h"

#define API_VERSION "2026-06-06"

struct previews;
struct relays;

struct server {
    const struct server_config *config;
    struct store *store;
    struct blob_store *blobs;
    struct keys keys;
    struct caller_cache callers;
    struct password_gate passwords;
    struct rate rate;
    struct oidc_cache oidc;
    struct hub hub;
    struct relays *relays;
    struct loop *loop;
    struct pool *pool;
    struct http_server *http;
    struct http_server *preview_http; /* of previews and nothing else; NULL: they are off */
    struct previews *previews;
    struct tls *tls; /* of the TCP listener; NULL: it speaks in the clear */
    struct sweeper *sweeper;
    struct collector *collector;
    _Atomic int64_t refusals_ms[UINT8_MAX + 1]; /* when one of that slot was last audited */
    _Atomic int64_t audit_checkpoint_at,
        audit_checkpoint_ms; /* its entry, when next; of the sweeper */
    bool audit_is_cut;       /* the checkpoint is not in the log */
    char spool_dir[512];     /* uploads on their way */
    char organization_id[ID_TEXT];
    char owner_id[ID_TEXT];       /* the local owner */
    char setup_token[TOKEN_TEXT]; /* that makes the first owner, where it was made here */
    const char *public_url;       /* lives as long as the server */
    char *own_url;                /* the same, when none is configured; owned */
    int lock_fd;                  /* of the data directory; -1: none */
    bool is_stopping;             /* of the loop's thread */
    int n_listening;              /* HTTP servers that are not stopped; of the loop's thread */
    bool is_loopback_only; /* every TCP listener is loopback, so that dev login may be offered */
    /* Who a worker is, by its own bearer; set by the worker plane. NULL: there is none. */
    bool (*authorize_worker)(struct call *call, struct error *err);
};

static inline struct server *server_of(const struct call *call)
{
    return call->app;
}
