#include "server/server.h"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "http/tls.h"
#include "server/account.h"
#include "server/audit.h"
#include "server/audit_checkpoint.h"
#include "server/audit_start.h"
#include "server/caller.h"
#include "server/collect.h"
#include "server/context.h"
#include "server/headers.h"
#include "server/listen.h"
#include "server/preview.h"
#include "server/preview_grant.h"
#include "server/relay.h"
#include "server/routes.h"
#include "server/seed.h"
#include "server/sweep.h"
#include "server/worker_plane.h"

enum {
    POOL_THREADS = 8,
    READERS = 8,
    BUSY_MS = 10 * 1000,
    CONNECTIONS_MAX = 20000,
    HEAD_MS = 10 * 1000,
    BODY_MS = 30 * 1000,
    IDLE_MS = 60 * 1000,
    WRITE_MS = 30 * 1000,
    GRACE_MS = 10 * 1000,
    PATH_TEXT = 4096,
};

#define JSON_MAX ((size_t)32 * 1024 * 1024)

static const char *method_name(enum http_method method)
{
    switch (method) {
    case METHOD_GET: return "GET";
    case METHOD_HEAD: return "HEAD";
    case METHOD_POST: return "POST";
    case METHOD_PUT: return "PUT";
    case METHOD_PATCH: return "PATCH";
    case METHOD_DELETE: return "DELETE";
    case METHOD_OPTIONS: return "OPTIONS";
    case METHOD_UNKNOWN: break;
    }
    return "";
}

static void answered(const struct call *call, int status, int64_t took_ms)
{
    const struct log_field fields[] = {
        LOG_STR("id", call->id),
        LOG_STR("method", method_name(call->request->method)),
        LOG_SLICE("path", call->path),
        LOG_INT("status", status),
        LOG_INT("ms", took_ms),
        LOG_STR("client", call_client_address(call)),
        LOG_STR("error", call->failure ? call->failure : ""),
    };
    size_t n = COUNT_OF(fields) - (call->failure ? 0 : 1);
    log_write(call->failure ? LOG_ERROR : LOG_DEBUG, "request", fields, n);
}

/* SQLite is one server's; PostgreSQL may be shared. */
static bool take_lock(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    char path[PATH_TEXT];
    if (!config->data_dir)
        return true;
    snprintf(path, sizeof path, "%s/run", config->data_dir);
    if (!directory_make(path, 0700, err))
        return false;
    if (strncmp(config->database_url, "sqlite:", 7) != 0)
        return true;
    snprintf(path, sizeof path, "%s/run/server.lock", config->data_dir);
    if (file_lock(path, &server->lock_fd, err))
        return true;
    return err->code == ERR_CONFLICT
               ? error_set(err, ERR_CONFLICT, "another server runs on %s", config->data_dir)
               : error_wrap(err, "locking the data directory");
}

static bool open_storage(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    struct store_config store = {.url = config->database_url,
                                 .readers = READERS,
                                 .pool_size = (int)config->database_pool,
                                 .busy_ms = BUSY_MS};
    if (config->data_dir && !directory_make(config->data_dir, 0700, err))
        return false;
    if (!take_lock(server, err))
        return false;
    if (!store_open(&store, &server->store, err))
        return error_wrap(err, "opening the database");
    if (!config->no_migrate && !store_migrate(server->store, err))
        return error_wrap(err, "migrating the database");

    int have, want;
    if (!store_schema_version(server->store, &have, &want, err))
        return false;
    if (have != want)
        return error_set(err, ERR_CONFLICT,
                         "the schema is version %d and this program needs %d: run `helmr server "
                         "migrate`",
                         have, want);
    return directory_make(config->store_dir, 0700, err) &&
           blob_store_open(config->store_dir, &server->blobs, err);
}

/* A browser told to insist on HTTPS for localhost would do so for every other program there. */
static bool is_known_by_name(const struct server_config *config)
{
    return config->public_url ? !listen_url_is_loopback(config->public_url)
                              : !listen_address_is_loopback(config->address);
}

static bool open_tls(struct server *server, struct error *err)
{
    const struct tls_files files = {
        .certificate = server->config->tls_certificate,
        .key = server->config->tls_key,
        .certificate_setting = "HELMR_TLS_CERT_FILE",
        .key_setting = "HELMR_TLS_KEY_FILE",
    };
    return !files.certificate || tls_create(&files, &server->tls, err);
}

/* The same limits for both; previews have a table and a judge of their own. */
static bool start_http(struct server *server, struct error *err)
{
    struct http_config http = {
        .loop = server->loop,
        .pool = server->pool,
        .routes = server_routes,
        .n_routes = n_server_routes,
        .app = server,
        .authorize = caller_authorize,
        .is_passing = store_is_retryable,
        .refused = audit_denied,
        .answered = answered,
        .spool_dir = server->spool_dir,
        .json_max = JSON_MAX,
        .connections_max = CONNECTIONS_MAX,
        .head_timeout_ms = HEAD_MS,
        .body_timeout_ms = BODY_MS,
        .idle_timeout_ms = IDLE_MS,
        .write_timeout_ms = WRITE_MS,
        .response_headers = headers_for_all,
        .secure_headers = is_known_by_name(server->config) ? headers_for_https : NULL,
        .proxies = server->config->trusted_proxies ? &server->config->proxies : NULL,
    };
    if (!http_server_create(&http, &server->http, err) || !server->config->preview_url)
        return server->http;
    http.routes = preview_routes;
    http.n_routes = n_preview_routes;
    http.authorize = preview_authorize;
    http.refused = NULL;
    http.response_headers = preview_headers;
    http.secure_headers = NULL;
    return http_server_create(&http, &server->preview_http, err) &&
           http_server_listen_tls(server->preview_http, server->config->preview_address,
                                  server->tls, err);
}

