/* The pollers: two ask for work while there is room, one listens for messages always. */
#include <poll.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "base/wait.h"
#include "worker/mail.h"
#include "worker/worker.h"

enum {
    WAIT_MS = 25 * 1000,
    CALL_TIMEOUT_MS = WAIT_MS + 15 * 1000,
    BACKOFF_MS = 500,
    ROOM_WAIT_MS = 1000,
    REJECT_TIMEOUT_MS = 5 * 1000,
};

void worker_room_grew(struct worker *worker)
{
    pthread_mutex_lock(&worker->room_lock);
    pthread_cond_broadcast(&worker->room_grew);
    pthread_mutex_unlock(&worker->room_lock);
}

static bool is_ending(struct worker *worker)
{
    return worker->stopping || worker->fenced;
}

static struct room room_of(const struct wire_grant *grant)
{
    const struct wire_sandbox *sandbox =
        grant->has_mount ? &grant->mount.sandbox : &grant->run.sandbox;

    if (grant->has_build)
        return (struct room){.build_slots = 1};
    return (struct room){
        .cpu_millis = sandbox->vcpus * 1000,
        .memory_mib = sandbox->memory_mib,
        .disk_mib = sandbox->disk_mib,
        .slots = 1,
    };
}

static void reject(struct worker *worker, struct line *line, const struct wire_grant *grant,
                   const char *text)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct wire_reject refusal = {
        .fence = {worker->link.epoch, grant->sequence, grant->lease_id},
        .layer = STR("guest_runtime"),
        .failure_kind = STR("boot_failed"),
        .stage = STR("claim"),
        .text = str_of(text),
        .retryable = true,
    };
    struct error err;
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%.*s/reject", (int)grant->lease_id.len,
                              grant->lease_id.ptr),
        .request_fields = wire_reject_fields,
        .request = &refusal,
        .timeout_ms = REJECT_TIMEOUT_MS,
    };

    if (!line_call(line, &exchange, &arena, &err))
        log_warn("lease not rejected", LOG_SLICE("lease", grant->lease_id), LOG_ERR(&err));
}

/* Both pollers may bring the same grant: a poll that began before the other's answer came does
 * not name it. Only under one lock is a lease known, or refused for lack of room, but never both.
 */
static struct lease *take_grant(struct worker *worker, const struct wire_grant *grant,
                                bool *is_known)
{
    struct room wanted = room_of(grant);
    struct lease *lease = NULL;

    pthread_mutex_lock(&worker->room_lock);
    *is_known = lease_is_known(&worker->leases, grant->lease_id);
    if (!*is_known && capacity_claim(&worker->capacity, wanted)) {
        lease = lease_add(&worker->leases, worker, grant, worker->rules.lease_ttl_ms);
        lease->taken = wanted;
    }
    pthread_mutex_unlock(&worker->room_lock);
    return lease;
}

typedef void *lease_main(void *lease);

/* NULL for a grant of nothing, or of more than one thing. */
static lease_main *main_of(const struct wire_grant *grant)
{
    if (grant->has_run + grant->has_build + grant->has_mount != 1)
        return NULL;
    return grant->has_run ? run_main : grant->has_build ? build_main : mount_main;
}

static void accept_grant(struct worker *worker, struct line *line, const struct wire_grant *grant)
{
    bool is_known = false;

    lease_main *main = main_of(grant);

    if (!main) {
        reject(worker, line, grant, "the grant is no run, build or mount");
        return;
    }
    struct lease *lease = take_grant(worker, grant, &is_known);
    if (!lease && !is_known)
        reject(worker, line, grant, "the worker has no room for it");
    if (!lease)
        return;
    log_info("lease taken", LOG_STR("lease", lease->id), LOG_SLICE("kind", grant->kind));
    if (pthread_create(&lease->thread, NULL, main, lease) != 0)
        abort();
}

static bool has_room(const struct room *room, bool for_builds)
{
    if (for_builds)
        return room->build_slots > 0;
    return room->slots > 0 && room->cpu_millis > 0 && room->memory_mib > 0;
}

