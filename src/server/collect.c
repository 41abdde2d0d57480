#include "server/collect.h"

#include "base/log.h"
#include "base/time.h"
#include "server/input.h"
#include "store/queries.h"

enum {
    HOUR_MS = 60 * 60 * 1000,
    KILLS = 200,   /* at a time; the sweeper has other things to do */
    BURIALS = 50,  /* each is a file and a transaction */
    STEP_DAYS = 7, /* a layer that a step used within this time may be used again */
    STEP_ROW_DAYS = 30,
    FAILED_DAYS = 7, /* so long the source of a failed build can be looked into */
};

static bool find(struct server *server, const struct query *query, const struct value *params,
                 size_t n, struct arena *arena, struct rows *rows, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server->store, &tx, err) &&
           store_run(tx, query, params, n, arena, rows, err);
}

/* One at a time, so that no two are locked in an order of our own. */
static bool kill_one(struct server *server, const struct rows *found, size_t row, int64_t now,
                     struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(server->store, &tx, err) &&
           STORE(tx, &object_kill, NULL, NULL, err, V_STR(row_str(found, row, OBJECTS_UNNEEDED_ID)),
                 V_INT(row_int(found, row, OBJECTS_UNNEEDED_READY_MS)), V_INT(now)) &&
           store_commit(&tx, err);
}

static bool kill_unneeded(struct server *server, int64_t now, size_t *n, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct value params[] = {V_INT(now - DAY_MS), V_INT(now - STEP_DAYS * DAY_MS),
                                   V_INT(now - FAILED_DAYS * DAY_MS), V_INT(KILLS)};
    struct rows found;

    *n = 0;
    if (!find(server, &objects_unneeded, params, COUNT_OF(params), &arena, &found, err))
        return false;
    for (size_t i = 0; i < found.n_rows; i++)
        if (!kill_one(server, &found, i, now, err))
            return false;
    *n = found.n_rows;
    return true;
}

/* The file goes while the row is locked: whoever stores the object again does both after it. */
static bool bury(struct server *server, const char *id, int64_t before, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &object_bury, &arena, &rows, err, V_TEXT(id), V_INT(before)))
        return false;
    if (rows.n_changed == 0)
        return true;
    return blob_delete(server->blobs, id, err) && store_commit(&tx, err);
}

static bool bury_dead(struct server *server, int64_t now, size_t *n, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct value params[] = {V_INT(now - HOUR_MS), V_INT(BURIALS)};
    struct rows found;

    *n = 0;
    if (!find(server, &objects_dead, params, COUNT_OF(params), &arena, &found, err))
        return false;
    for (size_t i = 0; i < found.n_rows; i++)
        if (!bury(server, row_text(&found, i, OBJECTS_DEAD_ID), now - HOUR_MS, err))
            return false;
    *n = found.n_rows;
    if (*n > 0)
        log_info("objects removed", LOG_INT("objects", (int64_t)*n));
    return true;
}

static bool forget(struct server *server, int64_t now, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(server->store, &tx, err) &&
           STORE(tx, &image_steps_forget, NULL, NULL, err, V_INT(now - STEP_ROW_DAYS * DAY_MS)) &&
           store_run(tx, &image_claims_forget, NULL, 0, NULL, NULL, err) && store_commit(&tx, err);
}

bool collect_some(struct server *server)
{
    int64_t now = time_now_ms();
    size_t killed = 0, buried = 0;
    struct error err;

    if (!forget(server, now, &err) || !kill_unneeded(server, now, &killed, &err) ||
        !bury_dead(server, now, &buried, &err)) {
        log_warn("objects not collected", LOG_ERR(&err));
        return false;
    }
    return killed == KILLS || buried == BURIALS;
}
