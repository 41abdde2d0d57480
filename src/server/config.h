/* What a server is told at its start: flags, then HELMR_* variables, then helmr.env in the data
 * directory, then defaults. Every value is checked here; an error names the variable.
 */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/secret.h"
#include "http/peer.h"

struct server_config {
    const char *data_dir;
    const char *database_url; /* sqlite:<path> or postgres://… */
    int64_t database_pool;
    const char *store_dir; /* of the file: store */
    const char *address;   /* host:port */
    const char *public_url;
    const char *preview_url;               /* an origin; NULL: there are no previews */
    const char *preview_address;           /* host:port of them; both or none */
    const char *worker_groups;             /* comma list */
    const char *tls_certificate, *tls_key; /* paths; both or none */
    const char *trusted_proxies;           /* as written; NULL: none */
    struct proxies proxies;
    const char *oidc_issuer; /* NULL: no sign-in by OpenID Connect */
    const char *oidc_client_id;
    bool plain_http;
    bool dev_login; /* wanted; it also needs every listener to be loopback */
    bool no_migrate;
    int64_t lease_ttl_ms, cancel_grace_ms, max_dispatches;
    int64_t schedule_jitter_ms;      /* most that a schedule fires late by its own offset */
    int64_t hot_time_ms;             /* before a pending wait is parked */
    int64_t workspace_idle_ms;       /* after which an unused mount is captured and ends */
    int64_t checkpoint_retention_ms; /* after the wait's release; of versions beside it, too */
    int64_t version_retention_ms;    /* of other versions; 0: for ever */
    int64_t versions_kept;           /* of those the newest of a workspace stay, however old */
    enum log_level log_level;
    enum log_format log_format;
    struct secret master_key;         /* as configured: base64 of 32 bytes; unset: the key file */
    struct secret former_keys;        /* a comma list of the same; unset: the file of former keys */
    struct secret bootstrap_token;    /* unset: the key file */
    struct secret oidc_client_secret; /* unset: a public client */
    struct secret setup_token;        /* unset: one is made when there is no owner */
};

struct server_flags {
    const char *data_dir, *address; /* NULL: not given */
    bool no_migrate;
};

/* Text lives in the arena. */
bool server_config_load(const struct server_flags *flags, struct arena *arena,
                        struct server_config *config, struct error *err) MUST_USE;
void server_config_finish(struct server_config *config);
