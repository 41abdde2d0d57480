#include "server/park_testing.h"

#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "server/resume.h"
#include "server/sweep.h"
#include "server/sweep_pass.h"
#include "store/queries.h"

bool stage_set(struct service *service, struct stage *stage)
{
    *stage = (struct stage){
        .key = service_make_key(service, OPERATOR ",\"tokens:complete\",\"tokens:read\""),
        .worker = {.compat = COMPAT, .key_id = KEY_ID}
    };
    sweeper_stop(service->server->sweeper);
    service->server->sweeper = NULL;
    return worker_join(&stage->worker, service, "one") &&
           service_build(service, &stage->worker, stage->key);
}

bool stage_start(struct stage *stage, const char *kind)
{
    return worker_take(&stage->worker, kind) && lease_begin(&stage->worker) == 200 &&
           lease_start(&stage->worker) == 200;
}

bool stage_open_wait(struct stage *stage)
{
    struct service *service = stage->worker.service;

    if (!lease_op(&stage->worker, 1, "wait.open", "{\"kind\":\"token\"}"))
        return false;
    snprintf(stage->wait, ID_TEXT, "%s", service_text(service, "results.0.wait_id"));
    return *stage->wait;
}

bool stage_wait(struct stage *stage)
{
    stage->run = service_start_run(stage->worker.service, stage->key, "hello", NULL);
    return *stage->run && stage_start(stage, "run") && stage_open_wait(stage);
}

bool stage_park(struct stage *stage)
{
    return checkpoint_begin(&stage->worker, stage->wait) == 200 &&
           checkpoint_stage(&stage->worker) == 200 && checkpoint_ready(&stage->worker) == 200;
}

/* Somebody answers. */
static bool settle_with(struct service *service, const char *run, const char *wait_id,
                        const char *data)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf decision = {.max = 4096};
    struct wakes wakes = {0};
    struct wait_row wait;
    struct error err;
    AUTO_TX tx = NULL;

    if (store_begin(service->server->store, &tx, &err) &&
        STORE(tx, &run_lock, NULL, NULL, &err, V_TEXT(run)) &&
        wait_load(tx, wait_id, &arena, &wait, &err) &&
        wait_decision(CONDITION_COMPLETE, str_of(data), (struct str){0}, &decision, &err) &&
        wait_settle(tx, &wait, CONDITION_COMPLETE, buf_str(&decision), &wakes, &err) &&
        hub_commit(&service->server->hub, &tx, &wakes, &err))
        return true;
    printf("# %s\n", err.text);
    return false;
}

bool stage_settle(struct stage *stage)
{
    return settle_with(stage->worker.service, stage->run, stage->wait, "{\"ok\":true}");
}

const char *stage_column(struct service *service, const struct query *query, const char *id)
{
    struct error err;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(service->server->store, &tx, &err) ||
        !STORE(tx, query, &service->arena, &rows, &err, V_TEXT(id)) || rows.n_rows != 1)
        return "";
    const char *text = row_text(&rows, 0, 0);
    return text ? text : "";
}

const char *stage_suspension(struct stage *stage)
{
    static const struct query query = {"test_suspension", 1, 1,
                                       SAME_ON_BOTH("SELECT suspension FROM waits WHERE id = $1")};

    return stage_column(stage->worker.service, &query, stage->wait);
}

const char *stage_checkpoint(struct stage *stage, const char *id)
{
    static const struct query query = {"test_checkpoint", 1, 1,
                                       SAME_ON_BOTH("SELECT state FROM checkpoints WHERE id = $1")};

    return stage_column(stage->worker.service, &query, id);
}

const char *stage_refs(struct stage *stage, const char *id)
{
    static const struct query query = {
        "test_refs", 1, 1,
        SAME_ON_BOTH("SELECT CAST(count(*) AS TEXT) FROM object_refs WHERE owner_id = $1")};

    return stage_column(stage->worker.service, &query, id);
}

const char *stage_state(struct stage *stage)
{
    return run_text(stage->worker.service, stage->key, stage->run, "execution_status");
}

size_t stage_events(struct stage *stage, const char *kind)
{
    return run_events_of(stage->worker.service, stage->key, stage->run, kind);
}

bool stage_takes_nothing(struct test_worker *worker, const char *accept)
{
    return worker_poll(worker, accept, &large_room, 0, "[]") == 200 &&
           json_count(buf_str(&worker->service->answer.body), "grants") == 0;
}

bool stage_finish(struct stage *stage)
{
    return lease_report(&stage->worker, "succeeded", "") == 200 &&
           stage_events(stage, "run.completed") == 1;
}

bool stage_reach(struct stage *stage, enum step step)
{
    struct test_worker *worker = &stage->worker;

    return stage_wait(stage) && (step < BEGUN || checkpoint_begin(worker, stage->wait) == 200) &&
           (step < STAGED || checkpoint_stage(worker) == 200) &&
           (step < PARKED || checkpoint_ready(worker) == 200) &&
           (step < ANSWERED || stage_settle(stage)) &&
           (step < TAKEN || worker_take(worker, "resume")) &&
           (step < PREPARED || lease_begin(worker) == 200) &&
           (step < STARTED || lease_start(worker) == 200) &&
           (step < RESUMED || lease_resumed(worker, "restored") == 200);
}

bool stage_hears(struct test_worker *worker, const char *type, const char *wait)
{
    struct service *service = worker->service;

    if (worker_poll(worker, "[]", &large_room, 0, "[]") != 200 ||
        json_count(buf_str(&service->answer.body), "messages") != 1)
        return false;
    worker->cursor = service_int(service, "cursor");
    return strcmp(service_text(service, "messages.0.type"), type) == 0 &&
           strcmp(service_text(service, "messages.0.wait_id"), wait) == 0;
}

void stage_sweep(struct service *service)
{
    struct pass pass = {.server = service->server, .now = time_now_ms()};

    sweep_checkpoints(&pass);
    arena_finish(&pass.arena);
}
