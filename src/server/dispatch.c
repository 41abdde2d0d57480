/* The dispatcher: which ready item a poll gets. One group's claims come one after the other,
 * under its row's lock; each is one indexed query, a lease, and the move of its subject. */
#include <stdio.h>

#include "base/time.h"
#include "server/event.h"
#include "server/lease.h"
#include "server/resume.h"
#include "server/worker_plane.h"
#include "store/queries.h"

/* PAYLOADS_MAX: an answer holds one payload of any size, or many small ones. */
enum { ASSIGNED_MS = 60 * 1000, ENV_MAX = 1024 * 1024, PAYLOADS_MAX = 8 * 1024 * 1024 };

static struct str column(const struct rows *rows, size_t at)
{
    return row_str(rows, 0, at);
}

/* network: {"internet": bool, "deny": [CIDR …], …} */
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

static bool has_place(const struct claim *claim)
{
    return claim->n_grants < claim->max_grants && claim->n_bytes < PAYLOADS_MAX;
}

bool dispatch_grant(struct claim *claim, struct tx *tx, const char *lease_id, struct error *err)
{
    struct wire_grant *grant = &claim->grants[claim->n_grants];

    if (!has_place(claim))
        return true;
    *grant = (struct wire_grant){0};
    if (!run_grant_of(claim, tx, lease_id, grant, err) ||
        (grant->has_run ? !resume_grant_of(claim, tx, lease_id, grant, err)
                        : !build_grant_of(claim, tx, lease_id, grant, err)))
        return false;
    if (!grant->has_run && !grant->has_build)
        return error_set(err, ERR_INTERNAL, "lease %s has no subject", lease_id);
    claim->n_grants++;
    claim->n_bytes += grant->run.payload.len + grant->resume.decision.len;
    return true;
}

static bool assigned_event(struct tx *tx, const char *run_id, const char *lease_id,
                           const char *worker_id, int64_t attempt, int64_t number,
                           struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = 1024};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_string(&json, "lease_id", lease_id);
    json_string(&json, "worker_id", worker_id);
    json_int(&json, "dispatch_number", number);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "run.lease_assigned",
                                .attempt = attempt,
                                .attributes = buf_str(&text)};
    return run_event_append(tx, run_id, &event, err);
}

static bool insert_lease(struct claim *claim, struct tx *tx, const struct rows *item,
                         const char *lease_id, int64_t attempt, int64_t sequence, struct error *err)
{
    int64_t now = time_now_ms();
    bool is_build = str_equal(column(item, CLAIM_NEXT_KIND), STR("build"));

    return STORE(tx, &lease_insert, NULL, NULL, err, V_TEXT(lease_id),
                 V_TEXT(is_build ? "build" : "run"), V_STR(column(item, CLAIM_NEXT_SUBJECT_ID)),
                 V_STR(column(item, CLAIM_NEXT_ENVIRONMENT_ID)),
                 V_STR(column(item, CLAIM_NEXT_LANE_ID)), V_INT(attempt), V_INT(sequence),
                 V_TEXT(claim->worker_id), V_INT(claim->epoch), V_INT(now),
                 V_INT(now + claim->server->config->lease_ttl_ms), V_INT(now + ASSIGNED_MS));
}

/* Moves the subject out of the queue; *moved is false when somebody else was faster. */
static bool lease_subject(struct claim *claim, struct tx *tx, const struct rows *item,
                          const char *lease_id, bool *moved, struct wakes *wakes, struct error *err)
{
    const char *subject = row_text(item, 0, CLAIM_NEXT_SUBJECT_ID);
    struct rows rows;

    if (str_equal(column(item, CLAIM_NEXT_KIND), STR("build"))) {
        if (!STORE(tx, &build_lease, claim->arena, &rows, err, V_TEXT(subject),
                   V_INT(time_now_ms())))
            return false;
        *moved = rows.n_rows == 1;
        return !*moved ||
               insert_lease(claim, tx, item, lease_id, row_int(&rows, 0, BUILD_LEASE_BUILD_NUMBER),
                            row_int(&rows, 0, BUILD_LEASE_LEASE_SEQUENCE), err);
    }
    if (!STORE(tx, &run_lease, claim->arena, &rows, err, V_TEXT(subject),
               V_TEXT(run_state_name(RUN_QUEUED)), V_TEXT(run_state_name(RUN_LEASED)),
               V_INT(time_now_ms())))
        return false;
    *moved = rows.n_rows == 1;
    if (!*moved)
        return true;
    wakes_add(wakes, "run:", subject);
    if (str_equal(column(item, CLAIM_NEXT_KIND), STR("resume")) &&
        !resume_take(tx, subject, lease_id, err))
        return false;
    int64_t attempt = row_int(&rows, 0, RUN_LEASE_ATTEMPT);
    return insert_lease(claim, tx, item, lease_id, attempt,
                        row_int(&rows, 0, RUN_LEASE_LEASE_SEQUENCE), err) &&
           assigned_event(tx, subject, lease_id, claim->worker_id, attempt,
                          row_int(&rows, 0, RUN_LEASE_DISPATCHES), err);
}

