/* The keeper: heartbeats, renewals and the bearer, on a thread of its own so that no
 * sandbox's work can delay them. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/time.h"
#include "worker/worker.h"

enum {
    TICK_MS = 250,
    HEARTBEAT_MS = 10 * 1000,
    CALL_TIMEOUT_MS = 5 * 1000,
    RENEW_MOST_MS = 10 * 1000,
    RENEWALS = 6, /* tried in the life of a lease: some may fail before it ends */
    RENEW_RETRY_MS = 1000,
    QUARANTINED_MAX = 64,
    HOST_TICK_MS = 1000,
};

struct keeper {
    struct worker *worker;
    struct line line;
    int64_t heartbeat_ms, host_tick_ms, number;
};

/* Somebody else is this worker now: nothing of ours may reach the server again. */
static void fence_off(struct worker *worker)
{
    if (worker->fenced)
        return;
    log_error("a newer process of this worker is active; stopping");
    worker->fenced = true;
    worker->is_quiet = true;
    worker->stopping = true;
    lease_stop_all(&worker->leases);
}

static void note_failure(struct worker *worker, const char *what, const struct error *err)
{
    if (err->code == ERR_EPOCH_SUPERSEDED)
        fence_off(worker);
    else
        log_warn(what, LOG_ERR(err));
}

static struct json_list quarantined_ids(struct worker *worker, struct arena *arena)
{
    struct reclaimed *list = arena_array(arena, QUARANTINED_MAX, sizeof *list);
    size_t n = engine_host_quarantined(worker->host, list, QUARANTINED_MAX);
    struct str *ids = arena_array(arena, n + 1, sizeof *ids);

    for (size_t i = 0; i < n; i++)
        ids[i] = str_of(list[i].instance_id);
    return (struct json_list){ids, n};
}

static void obey(struct worker *worker, const struct wire_heartbeat_answer *answer,
                 struct arena *arena)
{
    bool drain = !str_equal(answer->desired_state, STR("active"));
    const struct str *unknown = answer->unknown_leases.items;

    if (atomic_exchange(&worker->draining, drain) != drain)
        log_info("worker state", LOG_SLICE("state", answer->desired_state));
    for (size_t i = 0; i < answer->unknown_leases.n; i++)
        lease_mark_stale(&worker->leases, arena_text(arena, unknown[i]));
}

static void heartbeat(struct keeper *keeper)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct worker *worker = keeper->worker;
    struct room room = capacity_free(&worker->capacity);
    struct wire_heartbeat beat = {
        .epoch = worker->link.epoch,
        .number = ++keeper->number,
        .room = {room.cpu_millis, room.memory_mib, room.disk_mib, room.slots, room.build_slots},
        .quarantined = quarantined_ids(worker, &arena),
        .instances = lease_instances(&worker->leases, &arena),
    };
    struct wire_heartbeat_answer answer = {0};
    struct error err;
    const struct exchange exchange = {
        .route = "heartbeat",
        .request_fields = wire_heartbeat_fields,
        .request = &beat,
        ANSWER(wire_heartbeat_answer_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    if (line_call(&keeper->line, &exchange, &arena, &err))
        obey(worker, &answer, &arena);
    else
        note_failure(worker, "heartbeat failed", &err);
}

static void renew_bearer(struct keeper *keeper)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct link *link = &keeper->worker->link;
    struct wire_bearer wanted = {.worker_id = str_of(link->worker_id), .epoch = link->epoch};
    struct wire_bearer_given given = {0};
    struct error err;

    pthread_mutex_lock(&link->lock);
    wanted.credential = secret_reveal(&link->credential);
    pthread_mutex_unlock(&link->lock);

    const struct exchange exchange = {
        .route = "bearer",
        .request_fields = wire_bearer_fields,
        .request = &wanted,
        ANSWER(wire_bearer_given_fields, given),
        .timeout_ms = CALL_TIMEOUT_MS,
        .without_bearer = true,
        .is_secret = true,
    };
    bool fine = line_call(&keeper->line, &exchange, &arena, &err);
    if (fine)
        link_set_bearer(link, given.bearer, given.bearer_expires_ms - time_now_ms());
    if (!fine || !link_set_store_keys(link, &given.store_keys, &err))
        note_failure(keeper->worker, "bearer not renewed", &err);
}