static bool poll_once(struct worker *worker, struct line *line, struct json_list accept,
                      struct room room, struct wire_poll_answer *answer, struct arena *arena)
{
    struct wire_poll request = {
        .epoch = worker->link.epoch,
        .cursor = worker->message_cursor,
        .wait_ms = WAIT_MS,
        .accept = accept,
        .room = {room.cpu_millis, room.memory_mib, room.disk_mib, room.slots, room.build_slots},
        .known = lease_ids(&worker->leases, arena),
    };
    if (accept.n > 0)
        request.warm = warm_list(&worker->warm, arena);
    struct error err;
    const struct exchange exchange = {
        .route = "poll",
        .request_fields = wire_poll_fields,
        .request = &request,
        .answer_fields = wire_poll_answer_fields,
        .answer = answer,
        .answer_size = sizeof *answer,
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    if (line_call(line, &exchange, arena, &err))
        return true;
    if (!is_ending(worker)) {
        log_debug("poll failed", LOG_ERR(&err));
        poll(NULL, 0, BACKOFF_MS);
    }
    return false;
}

/* Waits until there is room to offer; false when the worker stops. */
static bool wait_for_room(struct worker *worker, bool for_builds, struct room *room)
{
    pthread_mutex_lock(&worker->room_lock);
    for (;;) {
        *room = capacity_free(&worker->capacity);
        if (is_ending(worker) || (has_room(room, for_builds) && !atomic_load(&worker->draining)))
            break;
        wait_ms(&worker->room_grew, &worker->room_lock, ROOM_WAIT_MS);
    }
    pthread_mutex_unlock(&worker->room_lock);
    return !is_ending(worker);
}

/* Runs and builds are asked for apart: a poll that waits for one must not keep the other from
 * being asked for the moment there is room for it. */
static void *poll_for_work(struct worker *worker, bool for_builds)
{
    static const struct str kinds[] = {STR("build"), STR("run"), STR("mount"), STR("resume")};
    const struct str *accepted = for_builds ? &kinds[0] : &kinds[1];
    size_t n_accepted = for_builds ? 1 : worker->saves ? 3 : 2;
    struct line line;
    struct error err;
    struct room room;

    if (!settings_has_role(worker->settings, accepted[0].ptr))
        return NULL;
    if (!line_open(&worker->link, &line, &err)) {
        log_error("poller cannot start", LOG_ERR(&err));
        return NULL;
    }
    line.abort = &worker->stopping;
    while (wait_for_room(worker, for_builds, &room)) {
        AUTO(arena_finish) struct arena arena = {0};
        struct wire_poll_answer answer = {0};

        if (!poll_once(worker, &line, (struct json_list){(void *)accepted, n_accepted}, room,
                       &answer, &arena))
            continue;
        const struct wire_grant *grants = answer.grants.items;
        for (size_t i = 0; i < answer.grants.n; i++)
            accept_grant(worker, &line, &grants[i]);
        lease_reap(&worker->leases);
    }
    line_close(&line);
    return NULL;
}

void *run_poller_main(void *arg)
{
    return poll_for_work(arg, false);
}

void *build_poller_main(void *arg)
{
    return poll_for_work(arg, true);
}

static void drain(struct worker *worker)
{
    atomic_store(&worker->draining, true);
    lease_park_all(&worker->leases);
}

static void take_message(struct worker *worker, const struct wire_message *message)
{
    if (str_equal(message->type, STR("cancel")))
        lease_cancel(&worker->leases, message->lease_id, message->reason, message->force);
    else if (str_equal(message->type, STR("wait_settled")))
        lease_answer(&worker->leases, message->lease_id, message->wait_id, message->decision);
    else if (str_equal(message->type, STR("park_now")))
        lease_park(&worker->leases, message->lease_id);
    else if (str_equal(message->type, STR("drain")))
        drain(worker);
    else if (str_equal(message->type, STR("undrain")))
        atomic_store(&worker->draining, false);
    else if (message->lease_id.len > 0)
        mail_post(&worker->leases, message);
    else
        log_warn("unknown message", LOG_SLICE("type", message->type));
    if (message->cursor > worker->message_cursor)
        worker->message_cursor = message->cursor;
}

void *message_poller_main(void *arg)
{
    struct worker *worker = arg;
    struct line line;
    struct error err;

    if (!line_open(&worker->link, &line, &err)) {
        log_error("message poller cannot start", LOG_ERR(&err));
        return NULL;
    }
    line.abort = &worker->is_quiet;
    /* Cancels are heard while the worker winds down, too. */
    while (!worker->fenced && !worker->is_quiet) {
        AUTO(arena_finish) struct arena arena = {0};
        struct wire_poll_answer answer = {0};

        if (!poll_once(worker, &line, (struct json_list){0}, (struct room){0}, &answer, &arena))
            continue;
        const struct wire_message *messages = answer.messages.items;
        for (size_t i = 0; i < answer.messages.n; i++)
            take_message(worker, &messages[i]);
    }
    line_close(&line);
    return NULL;
}
