/* What a lease tells its worker: the run or build behind it, and where a run goes on from. */
#include <stdio.h>

#include "server/worker_plane.h"
#include "store/queries.h"

/* PAYLOADS_MAX: an answer holds one payload of any size, or many small ones. */
enum { ENV_MAX = 1024 * 1024, PAYLOADS_MAX = 8 * 1024 * 1024 };

static struct str column(const struct rows *rows, size_t at)
{
    return row_str(rows, 0, at);
}

/* network: {"internet": bool, "deny": [CIDR …], "ports": [number …]} */
static void read_network(struct str network, struct arena *arena, struct wire_sandbox *sandbox)
{
    size_t n = json_count(network, "deny");
    struct str *deny = arena_array(arena, n + 1, sizeof *deny);
    struct str internet = STR("true");

    json_find_raw(network, "internet", arena, &internet);
    sandbox->internet = !str_equal(internet, STR("false"));
    for (size_t i = 0; i < n; i++)
        json_find_text(network, arena_printf(arena, "deny.%zu", i), arena, &deny[i]);
    sandbox->deny = (struct json_list){deny, n};
    n = json_count(network, "ports");
    n = n < WIRE_PORTS_MAX ? n : WIRE_PORTS_MAX;
    struct str *ports = arena_array(arena, n + 1, sizeof *ports);
    for (size_t i = 0; i < n; i++)
        json_find_raw(network, arena_printf(arena, "ports.%zu", i), arena, &ports[i]);
    sandbox->ports = (struct json_list){ports, n};
}

/* A try has no row id of its own: the run's id, with the number of the try as its last digits. */
static const char *attempt_id_of(const struct wire_run_grant *run, struct arena *arena)
{
    return arena_printf(arena, "%.33s%03d", run->run_id.ptr, (int)(run->attempt % 1000));
}

static bool run_grant_of(struct claim *claim, struct tx *tx, const char *lease_id,
                         struct wire_grant *grant, struct error *err)
{
    struct wire_run_grant *run = &grant->run;
    struct rows rows;

    if (!STORE(tx, &run_grant, claim->arena, &rows, err, V_TEXT(lease_id)))
        return false;
    if (rows.n_rows == 0)
        return true;
    *grant = (struct wire_grant){
        .kind = STR("run"),
        .lease_id = column(&rows, RUN_GRANT_LEASE_ID),
        .environment_id = column(&rows, RUN_GRANT_ENVIRONMENT_ID),
        .project_id = column(&rows, RUN_GRANT_PROJECT_ID),
        .sequence = row_int(&rows, 0, RUN_GRANT_SEQUENCE),
        .expires_ms = row_int(&rows, 0, RUN_GRANT_EXPIRES_MS),
        .has_run = true,
    };
    *run = (struct wire_run_grant){
        .run_id = column(&rows, RUN_GRANT_RUN_ID),
        .session_id = column(&rows, RUN_GRANT_SESSION_ID),
        .workspace_id = column(&rows, RUN_GRANT_WORKSPACE_ID),
        .project = column(&rows, RUN_GRANT_PROJECT_SLUG),
        .attempt = row_int(&rows, 0, RUN_GRANT_ATTEMPT),
        .max_duration_ms = row_int(&rows, 0, RUN_GRANT_MAX_DURATION_SECONDS) * 1000,
        .task = {column(&rows, RUN_GRANT_TASK_ID), column(&rows, RUN_GRANT_FILE_PATH),
                 column(&rows, RUN_GRANT_EXPORT_NAME), row_int(&rows, 0, RUN_GRANT_PRELOAD) != 0},
        .deployment = {column(&rows, RUN_GRANT_DEPLOYMENT_ID),
                 column(&rows, RUN_GRANT_VERSION),
                 {column(&rows, RUN_GRANT_BUNDLE_DIGEST),
                        row_int(&rows, 0, RUN_GRANT_BUNDLE_BYTES)}},
        .sandbox = {.id = column(&rows, RUN_GRANT_SANDBOX_ID),
                 .image = column(&rows, RUN_GRANT_IMAGE_DIGEST),
                 .image_id = column(&rows, RUN_GRANT_IMAGE_ID),
                 .mount_path = column(&rows, RUN_GRANT_MOUNT_PATH),
                 .vcpus = row_int(&rows, 0, RUN_GRANT_CPU_MILLIS) / 1000,
                 .memory_mib = row_int(&rows, 0, RUN_GRANT_MEMORY_MIB),
                 .disk_mib = row_int(&rows, 0, RUN_GRANT_DISK_MIB)},
        .base_manifest = column(&rows, RUN_GRANT_BASE_MANIFEST),
        .payload = column(&rows, RUN_GRANT_PAYLOAD),
        .active_ms = row_int(&rows, 0, RUN_GRANT_ACTIVE_MS),
        .secret_names = column(&rows, RUN_GRANT_SECRET_NAMES),
    };
    run->attempt_id = str_of(attempt_id_of(run, claim->arena));
    read_network(column(&rows, RUN_GRANT_NETWORK), claim->arena, &run->sandbox);
    return true;
}