static bool listen_everywhere(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    char path[PATH_TEXT];
    if (!http_server_listen_tls(server->http, config->address, server->tls, err))
        return false;
    server->is_loopback_only = listen_address_is_loopback(config->address);

    const char *colon = strrchr(config->address, ':');
    int host_len = colon ? (int)(colon - config->address) : (int)strlen(config->address);
    char *url = NULL;
    if (!config->public_url &&
        asprintf(&url, "%s://%.*s:%d", server->tls ? "https" : "http", host_len, config->address,
                 http_server_port(server->http)) < 0)
        abort();
    server->own_url = url;
    server->public_url = config->public_url ? config->public_url : url;

    if (!config->data_dir)
        return true;
    snprintf(path, sizeof path, "unix:%s/run/server.sock", config->data_dir);
    return http_server_listen(server->http, path, err);
}

static bool start(struct server *server, struct error *err)
{
    const struct server_config *config = server->config;
    snprintf(server->spool_dir, sizeof server->spool_dir, "%s/tmp", config->store_dir);
    const struct key_sources sources = {config->data_dir, &config->master_key, &config->former_keys,
                                        &config->bootstrap_token};
    return keys_load(&sources, &server->keys, err) && open_storage(server, err) &&
           server_seed(server, err) && audit_checkpoint_begin(server, err) &&
           audit_start(server, err) && loop_create(&server->loop, err) &&
           pool_create(POOL_THREADS, &server->pool, err) && open_tls(server, err) &&
           start_http(server, err) && listen_everywhere(server, err) &&
           account_offer_setup(server, err) && hub_start(&server->hub, server, err) &&
           sweeper_start(server, &server->sweeper, err) &&
           collector_start(server, &server->collector, err);
}

bool server_create(const struct server_config *config, struct server **made, struct error *err)
{
    struct server *server = alloc(sizeof *server);
    *server = (struct server){.config = config, .lock_fd = -1};
    server->hub.server = server;
    server->relays = relays_create(&server->hub);
    server->previews = previews_create();
    caller_cache_init(&server->callers);
    rate_init(&server->rate);
    oidc_cache_init(&server->oidc);
    server->authorize_worker = worker_authorize;
    if (!start(server, err)) {
        server_destroy(server);
        return false;
    }
    log_info("listening", LOG_STR("address", config->address), LOG_INT("port", server_port(server)),
             LOG_STR("version", HELMR_VERSION));
    *made = server;
    return true;
}

void server_destroy(struct server *server)
{
    if (!server)
        return;
    collector_stop(server->collector);
    sweeper_stop(server->sweeper);
    hub_stop(&server->hub);
    /* Its threads may still be in a handler, which uses all the rest. */
    pool_destroy(server->pool);
    http_server_destroy(server->preview_http);
    http_server_destroy(server->http);
    relays_destroy(server->relays);
    previews_destroy(server->previews);
    if (server->sweeper)
        audit_checkpoint_renew(server, true);
    tls_destroy(server->tls);
    loop_destroy(server->loop);
    blob_store_close(server->blobs);
    store_close(server->store);
    caller_cache_finish(&server->callers);
    rate_finish(&server->rate);
    oidc_cache_finish(&server->oidc);
    keys_finish(&server->keys);
    free(server->own_url);
    if (server->lock_fd >= 0)
        close(server->lock_fd);
    free(server);
}

int server_port(const struct server *server)
{
    return http_server_port(server->http);
}

bool server_run(struct server *server, struct error *err)
{
    return loop_run(server->loop, err);
}

static void is_shut_down(void *arg)
{
    struct server *server = arg;
    if (--server->n_listening == 0)
        loop_stop(server->loop);
}

static void shut_down(void *arg)
{
    struct server *server = arg;
    if (server->is_stopping)
        return;
    server->is_stopping = true;
    log_info("stopping");
    server->n_listening = server->preview_http ? 2 : 1;
    http_server_shutdown(server->http, GRACE_MS, is_shut_down, server);
    if (server->preview_http)
        http_server_shutdown(server->preview_http, GRACE_MS, is_shut_down, server);
}

void server_stop(struct server *server)
{
    loop_post(server->loop, shut_down, server);
}

static void signalled(void *arg, int number UNUSED)
{
    shut_down(arg);
}

/* Every stream is a descriptor; what passes through this memory is never written to a core file. */
static bool set_limits(struct error *err)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return error_errno(err, "getrlimit");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_CORE, &(struct rlimit){0}) != 0)
        return error_errno(err, "setrlimit");
    return true;
}

/* Once, on stdout: it is for a person and in no log. */
static void print_setup(struct server *server)
{
    if (!*server->setup_token)
        return;
    printf("setup: %s/setup?token=%s\n", server->public_url, server->setup_token);
    (void)fflush(stdout);
    bytes_wipe(server->setup_token, sizeof server->setup_token);
}

bool server_main(const struct server_config *config, struct error *err)
{
    /* Before any thread exists, so that all of them inherit the mask. */
    static const int numbers[] = {SIGTERM, SIGINT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        sigaddset(&set, numbers[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return error_errno(err, "block signals");
    (void)signal(SIGPIPE, SIG_IGN);
    (void)umask(077);
    if (!set_limits(err))
        return false;

    struct server *server = NULL;
    if (!server_create(config, &server, err))
        return false;
    print_setup(server);
    bool ok = loop_signals(server->loop, numbers, COUNT_OF(numbers), signalled, server, err) &&
              server_run(server, err);
    server_destroy(server);
    return ok;
}
