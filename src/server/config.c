#include "server/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "model/duration.h"
#include "server/listen.h"

enum {
    DATABASE_POOL_MAX = 256,
    DISPATCHES_MAX = 1000,
    VERSIONS_MAX = 100000,
    SETUP_TOKEN_MIN = 16,
    SETUP_TOKEN_MAX = 128,
    DAY_MS = 24 * 3600 * 1000
};

/* Every variable the product reads, whoever reads it; others are worth a warning. */
static const char *const known_variables[] = {
    "HELMR_API_URL",
    "HELMR_API_KEY",
    "HELMR_CONFIG_DIR",
    "HELMR_DATA_DIR",
    "HELMR_DATABASE_URL",
    "HELMR_DATABASE_POOL",
    "HELMR_CAS_URI",
    "HELMR_S3_ENDPOINT",
    "HELMR_S3_REGION",
    "HELMR_S3_ACCESS_KEY_ID",
    "HELMR_S3_SECRET_ACCESS_KEY",
    "HELMR_S3_PATH_STYLE",
    "HELMR_CONTROL_ADDR",
    "HELMR_PUBLIC_URL",
    "HELMR_PREVIEW_URL",
    "HELMR_PREVIEW_ADDR",
    "HELMR_TLS_CERT_FILE",
    "HELMR_TLS_KEY_FILE",
    "HELMR_TRUSTED_PROXIES",
    "HELMR_PLAIN_HTTP",
    "HELMR_DEV_LOGIN",
    "HELMR_SETUP_TOKEN",
    "HELMR_OIDC_ISSUER",
    "HELMR_OIDC_CLIENT_ID",
    "HELMR_OIDC_CLIENT_SECRET",
    "HELMR_MASTER_KEY",
    "HELMR_MASTER_KEY_OLD",
    "HELMR_WORKER_BOOTSTRAP_TOKEN",
    "HELMR_WORKER_GROUPS",
    "HELMR_WAIT_HOT_TIME",
    "HELMR_WORKSPACE_IDLE_TIMEOUT",
    "HELMR_LEASE_TTL",
    "HELMR_RUN_MAX_DISPATCHES",
    "HELMR_CANCEL_GRACE",
    "HELMR_SCHEDULE_JITTER",
    "HELMR_EVENT_RETENTION",
    "HELMR_LOG_RETENTION",
    "HELMR_CHECKPOINT_RETENTION",
    "HELMR_VERSION_RETENTION",
    "HELMR_VERSIONS_KEPT",
    "HELMR_LOG_LEVEL",
    "HELMR_LOG_FORMAT",
    "HELMR_CONTROL_URL",
    "HELMR_CHECKPOINT_ENCRYPTION_KEY",
    "HELMR_WORKER_INSTANCE_CREDENTIAL_PATH",
    "HELMR_WORKER_RESOURCE_ID",
    "HELMR_WORKER_GROUP_ID",
    "HELMR_WORKER_ROLES",
    "HELMR_WORKER_LABELS",
    "HELMR_WORKER_WORK_DIR",
    "HELMR_WORKER_IMAGES_DIR",
    "HELMR_ENGINE",
    "HELMR_WORKER_BUILD_ENGINE",
    "HELMR_WORKER_GUEST_DIR",
    "HELMR_WORKER_QEMU_ACCEL",
    "HELMR_WORKER_FIRECRACKER_PATH",
    "HELMR_WORKER_JAILER_PATH",
    "HELMR_WORKER_QEMU_PATH",
    "HELMR_WORKER_RUNSC_PATH",
    "HELMR_WORKER_RUNC_PATH",
    "HELMR_WORKER_JAILER_UID_BASE",
    "HELMR_WORKER_JAILER_GID_BASE",
    "HELMR_WORKER_JAILER_CHROOT_DIR",
    "HELMR_WORKER_JAILER_CGROUP_PARENT",
    "HELMR_WORKER_CNI_PROFILE",
    "HELMR_WORKER_NETWORK",
    "HELMR_WORKER_DNS",
    "HELMR_WORKER_NETWORK_BLOCKED_CIDRS",
    "HELMR_WORKER_NETWORK_ALLOWED_CIDRS",
    "HELMR_REGISTRY_AUTH_FILE",
    "HELMR_REGISTRY_CA_FILE",
    "HELMR_IMAGE_PUSH_REPOSITORY",
    "HELMR_REGISTRY_MIRRORS",
    "HELMR_VM_VCPUS",
    "HELMR_VM_MEMORY_MIB",
    "HELMR_VM_SCRATCH_DISK_MIB",
    "HELMR_VM_HEALTH_TIMEOUT",
    "HELMR_VM_HEALTH_ATTEMPT_TIMEOUT",
    "HELMR_WORKSPACE_MOUNT_STARTUP_TIMEOUT",
    "HELMR_WORKSPACE_IDLE_TIMEOUT",
    "HELMR_WORKER_CAPACITY_VCPUS",
    "HELMR_WORKER_CAPACITY_MEMORY_MIB",
    "HELMR_WORKER_DISK_MIB",
    "HELMR_WORKER_DISK_RESERVE_MIB",
    "HELMR_WORKER_EXECUTION_SLOTS",
    "HELMR_WORKER_RUNTIME_STARTS",
    "HELMR_WORKER_BUILD_EXECUTORS",
    "HELMR_WORKER_STANDBYS",
    "HELMR_WORKER_TEMPLATE_CACHE_MAX_MIB",
    "HELMR_WORKER_ARTIFACT_CACHE_MAX_MIB",
    "HELMR_WORKER_DOCKER_POOL",

    NULL,
};

