#include "worker/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/own.h"
#include "base/time.h"
#include "worker/mail.h"
#include "worker/worker.h"

static const char *stage_name(enum lease_stage stage)
{
    switch (stage) {
    case LEASE_STARTING: return "starting";
    case LEASE_RUNNING: return "running";
    case LEASE_ENDING: return "ending";
    }
    return "invalid";
}

void lease_table_init(struct lease_table *table)
{
    *table = (struct lease_table){0};
    pthread_mutex_init(&table->lock, NULL);
    pthread_cond_init(&table->changed, NULL);
}

void lease_table_finish(struct lease_table *table)
{
    mail_drop(&table->early);
    pthread_mutex_destroy(&table->lock);
    pthread_cond_destroy(&table->changed);
}

struct lease *lease_find(struct lease_table *table, struct str id)
{
    for (struct lease *lease = table->first; lease; lease = lease->next)
        if (str_equal(str_of(lease->id), id))
            return lease;
    return NULL;
}

static void copy_id(char to[ID_TEXT], struct str from)
{
    snprintf(to, ID_TEXT, "%.*s", (int)from.len, from.ptr);
}

static void wake(struct lease *lease)
{
    if (eventfd_write(lease->wake, 1) != 0)
        abort(); /* the counter cannot overflow: it is read whole */
}

/* Written and read again, into the lease's own memory: the one in hand dies with its answer. */
static void keep_grant(struct lease *lease, const struct wire_grant *grant)
{
    AUTO(buf_finish) struct buf text = {.max = (size_t)2 * WIRE_JSON_MAX};
    struct json_writer writer = json_begin(&text);
    struct error err;

    wire_write(&writer, NULL, wire_grant_fields, grant);
    if (!json_end(&writer, &err) || !json_read(buf_str(&text), wire_grant_fields, &lease->grant,
                                               sizeof lease->grant, &lease->arena, &err))
        abort(); /* it was valid when it came */
}

bool lease_is_known(struct lease_table *table, struct str id)
{
    pthread_mutex_lock(&table->lock);
    bool known = lease_find(table, id);
    pthread_mutex_unlock(&table->lock);
    return known;
}

struct lease *lease_add(struct lease_table *table, struct worker *worker,
                        const struct wire_grant *grant, int64_t ttl_ms)
{
    struct lease *lease = alloc(sizeof *lease);

    *lease = (struct lease){.worker = worker, .sequence = grant->sequence};
    keep_grant(lease, grant);
    copy_id(lease->id, grant->lease_id);
    id_make(lease->instance_id);
    lease->expires_ms = grant->expires_ms;
    lease->fence_ms = time_boot_ms() + ttl_ms * 3 / 4;
    lease->renew_ms = time_boot_ms() + ttl_ms / 6;
    lease->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lease->wake < 0)
        abort();

    pthread_mutex_lock(&table->lock);
    lease->next = table->first;
    table->first = lease;
    table->count++;
    mail_adopt(table, lease);
    pthread_mutex_unlock(&table->lock);
    return lease;
}

struct lease_view lease_look(struct lease *lease)
{
    struct lease_table *table = &lease->worker->leases;

    pthread_mutex_lock(&table->lock);
    struct lease_view view = {
        .fence_ms = lease->fence_ms,
        .is_stale = lease->is_stale,
        .cancel_wanted = lease->cancel_wanted,
        .cancel_forced = lease->cancel_forced,
        .stop_wanted = lease->stop_wanted,
        .park_wanted = lease->park_wanted,
        .has_answer = lease->answer,
        .has_mail = lease->mail.first,
        .has_lost_mail = lease->has_lost_mail,
    };
    memcpy(view.cancel_reason, lease->cancel_reason, sizeof view.cancel_reason);
    pthread_mutex_unlock(&table->lock);
    return view;
}

void lease_set_stage(struct lease *lease, enum lease_stage stage)
{
    pthread_mutex_lock(&lease->worker->leases.lock);
    lease->stage = stage;
    if (stage == LEASE_RUNNING)
        lease->running_ms = time_boot_ms();
    pthread_mutex_unlock(&lease->worker->leases.lock);
}

void lease_renew_instance(struct lease *lease)
{
    pthread_mutex_lock(&lease->worker->leases.lock);
    id_make(lease->instance_id);
    pthread_mutex_unlock(&lease->worker->leases.lock);
}

void lease_set_expiry(struct lease *lease, int64_t expires_ms)
{
    pthread_mutex_lock(&lease->worker->leases.lock);
    lease->expires_ms = expires_ms;
    pthread_mutex_unlock(&lease->worker->leases.lock);
}

void lease_mark_stale(struct lease_table *table, const char *id)
{
    pthread_mutex_lock(&table->lock);
    struct lease *lease = lease_find(table, str_of(id));
    if (lease && !lease->is_stale) {
        lease->is_stale = lease->is_unwanted = true;
        wake(lease);
    }
    pthread_mutex_unlock(&table->lock);
}