/* What a renewal needs, copied so that no lock is held over the call. */
struct due {
    char id[ID_TEXT];
    int64_t sequence, expires_ms, active_ms;
};

static size_t collect_due(struct worker *worker, struct due *due, size_t max)
{
    struct lease_table *table = &worker->leases;
    int64_t now = time_boot_ms();
    size_t n = 0;

    pthread_mutex_lock(&table->lock);
    for (struct lease *lease = table->first; lease && n < max; lease = lease->next) {
        if (lease->is_over || lease->is_stale || lease->renew_ms > now)
            continue;
        due[n].sequence = lease->sequence;
        due[n].expires_ms = lease->expires_ms;
        due[n].active_ms = lease->running_ms ? now - lease->running_ms : 0;
        memcpy(due[n++].id, lease->id, ID_TEXT);
    }
    pthread_mutex_unlock(&table->lock);
    return n;
}

static int64_t renew_period(const struct worker *worker)
{
    int64_t part = worker->rules.lease_ttl_ms / RENEWALS;

    return part < RENEW_MOST_MS ? part : RENEW_MOST_MS;
}

static void note_renewal(struct worker *worker, const struct due *due, int64_t sent_ms,
                         const struct wire_lease_times *times)
{
    struct lease_table *table = &worker->leases;

    pthread_mutex_lock(&table->lock);
    for (struct lease *lease = table->first; lease; lease = lease->next) {
        if (strcmp(lease->id, due->id) != 0)
            continue;
        if (!times) {
            lease->renew_ms = sent_ms + RENEW_RETRY_MS;
            break;
        }
        lease->expires_ms = times->expires_ms;
        lease->fence_ms = sent_ms + worker->rules.lease_ttl_ms * 3 / 4;
        lease->renew_ms = sent_ms + renew_period(worker);
        /* The thread tells the guest how long it may go on. */
        eventfd_write(lease->wake, 1);
        break;
    }
    pthread_mutex_unlock(&table->lock);
}

static void renew(struct keeper *keeper, const struct due *due)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct worker *worker = keeper->worker;
    struct wire_renew wanted = {
        .fence = {worker->link.epoch, due->sequence, str_of(due->id)},
        .expires_ms = due->expires_ms,
        .active_ms = due->active_ms,
    };
    struct wire_lease_times times;
    struct error err;
    int64_t sent_ms = time_boot_ms();
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%s/renew", due->id),
        .request_fields = wire_renew_fields,
        .request = &wanted,
        ANSWER(wire_lease_times_fields, times),
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    if (line_call(&keeper->line, &exchange, &arena, &err)) {
        note_renewal(worker, due, sent_ms, &times);
        return;
    }
    if (err.code == ERR_LEASE_STALE || err.code == ERR_NOT_FOUND) {
        lease_mark_stale(&worker->leases, due->id);
        return;
    }
    note_failure(worker, "lease not renewed", &err);
    note_renewal(worker, due, sent_ms, NULL);
}

static void tick(struct keeper *keeper)
{
    struct worker *worker = keeper->worker;
    struct due due[64];
    int64_t now = time_boot_ms();

    if (now >= worker->link.bearer_renew_ms)
        renew_bearer(keeper);
    size_t n = collect_due(worker, due, COUNT_OF(due));
    for (size_t i = 0; i < n && !worker->fenced; i++)
        renew(keeper, &due[i]);
    if (now >= keeper->heartbeat_ms) {
        keeper->heartbeat_ms = now + HEARTBEAT_MS;
        heartbeat(keeper);
    }
    if (now >= keeper->host_tick_ms) {
        keeper->host_tick_ms = now + HOST_TICK_MS;
        engine_host_tick(worker->host);
    }
}

void *keeper_main(void *arg)
{
    struct keeper keeper = {.worker = arg};
    struct error err;

    if (!line_open(&keeper.worker->link, &keeper.line, &err)) {
        log_error("keeper cannot start", LOG_ERR(&err));
        return NULL;
    }
    /* Leases are renewed while the worker stops, too: until the last of them is over. */
    keeper.line.abort = &keeper.worker->is_quiet;
    while (!keeper.worker->fenced && !keeper.worker->is_quiet) {
        tick(&keeper);
        poll(NULL, 0, TICK_MS);
    }
    line_close(&keeper.line);
    return NULL;
}