static bool read_duration(const struct env *env, const char *name, int64_t least, int64_t otherwise,
                          int64_t *ms, struct error *err)
{
    const char *text = env_find(env, name);
    *ms = otherwise;
    if (text && (!duration_parse(str_of(text), ms, err) || *ms < least))
        return error_set(err, ERR_INVALID, "%s must be a duration such as 30s", name);
    return true;
}

static bool read_database(const struct env *env, struct arena *arena, struct server_config *config,
                          struct error *err)
{
    const char *url = env_find(env, "HELMR_DATABASE_URL");
    if (!url && !config->data_dir)
        return error_set(err, ERR_INVALID, "HELMR_DATA_DIR or HELMR_DATABASE_URL must be set");
    config->database_url = url ? arena_text(arena, str_of(url))
                               : arena_printf(arena, "sqlite:%s/helmr.db", config->data_dir);
    return env_int(env, "HELMR_DATABASE_POOL", 1, DATABASE_POOL_MAX, 16, &config->database_pool,
                   err);
}

static bool read_store(const struct env *env, struct arena *arena, struct server_config *config,
                       struct error *err)
{
    const char *uri = env_find(env, "HELMR_CAS_URI");
    if (!uri && !config->data_dir)
        return error_set(err, ERR_INVALID, "HELMR_DATA_DIR or HELMR_CAS_URI must be set");
    if (uri && strncmp(uri, "file:", 5) != 0)
        return error_set(err, ERR_INVALID, "HELMR_CAS_URI must begin with file:");
    config->store_dir = uri ? arena_text(arena, str_of(uri + 5))
                            : arena_printf(arena, "%s/store", config->data_dir);
    return true;
}

static bool read_log(const struct env *env, struct server_config *config, struct error *err)
{
    const char *level = env_text(env, "HELMR_LOG_LEVEL", "info");
    const char *format = env_text(env, "HELMR_LOG_FORMAT", isatty(2) ? "text" : "json");
    if (!log_level_parse(str_of(level), &config->log_level))
        return error_set(err, ERR_INVALID, "HELMR_LOG_LEVEL must be debug, info, warn or error");
    if (strcmp(format, "text") != 0 && strcmp(format, "json") != 0)
        return error_set(err, ERR_INVALID, "HELMR_LOG_FORMAT must be text or json");
    config->log_format = strcmp(format, "json") == 0 ? LOG_JSON : LOG_TEXT;
    return true;
}