void lease_cancel(struct lease_table *table, struct str id, struct str reason, bool force)
{
    pthread_mutex_lock(&table->lock);
    struct lease *lease = lease_find(table, id);
    if (lease) {
        lease->cancel_wanted = lease->is_unwanted = true;
        lease->cancel_forced |= force;
        snprintf(lease->cancel_reason, sizeof lease->cancel_reason, "%.*s",
                 (int)(reason.len > 255 ? 255 : reason.len), reason.ptr ? reason.ptr : "");
        wake(lease);
    }
    pthread_mutex_unlock(&table->lock);
}

void lease_stop_all(struct lease_table *table)
{
    pthread_mutex_lock(&table->lock);
    for (struct lease *lease = table->first; lease; lease = lease->next) {
        lease->stop_wanted = lease->is_unwanted = true;
        wake(lease);
    }
    pthread_mutex_unlock(&table->lock);
}

void lease_answer(struct lease_table *table, struct str id, struct str wait_id, struct str answer)
{
    pthread_mutex_lock(&table->lock);
    struct lease *lease = lease_find(table, id);
    if (lease) {
        copy_id(lease->answered_wait, wait_id);
        free(lease->answer);
        lease->answer = alloc(answer.len + 1);
        memcpy(lease->answer, answer.ptr, answer.len);
        lease->answer[answer.len] = '\0';
        wake(lease);
    }
    pthread_mutex_unlock(&table->lock);
}

void lease_park(struct lease_table *table, struct str id)
{
    pthread_mutex_lock(&table->lock);
    struct lease *lease = lease_find(table, id);
    if (lease) {
        lease->park_wanted = true;
        wake(lease);
    }
    pthread_mutex_unlock(&table->lock);
}

void lease_park_all(struct lease_table *table)
{
    pthread_mutex_lock(&table->lock);
    for (struct lease *lease = table->first; lease; lease = lease->next) {
        lease->park_wanted = true;
        wake(lease);
    }
    pthread_mutex_unlock(&table->lock);
}

bool lease_take_answer(struct lease *lease, const char *wait_id, struct arena *arena,
                       struct str *answer)
{
    struct lease_table *table = &lease->worker->leases;

    pthread_mutex_lock(&table->lock);
    char *came = TAKE(lease->answer);
    bool is_its = came && strcmp(lease->answered_wait, wait_id) == 0;
    pthread_mutex_unlock(&table->lock);
    /* Of another wait: of one that is over, told once more. */
    if (is_its)
        *answer = arena_str(arena, str_of(came));
    free(came);
    return is_its;
}

bool lease_take_park(struct lease *lease)
{
    pthread_mutex_lock(&lease->worker->leases.lock);
    bool was_wanted = lease->park_wanted;
    lease->park_wanted = false;
    pthread_mutex_unlock(&lease->worker->leases.lock);
    return was_wanted;
}

void lease_done(struct lease *lease)
{
    struct worker *worker = lease->worker;

    capacity_give_back(&worker->capacity, lease->taken);
    pthread_mutex_lock(&worker->leases.lock);
    lease->is_over = true;
    pthread_cond_broadcast(&worker->leases.changed);
    pthread_mutex_unlock(&worker->leases.lock);
    worker_room_grew(worker);
}

size_t lease_reap(struct lease_table *table)
{
    struct lease *over = NULL;

    pthread_mutex_lock(&table->lock);
    for (struct lease **at = &table->first; *at;) {
        struct lease *lease = *at;
        if (!lease->is_over) {
            at = &lease->next;
            continue;
        }
        *at = lease->next;
        table->count--;
        lease->next = over;
        over = lease;
    }
    size_t left = table->count;
    pthread_mutex_unlock(&table->lock);

    while (over) {
        struct lease *lease = over;
        over = lease->next;
        pthread_join(lease->thread, NULL);
        close(lease->wake);
        arena_finish(&lease->arena);
        free(lease->answer);
        mail_drop(&lease->mail);
        free(lease);
    }
    return left;
}

struct json_list lease_ids(struct lease_table *table, struct arena *arena)
{
    size_t n = 0;

    pthread_mutex_lock(&table->lock);
    struct str *ids = arena_array(arena, table->count + 1, sizeof *ids);
    for (struct lease *lease = table->first; lease; lease = lease->next)
        if (!lease->is_over)
            ids[n++] = arena_str(arena, str_of(lease->id));
    pthread_mutex_unlock(&table->lock);
    return (struct json_list){ids, n};
}

struct json_list lease_instances(struct lease_table *table, struct arena *arena)
{
    size_t n = 0;

    pthread_mutex_lock(&table->lock);
    struct wire_instance *list = arena_array(arena, table->count + 1, sizeof *list);
    for (struct lease *lease = table->first; lease; lease = lease->next)
        list[n++] = (struct wire_instance){
            .instance_id = arena_str(arena, str_of(lease->instance_id)),
            .lease_id = arena_str(arena, str_of(lease->id)),
            .sequence = lease->sequence,
            .state = str_of(stage_name(lease->stage)),
        };
    pthread_mutex_unlock(&table->lock);
    return (struct json_list){list, n};
}
