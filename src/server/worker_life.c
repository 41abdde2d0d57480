/* A worker's own state: activation, heartbeats, the end of a drain. */
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "model/grade.h"
#include "model/worker_state.h"
#include "server/caller.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum { CAPABILITIES_MAX = 256 * 1024 };

static bool superseded(struct error *err)
{
    return error_set(err, ERR_EPOCH_SUPERSEDED, "a newer process of this worker is active");
}

static bool load_state(struct call *call, struct tx *tx, const char *id, int64_t *epoch,
                       enum worker_state *state, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &worker_epoch, call->arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no worker %s", id);
    *epoch = row_int(&rows, 0, WORKER_EPOCH_EPOCH);
    if (!worker_state_parse(row_str(&rows, 0, WORKER_EPOCH_STATE), state))
        return error_set(err, ERR_INTERNAL, "worker %s is in no known state", id);
    return true;
}

bool worker_check(struct call *call, struct tx *tx, int64_t epoch, enum worker_state *state,
                  struct error *err)
{
    const struct caller *caller = caller_of(call);
    int64_t newest = 0;

    if (!load_state(call, tx, caller->id, &newest, state, err))
        return false;
    if (newest != epoch || caller->epoch != epoch || *state == WORKER_LOST)
        return superseded(err);
    return true;
}

/* The same numbers as the least grade of an environment. */
static bool grade_number(struct str name, int64_t *number, struct error *err)
{
    enum grade grade;

    if (!grade_parse(name, &grade))
        return error_set(err, ERR_INVALID, "capabilities.grade is no grade");
    *number = (int64_t)grade;
    return true;
}

static struct str list_text(const struct json_list *list, struct arena *arena)
{
    struct buf text = {.max = CAPABILITIES_MAX};
    struct json_writer json = json_begin(&text);
    struct error err;

    json_open_list(&json, NULL);
    for (size_t i = 0; i < list->n; i++)
        json_text(&json, NULL, ((const struct str *)list->items)[i]);
    json_close_list(&json);
    struct str kept = json_end(&json, &err) ? arena_str(arena, buf_str(&text)) : STR("[]");
    buf_finish(&text);
    return kept;
}

/* What it may be given; a worker of none would wait for ever. */
static bool check_roles(const struct json_list *roles, struct error *err)
{
    const struct str *names = roles->items;

    for (size_t i = 0; i < roles->n; i++)
        if (!str_equal(names[i], STR("run")) && !str_equal(names[i], STR("build")))
            return error_set(err, ERR_INVALID, "/capabilities/roles: %.*s is neither run nor build",
                             (int)(names[i].len > 32 ? 32 : names[i].len), names[i].ptr);
    return roles->n > 0 || error_set(err, ERR_INVALID, "/capabilities/roles must not be empty");
}

bool worker_activate_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    const struct caller *caller = caller_of(call);
    AUTO(buf_finish) struct buf text = {.max = CAPABILITIES_MAX};
    struct json_writer json = json_begin(&text);
    struct wire_activate wanted;
    enum worker_state before = WORKER_LOST, after;
    struct rows rows;
    int64_t grade;
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_activate_fields, &wanted, sizeof wanted, err) ||
        !grade_number(wanted.capabilities.grade, &grade, err) ||
        !check_roles(&wanted.capabilities.roles, err) || !store_begin(server->store, &tx, err) ||
        !worker_check(call, tx, wanted.epoch, &before, err))
        return false;
    after = before;
    if (before != WORKER_DRAINING && before != WORKER_ACTIVE &&
        !worker_state_apply(&after, WORKER_ACTIVATE))
        return error_set(err, ERR_CONFLICT, "a worker that is %s cannot become active",
                         worker_state_name(before));
    wire_write(&json, NULL, wire_capabilities_fields, &wanted.capabilities);
    bool can_resume = wanted.capabilities.memory_checkpoint && wanted.capabilities.compat.len > 0 &&
                      wanted.capabilities.checkpoint_key_id.len > 0;
    if (!json_end(&json, err) ||
        !STORE(tx, &worker_activate, call->arena, &rows, err, V_TEXT(caller->id),
               V_INT(wanted.epoch), V_TEXT(worker_state_name(before)),
               V_TEXT(worker_state_name(after)), V_STR(buf_str(&text)),
               V_STR(wanted.capabilities.engine), V_INT(grade),
               V_INT(wanted.capabilities.accelerated), V_STR(wanted.capabilities.arch),
               V_INT(time_now_ms()), V_STR(list_text(&wanted.capabilities.roles, call->arena)),
               can_resume ? V_STR(wanted.capabilities.compat) : V_NULL,
               can_resume ? V_STR(wanted.capabilities.checkpoint_key_id) : V_NULL) ||
        !store_commit(&tx, err))
        return false;
    const struct wire_state state = {str_of(worker_state_name(after))};
    return worker_answer(res, wire_state_fields, &state, err);
}