static bool read_tls(const struct env *env, struct arena *arena, struct server_config *config,
                     struct error *err)
{
    const char *certificate = env_find(env, "HELMR_TLS_CERT_FILE");
    const char *key = env_find(env, "HELMR_TLS_KEY_FILE");
    if (!certificate != !key)
        return error_set(err, ERR_INVALID, "%s is set and %s is not: TLS needs both",
                         key ? "HELMR_TLS_KEY_FILE" : "HELMR_TLS_CERT_FILE",
                         key ? "HELMR_TLS_CERT_FILE" : "HELMR_TLS_KEY_FILE");
    config->tls_certificate = certificate ? arena_text(arena, str_of(certificate)) : NULL;
    config->tls_key = key ? arena_text(arena, str_of(key)) : NULL;
    return true;
}

static bool read_proxies(const struct env *env, struct arena *arena, struct server_config *config,
                         struct error *err)
{
    const char *list = env_find(env, "HELMR_TRUSTED_PROXIES");
    config->trusted_proxies = list ? arena_text(arena, str_of(list)) : NULL;
    return !list || proxies_parse(list, &config->proxies, err) ||
           error_wrap(err, "HELMR_TRUSTED_PROXIES");
}

static bool check_url(const char *name, const char *url, const struct server_config *config,
                      struct error *err)
{
    bool is_secure = url && strncmp(url, "https://", 8) == 0;
    if (!url)
        return true;
    if (!is_secure && strncmp(url, "http://", 7) != 0)
        return error_set(err, ERR_INVALID, "%s must begin with https:// or http://", name);
    if (!is_secure && !listen_url_is_loopback(url) && !config->plain_http)
        return error_set(err, ERR_INVALID, "%s must be https when it is not loopback", name);
    if (!is_secure && config->tls_certificate && !config->trusted_proxies)
        return error_set(err, ERR_INVALID, "%s must be https: the server speaks TLS itself", name);
    return true;
}

static bool check_address(const char *name, const char *address, const struct server_config *config,
                          struct error *err)
{
    return listen_address_is_loopback(address) || config->tls_certificate ||
           config->trusted_proxies || config->plain_http ||
           error_set(err, ERR_INVALID,
                     "%s %s is not loopback: set HELMR_TLS_CERT_FILE and "
                     "HELMR_TLS_KEY_FILE; plain HTTP there needs HELMR_TRUSTED_PROXIES or "
                     "HELMR_PLAIN_HTTP=1",
                     name, address);
}

/* As a browser writes an origin: without a slash at the end. */
static const char *read_url(const struct env *env, const char *name, struct arena *arena)
{
    const char *url = env_find(env, name);
    size_t len = url ? strlen(url) : 0;
    while (len > 0 && url[len - 1] == '/')
        len--;
    return url ? arena_text(arena, (struct str){url, len}) : NULL;
}

static bool read_address(const struct env *env, const struct server_flags *flags,
                         struct arena *arena, struct server_config *config, struct error *err)
{
    const char *address =
        flags->address ? flags->address : env_text(env, "HELMR_CONTROL_ADDR", "127.0.0.1:8080");
    config->address = arena_text(arena, str_of(address));
    config->public_url = read_url(env, "HELMR_PUBLIC_URL", arena);
    if (!env_bool(env, "HELMR_PLAIN_HTTP", false, &config->plain_http, err) ||
        !read_tls(env, arena, config, err) || !read_proxies(env, arena, config, err))
        return false;
    return check_address("HELMR_CONTROL_ADDR", address, config, err) &&
           check_url("HELMR_PUBLIC_URL", config->public_url, config, err);
}