static void take_room(struct claim *claim)
{
    const struct wire_grant *grant = &claim->grants[claim->n_grants - 1];

    if (grant->has_build) {
        claim->room.build_slots--;
        return;
    }
    claim->room.slots--;
    claim->room.cpu_millis -= grant->run.sandbox.vcpus * 1000;
    claim->room.memory_mib -= grant->run.sandbox.memory_mib;
    claim->room.disk_mib -= grant->run.sandbox.disk_mib;
}

static bool find_next(struct claim *claim, struct tx *tx, struct rows *item, struct error *err)
{
    bool runs = claim->runs && claim->room.slots > 0;
    bool resumes = claim->resumes && claim->compat && claim->room.slots > 0;
    bool builds = claim->builds && claim->room.build_slots > 0;

    *item = (struct rows){0};
    if (!runs && !resumes && !builds)
        return true;
    return STORE(tx, &claim_next, claim->arena, item, err, V_TEXT(claim->group_id),
                 V_INT(time_now_ms()), V_INT(runs), V_INT(builds), V_INT(claim->room.cpu_millis),
                 V_INT(claim->room.memory_mib), V_INT(claim->room.disk_mib), V_INT(claim->grade),
                 V_TEXT(claim->arch ? claim->arch : ""), V_INT(resumes),
                 V_TEXT(resumes ? claim->compat : ""), V_TEXT(resumes ? claim->key_id : ""));
}

bool dispatch_has_work(struct claim *claim, struct tx *tx, bool *has, struct error *err)
{
    struct rows item;

    if (!find_next(claim, tx, &item, err))
        return false;
    *has = item.n_rows > 0;
    return true;
}

bool dispatch_lock(struct tx *tx, const char *worker_id, struct error *err)
{
    return STORE(tx, &worker_group_lock, NULL, NULL, err, V_TEXT(worker_id));
}

/* The subject is locked before its row in the queue, as those do who end it there. */
static bool claim_all(struct claim *claim, struct tx *tx, struct wakes *wakes, struct error *err)
{
    while (has_place(claim)) {
        char lease_id[ID_TEXT];
        struct rows item, rows;
        bool moved;

        if (!find_next(claim, tx, &item, err))
            return false;
        if (item.n_rows == 0)
            return true;
        id_make(lease_id);
        if (!lease_subject(claim, tx, &item, lease_id, &moved, wakes, err) ||
            !STORE(tx, &ready_take, claim->arena, &rows, err, V_STR(column(&item, CLAIM_NEXT_ID))))
            return false;
        if (!moved)
            continue;
        if (!dispatch_grant(claim, tx, lease_id, err))
            return false;
        take_room(claim);
    }
    return true;
}

/* Under the group's lock the worker cannot be superseded, drained or lost any more. */
static bool may_claim(struct claim *claim, struct tx *tx, bool *may, struct error *err)
{
    struct rows group, worker;

    if (!STORE(tx, &group_lock, claim->arena, &group, err, V_TEXT(claim->group_id)) ||
        !STORE(tx, &worker_epoch, claim->arena, &worker, err, V_TEXT(claim->worker_id)))
        return false;
    *may = group.n_rows == 1 && str_equal(column(&group, GROUP_LOCK_STATE), STR("active")) &&
           worker.n_rows == 1 && row_int(&worker, 0, WORKER_EPOCH_EPOCH) == claim->epoch &&
           str_equal(column(&worker, WORKER_EPOCH_STATE), STR("active"));
    return true;
}

bool dispatch_claim(struct claim *claim, struct error *err)
{
    struct server *server = claim->server;
    struct wakes wakes = {0};
    bool may;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) || !may_claim(claim, tx, &may, err))
        return false;
    if (!may)
        return true;
    return claim_all(claim, tx, &wakes, err) && hub_commit(&server->hub, &tx, &wakes, err);
}