/* Leases the worker says it holds and the server does not. */
static bool find_unknown(struct call *call, struct tx *tx, const struct wire_heartbeat *beat,
                         struct wire_heartbeat_answer *answer, struct error *err)
{
    const struct wire_instance *held = beat->instances.items;
    struct str *unknown = arena_array(call->arena, beat->instances.n + 1, sizeof *unknown);
    struct rows rows;

    if (!STORE(tx, &leases_of_worker, call->arena, &rows, err, V_TEXT(caller_of(call)->id)))
        return false;
    for (size_t i = 0; i < beat->instances.n; i++) {
        bool known = false;
        for (size_t j = 0; j < rows.n_rows; j++)
            known |= str_equal(row_str(&rows, j, LEASES_OF_WORKER_ID), held[i].lease_id);
        if (!known && !str_equal(held[i].state, STR("ending")))
            unknown[answer->unknown_leases.n++] = held[i].lease_id;
    }
    answer->unknown_leases.items = unknown;
    return true;
}

bool worker_heartbeat_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_heartbeat beat;
    struct wire_heartbeat_answer answer = {.server_time_ms = time_now_ms()};
    enum worker_state state = WORKER_LOST;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_heartbeat_fields, &beat, sizeof beat, err) ||
        !store_begin(server->store, &tx, err) || !worker_check(call, tx, beat.epoch, &state, err) ||
        !STORE(tx, &worker_beat, call->arena, &rows, err, V_TEXT(caller_of(call)->id),
               V_INT(beat.epoch), V_INT(beat.number), V_TEXT("{}"),
               V_STR(list_text(&beat.paused, call->arena)),
               V_STR(list_text(&beat.quarantined, call->arena)), V_INT(time_now_ms())))
        return false;
    if (rows.n_rows == 0)
        return superseded(err);
    answer.desired_state = row_str(&rows, 0, WORKER_BEAT_STATE);
    return find_unknown(call, tx, &beat, &answer, err) && store_commit(&tx, err) &&
           worker_answer(res, wire_heartbeat_answer_fields, &answer, err);
}

bool worker_drained_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct wire_drained wanted;
    enum worker_state before = WORKER_LOST, after;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_drained_fields, &wanted, sizeof wanted, err) ||
        !store_begin(server->store, &tx, err) ||
        !worker_check(call, tx, wanted.epoch, &before, err) ||
        !STORE(tx, &leases_of_worker, call->arena, &rows, err, V_TEXT(caller_of(call)->id)))
        return false;
    after = before;
    if (rows.n_rows > 0 || !worker_state_apply(&after, WORKER_DRAINED))
        return error_set(err, ERR_CONFLICT, "the worker is not drained");
    const struct wire_state state = {str_of(worker_state_name(after))};
    return STORE(tx, &worker_set_state, call->arena, &rows, err, V_TEXT(caller_of(call)->id),
                 V_TEXT(worker_state_name(before)), V_TEXT(worker_state_name(after)),
                 V_INT(time_now_ms())) &&
           store_commit(&tx, err) && worker_answer(res, wire_state_fields, &state, err);
}