/* As browsers compare origins: without a path, in small letters, without the scheme's own port. */
static struct str origin_of(const char *url, struct arena *arena)
{
    const char *at = strstr(url, "://");
    size_t scheme = at ? (size_t)(at - url) + 3 : 0;
    char *text = arena_text(arena, (struct str){url, scheme + strcspn(url + scheme, "/?#")});
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            text[i] = (char)(text[i] - 'A' + 'a');
    const char *own = strncmp(text, "https:", 6) == 0 ? ":443" : ":80";
    size_t own_len = strlen(own);
    if (len > own_len && strcmp(text + len - own_len, own) == 0)
        len -= own_len;
    return (struct str){text, len};
}

/* Pages of sandboxes are strangers' pages: they never get the origin of the console. */
static bool check_preview_origin(const struct server_config *config, struct arena *arena,
                                 struct error *err)
{
    const char *url = config->preview_url, *rest = strstr(url, "://");
    const char *ours = config->public_url ? config->public_url
                                          : arena_printf(arena, "%s://%s",
                                                         config->tls_certificate ? "https" : "http",
                                                         config->address);
    if (!rest || !rest[3] || strpbrk(rest + 3, "/?#@ \\;\""))
        return error_set(err, ERR_INVALID, "HELMR_PREVIEW_URL must be an origin without a path");
    return !str_equal(origin_of(url, arena), origin_of(ours, arena)) ||
           error_set(err, ERR_INVALID,
                     "HELMR_PREVIEW_URL must be another origin than this server's own, %s", ours);
}

static bool read_previews(const struct env *env, struct arena *arena, struct server_config *config,
                          struct error *err)
{
    const char *address = env_find(env, "HELMR_PREVIEW_ADDR");
    config->preview_url = read_url(env, "HELMR_PREVIEW_URL", arena);
    config->preview_address = address ? arena_text(arena, str_of(address)) : NULL;
    if (!config->preview_url != !address)
        return error_set(err, ERR_INVALID, "%s is set and %s is not: previews need both",
                         address ? "HELMR_PREVIEW_ADDR" : "HELMR_PREVIEW_URL",
                         address ? "HELMR_PREVIEW_URL" : "HELMR_PREVIEW_ADDR");
    if (!address)
        return true;
    if (!check_url("HELMR_PREVIEW_URL", config->preview_url, config, err) ||
        !check_preview_origin(config, arena, err) ||
        !check_address("HELMR_PREVIEW_ADDR", address, config, err))
        return false;
    config->preview_url = arena_text(arena, origin_of(config->preview_url, arena));
    return true;
}

/* Whoever guesses it is the owner. */
static bool read_setup_token(const struct env *env, struct server_config *config, struct error *err)
{
    if (!env_secret(env, "HELMR_SETUP_TOKEN", &config->setup_token, err))
        return false;
    if (!secret_is_set(&config->setup_token))
        return true;
    size_t len = secret_reveal(&config->setup_token).len;
    return (len >= SETUP_TOKEN_MIN && len <= SETUP_TOKEN_MAX) ||
           error_set(err, ERR_INVALID, "HELMR_SETUP_TOKEN must have %d to %d bytes",
                     SETUP_TOKEN_MIN, SETUP_TOKEN_MAX);
}

static bool read_oidc(const struct env *env, struct arena *arena, struct server_config *config,
                      struct error *err)
{
    const char *issuer = env_find(env, "HELMR_OIDC_ISSUER");
    const char *client = env_find(env, "HELMR_OIDC_CLIENT_ID");
    if (!env_secret(env, "HELMR_OIDC_CLIENT_SECRET", &config->oidc_client_secret, err))
        return false;
    if (!issuer != !client)
        return error_set(err, ERR_INVALID,
                         "HELMR_OIDC_ISSUER and HELMR_OIDC_CLIENT_ID must be set together");
    if (!issuer)
        return true;
    if ((strncmp(issuer, "https://", 8) != 0 && !listen_url_is_loopback(issuer)) ||
        strpbrk(issuer, "?#"))
        return error_set(err, ERR_INVALID,
                         "HELMR_OIDC_ISSUER must be https or on loopback, without a query");
    config->oidc_issuer = arena_text(arena, str_of(issuer));
    config->oidc_client_id = arena_text(arena, str_of(client));
    return true;
}

