#include "server/collect.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "server/input.h"
#include "server/reseal.h"
#include "store/queries.h"

enum {
    HOUR_MS = 60 * 60 * 1000,
    PASSES_OF_DAY = 24,
    RESEAL_RATE = 100 << 20, /* bytes per second */
    KILLS = 200,             /* at a time */
    BURIALS = 50,            /* each is a file and a transaction */
    STEP_DAYS = 7,           /* a layer that a step used within this time may be used again */
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

static bool is_known(struct server *server, const char *id, bool *known, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server->store, &tx, err) ||
        !STORE(tx, &object_is_known, &arena, &rows, err, V_TEXT(id)))
        return false;
    *known = rows.n_rows > 0;
    return true;
}

/* As if it had died long enough ago: nothing could ever refer to it. */
static bool give_dead_row(struct server *server, const char *id, int64_t now, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(server->store, &tx, err) &&
           STORE(tx, &object_insert_dead, NULL, NULL, err, V_TEXT(id), V_INT(now - HOUR_MS)) &&
           store_commit(&tx, err);
}

static bool adopt_shard(struct server *server, uint8_t shard, int64_t now, size_t *found,
                        struct error *err)
{
    AUTO_FREE char(*ids)[BLOB_ID] = NULL;
    bool fine, known;
    size_t n;

    fine = blob_list(server->blobs, shard, now - DAY_MS, &ids, &n, err);
    for (size_t i = 0; fine && i < n; i++) {
        fine = is_known(server, ids[i], &known, err) &&
               (known || give_dead_row(server, ids[i], now, err));
        *found += fine && !known;
    }
    return fine;
}

bool collect_orphans(struct server *server)
{
    size_t found = 0;
    struct error err;
    bool fine = true;

    blob_clear_stale(server->blobs);
    for (int shard = 0; shard < BLOB_SHARDS && fine; shard++)
        fine = adopt_shard(server, (uint8_t)shard, time_now_ms(), &found, &err);
    if (!fine)
        log_warn("files of the store not looked through", LOG_ERR(&err));
    if (found > 0)
        log_info("files without a row found", LOG_INT("files", (int64_t)found));
    return fine;
}

struct collector {
    struct server *server;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_stopping;
    int64_t sealed_since_ms; /* boot time at which this pass began sealing */
    uint64_t n_sealed;       /* bytes of it */
};

/* False when the collector is to stop. */
static bool rest(struct collector *collector, int64_t ms)
{
    int64_t until_ms = time_boot_ms() + ms, left_ms;

    pthread_mutex_lock(&collector->lock);
    while (!collector->is_stopping && (left_ms = until_ms - time_boot_ms()) > 0)
        wait_ms(&collector->changed, &collector->lock, left_ms);
    bool goes_on = !collector->is_stopping;
    pthread_mutex_unlock(&collector->lock);
    return goes_on;
}

static bool keep_pace(void *arg, size_t n_bytes)
{
    struct collector *collector = arg;

    collector->n_sealed += n_bytes;
    int64_t due_ms =
        collector->sealed_since_ms + (int64_t)(collector->n_sealed * 1000 / RESEAL_RATE);
    int64_t ahead_ms = due_ms - time_boot_ms();
    return rest(collector, ahead_ms > 0 ? ahead_ms : 0);
}

static void *collector_main(void *arg)
{
    struct collector *collector = arg;
    const struct reseal_pace pace = {keep_pace, collector};

    for (int pass = 0; rest(collector, pass ? HOUR_MS : 0); pass++) {
        if (pass % PASSES_OF_DAY == 0)
            collect_orphans(collector->server);
        while (collect_some(collector->server) && rest(collector, 0))
            ;
        collector->sealed_since_ms = time_boot_ms();
        collector->n_sealed = 0;
        reseal_all(collector->server, &pace);
    }
    return NULL;
}

bool collector_start(struct server *server, struct collector **collector, struct error *err)
{
    struct collector *made = alloc(sizeof *made);

    *made = (struct collector){.server = server};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (pthread_create(&made->thread, NULL, collector_main, made) != 0) {
        free(made);
        return error_set(err, ERR_INTERNAL, "the collector's thread could not be made");
    }
    *collector = made;
    return true;
}

void collector_stop(struct collector *collector)
{
    if (!collector)
        return;
    pthread_mutex_lock(&collector->lock);
    collector->is_stopping = true;
    pthread_cond_signal(&collector->changed);
    pthread_mutex_unlock(&collector->lock);
    pthread_join(collector->thread, NULL);
    pthread_mutex_destroy(&collector->lock);
    pthread_cond_destroy(&collector->changed);
    free(collector);
}