/* The sealed variables of a deployment, opened for the worker that evaluates it. */
static bool open_env(struct claim *claim, const struct rows *rows, struct json_map *env,
                     struct error *err)
{
    AUTO(buf_finish) struct buf plain = {.max = ENV_MAX};
    struct str sealed = column(rows, BUILD_GRANT_ENV_SEALED);
    struct {
        struct json_map env;
    } opened;
    static const struct json_field fields[] = {
        {"env", JSON_MAP, 0, REQUIRED, .max = 256},
        {0},
    };

    *env = (struct json_map){0};
    if (!sealed.ptr)
        return true;
    if (!keys_open(&claim->server->keys, KEY_SECRET, STR("deployment env"), sealed, &plain, err))
        return false;
    const char *wrapped = arena_printf(claim->arena, "{\"env\":%.*s}", (int)plain.len, plain.bytes);
    if (!json_read(str_of(wrapped), fields, &opened, sizeof opened, claim->arena, err))
        return false;
    *env = opened.env;
    return true;
}

static bool build_grant_of(struct claim *claim, struct tx *tx, const char *lease_id,
                           struct wire_grant *grant, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &build_grant, claim->arena, &rows, err, V_TEXT(lease_id)))
        return false;
    if (rows.n_rows == 0)
        return true;
    *grant = (struct wire_grant){
        .kind = STR("build"),
        .lease_id = column(&rows, BUILD_GRANT_LEASE_ID),
        .environment_id = column(&rows, BUILD_GRANT_ENVIRONMENT_ID),
        .project_id = column(&rows, BUILD_GRANT_PROJECT_ID),
        .sequence = row_int(&rows, 0, BUILD_GRANT_SEQUENCE),
        .expires_ms = row_int(&rows, 0, BUILD_GRANT_EXPIRES_MS),
        .has_build = true,
        .build = {.deployment_id = column(&rows, BUILD_GRANT_DEPLOYMENT_ID),
                  .version = column(&rows, BUILD_GRANT_VERSION),
                  .project = column(&rows, BUILD_GRANT_PROJECT_SLUG),
                  .source = {column(&rows, BUILD_GRANT_SOURCE_OBJECT_ID),
                             row_int(&rows, 0, BUILD_GRANT_SOURCE_BYTES)},
                  .no_cache = row_int(&rows, 0, BUILD_GRANT_NO_CACHE) != 0},
    };
    return open_env(claim, &rows, &grant->build.env, err);
}

/* The rest of the grant of a run that goes on from a checkpoint. */
static bool resume_grant_of(struct claim *claim, struct tx *tx, const char *lease_id,
                            struct wire_grant *grant, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &resume_grant, claim->arena, &rows, err, V_TEXT(lease_id)))
        return false;
    if (rows.n_rows == 0) {
        grant->run.active_ms = 0; /* from the start: nothing of its time is used */
        return true;
    }
    grant->kind = STR("resume");
    grant->has_resume = true;
    grant->resume = (struct wire_resume_grant){
        .wait_id = column(&rows, RESUME_GRANT_WAIT_ID),
        .checkpoint_id = column(&rows, RESUME_GRANT_CHECKPOINT_ID),
        .manifest = column(&rows, RESUME_GRANT_MANIFEST_ID),
        .key_id = column(&rows, RESUME_GRANT_KEY_ID),
        .op = row_int(&rows, 0, RESUME_GRANT_OP),
        .resume_version = row_int(&rows, 0, RESUME_GRANT_RESUME_VERSION),
        .settled_ms = row_int(&rows, 0, RESUME_GRANT_SETTLED_MS),
        .decision = column(&rows, RESUME_GRANT_DECISION),
    };
    struct str forked_from = column(&rows, RESUME_GRANT_FORKED_FROM);
    if (forked_from.ptr)
        json_find_text(forked_from, "run_id", claim->arena, &grant->resume.forked_from);
    return true;
}