static bool read_all(const struct env *env, const struct server_flags *flags, struct arena *arena,
                     struct server_config *config, struct error *err)
{
    const char *login = env_text(env, "HELMR_DEV_LOGIN", "auto");
    if (strcmp(login, "auto") != 0 && strcmp(login, "off") != 0)
        return error_set(err, ERR_INVALID, "HELMR_DEV_LOGIN must be auto or off");
    config->dev_login = strcmp(login, "auto") == 0;
    config->worker_groups =
        arena_text(arena, str_of(env_text(env, "HELMR_WORKER_GROUPS", "default")));
    return read_log(env, config, err) && read_database(env, arena, config, err) &&
           read_store(env, arena, config, err) && read_address(env, flags, arena, config, err) &&
           read_previews(env, arena, config, err) && read_oidc(env, arena, config, err) &&
           read_duration(env, "HELMR_LEASE_TTL", 1, 60000, &config->lease_ttl_ms, err) &&
           read_duration(env, "HELMR_CANCEL_GRACE", 1, 30000, &config->cancel_grace_ms, err) &&
           read_duration(env, "HELMR_WAIT_HOT_TIME", 0, 5000, &config->hot_time_ms, err) &&
           read_duration(env, "HELMR_WORKSPACE_IDLE_TIMEOUT", 1000, 300000,
                         &config->workspace_idle_ms, err) &&
           read_duration(env, "HELMR_SCHEDULE_JITTER", 0, 30000, &config->schedule_jitter_ms,
                         err) &&
           read_duration(env, "HELMR_CHECKPOINT_RETENTION", 0, DAY_MS,
                         &config->checkpoint_retention_ms, err) &&
           read_duration(env, "HELMR_VERSION_RETENTION", 0, 0, &config->version_retention_ms,
                         err) &&
           env_int(env, "HELMR_VERSIONS_KEPT", 1, VERSIONS_MAX, 10, &config->versions_kept, err) &&
           env_int(env, "HELMR_RUN_MAX_DISPATCHES", 1, DISPATCHES_MAX, 10, &config->max_dispatches,
                   err) &&
           env_secret(env, "HELMR_MASTER_KEY", &config->master_key, err) &&
           env_secret(env, "HELMR_MASTER_KEY_OLD", &config->former_keys, err) &&
           env_secret(env, "HELMR_WORKER_BOOTSTRAP_TOKEN", &config->bootstrap_token, err) &&
           read_setup_token(env, config, err);
}

static void warn_unknown(struct env *env)
{
    size_t at = 0;
    const char *name;
    while (env_unknown(env, "HELMR_", known_variables, &at, &name))
        log_warn("unknown variable", LOG_STR("name", name));
}

bool server_config_load(const struct server_flags *flags, struct arena *arena,
                        struct server_config *config, struct error *err)
{
    AUTO(env_finish) struct env env = {0};
    *config = (struct server_config){.no_migrate = flags->no_migrate};
    const char *data_dir = flags->data_dir ? flags->data_dir : env_find(&env, "HELMR_DATA_DIR");
    if (data_dir) {
        config->data_dir = arena_text(arena, str_of(data_dir));
        if (!env_load(&env, arena_printf(arena, "%s/helmr.env", data_dir), err))
            return false;
    }
    if (!read_all(&env, flags, arena, config, err)) {
        server_config_finish(config);
        return false;
    }
    log_setup(config->log_level, config->log_format, "server");
    warn_unknown(&env);
    return true;
}

void server_config_finish(struct server_config *config)
{
    secret_finish(&config->master_key);
    secret_finish(&config->former_keys);
    secret_finish(&config->bootstrap_token);
    secret_finish(&config->setup_token);
    secret_finish(&config->oidc_client_secret);
}