static bool mount_grant_of(struct claim *claim, struct tx *tx, const char *lease_id,
                           struct wire_grant *grant, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &mount_grant, claim->arena, &rows, err, V_TEXT(lease_id)))
        return false;
    if (rows.n_rows == 0)
        return true;
    *grant = (struct wire_grant){
        .kind = STR("mount"),
        .lease_id = column(&rows, MOUNT_GRANT_LEASE_ID),
        .environment_id = column(&rows, MOUNT_GRANT_ENVIRONMENT_ID),
        .project_id = column(&rows, MOUNT_GRANT_PROJECT_ID),
        .sequence = row_int(&rows, 0, MOUNT_GRANT_SEQUENCE),
        .expires_ms = row_int(&rows, 0, MOUNT_GRANT_EXPIRES_MS),
        .has_mount = true,
    };
    grant->mount = (struct wire_mount_grant){
        .mount_id = column(&rows, MOUNT_GRANT_MOUNT_ID),
        .workspace_id = column(&rows, MOUNT_GRANT_WORKSPACE_ID),
        .project = column(&rows, MOUNT_GRANT_PROJECT_SLUG),
        .generation = row_int(&rows, 0, MOUNT_GRANT_FENCING_GENERATION),
        .idle_ms = claim->server->config->workspace_idle_ms,
        .deployment = {column(&rows, MOUNT_GRANT_DEPLOYMENT_ID),
                       column(&rows, MOUNT_GRANT_VERSION),
                       {column(&rows, MOUNT_GRANT_BUNDLE_DIGEST),
                        row_int(&rows, 0, MOUNT_GRANT_BUNDLE_BYTES)}},
        .sandbox = {.id = column(&rows, MOUNT_GRANT_SANDBOX_ID),
                       .image = column(&rows, MOUNT_GRANT_IMAGE_DIGEST),
                       .image_id = column(&rows, MOUNT_GRANT_IMAGE_ID),
                       .mount_path = column(&rows, MOUNT_GRANT_MOUNT_PATH),
                       .vcpus = row_int(&rows, 0, MOUNT_GRANT_CPU_MILLIS) / 1000,
                       .memory_mib = row_int(&rows, 0, MOUNT_GRANT_MEMORY_MIB),
                       .disk_mib = row_int(&rows, 0, MOUNT_GRANT_DISK_MIB)},
        .base_version_id = column(&rows, MOUNT_GRANT_BASE_VERSION_ID),
        .base_manifest = column(&rows, MOUNT_GRANT_BASE_MANIFEST),
    };
    read_network(column(&rows, MOUNT_GRANT_NETWORK), claim->arena, &grant->mount.sandbox);
    return true;
}

bool dispatch_has_place(const struct claim *claim)
{
    return claim->n_grants < claim->max_grants && claim->n_bytes < PAYLOADS_MAX;
}

bool dispatch_grant(struct claim *claim, struct tx *tx, const char *lease_id, struct error *err)
{
    struct wire_grant *grant = &claim->grants[claim->n_grants];

    if (!dispatch_has_place(claim))
        return true;
    *grant = (struct wire_grant){0};
    if (!run_grant_of(claim, tx, lease_id, grant, err) ||
        (grant->has_run ? !resume_grant_of(claim, tx, lease_id, grant, err)
                        : !build_grant_of(claim, tx, lease_id, grant, err)) ||
        (!grant->has_run && !grant->has_build && !mount_grant_of(claim, tx, lease_id, grant, err)))
        return false;
    if (!grant->has_run && !grant->has_build && !grant->has_mount)
        return error_set(err, ERR_INTERNAL, "lease %s has no subject", lease_id);
    claim->n_grants++;
    claim->n_bytes += grant->run.payload.len + grant->resume.decision.len;
    return true;
}
