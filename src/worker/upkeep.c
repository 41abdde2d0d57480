#include "worker/upkeep.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "base/wait.h"
#include "image/store.h"

enum {
    PERIOD_MS = 10 * 60 * 1000,
    IDLE_MS = 10 * 60 * 1000, /* what was used within it is likely to be used again */
    YOUNG_MS = 60 * 60 * 1000,
    CALL_TIMEOUT_MS = 15 * 1000,
    BATCH = 256,
    BUDGET_PERCENT = 20,
};

struct upkeep {
    struct worker *worker;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_closing, is_wanted;
};

bool upkeep_budget(const struct worker_settings *settings, int64_t *bytes, struct error *err)
{
    struct statvfs disk;

    if (settings->artifact_cache_max_mib > 0) {
        *bytes = settings->artifact_cache_max_mib * 1024 * 1024;
        return true;
    }
    if (statvfs(settings->work_dir, &disk) != 0)
        return error_errno(err, "statvfs %s", settings->work_dir);
    *bytes = (int64_t)(disk.f_blocks / 100 * disk.f_frsize) * BUDGET_PERCENT;
    return true;
}

/* A deployment's name, and no younger than builds that the server may not know to be done. */
static bool is_asked_about(const struct image_entry *entry)
{
    return reference_is_local(entry->reference) && entry->created_ms < time_now_ms() - YOUNG_MS;
}

static bool drop_names(struct image_store *store, const struct image_entry *entries, size_t n,
                       struct str digest, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        AUTO(arena_finish) struct arena arena = {0};
        if (!is_asked_about(&entries[i]) || !str_equal(str_of(entries[i].digest), digest))
            continue;
        const char *name = arena_text(&arena, entries[i].reference);
        if (!image_untag(store, name, err) && err->code != ERR_NOT_FOUND)
            return false;
        log_debug("image not needed any more", LOG_STR("reference", name));
    }
    return true;
}

static bool ask_about(struct worker *worker, struct line *line, struct str *digests, size_t n_asked,
                      const struct image_entry *entries, size_t n, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct wire_images_held held = {
        worker->link.epoch, {digests, n_asked}
    };
    struct wire_images_gone answer = {0};
    const struct exchange exchange = {
        .route = "images/needed",
        .request_fields = wire_images_held_fields,
        .request = &held,
        ANSWER(wire_images_gone_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    if (!line_call(line, &exchange, &arena, err))
        return false;
    const struct str *gone = answer.gone.items;
    for (size_t i = 0; i < answer.gone.n; i++)
        if (!drop_names(worker->images, entries, n, gone[i], err))
            return false;
    return true;
}

/* Names go one batch at a time; what is left of the images stays as a cache. */
static bool drop_unneeded(struct worker *worker, struct line *line, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct image_entry *entries;
    struct str digests[BATCH];
    size_t n, asked = 0;

    if (!image_list(worker->images, &arena, &entries, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (is_asked_about(&entries[i]))
            digests[asked++] = str_of(entries[i].digest);
        if (asked == 0 || (asked < BATCH && i + 1 < n))
            continue;
        if (!ask_about(worker, line, digests, asked, entries, n, err))
            return false;
        asked = 0;
    }
    return true;
}

static bool ask_server(struct worker *worker, struct error *err)
{
    struct line line;

    if (!line_open(&worker->link, &line, err))
        return false;
    line.abort = &worker->stopping;
    bool fine = drop_unneeded(worker, &line, err);
    line_close(&line);
    return fine;
}

void upkeep_now(struct worker *worker)
{
    struct image_collected went;
    struct image_budget budget = {.idle_ms = IDLE_MS, .abort = &worker->stopping};
    struct error err;

    if (!ask_server(worker, &err) && !worker->stopping)
        log_warn("not known which images are needed", LOG_ERR(&err));
    if (worker->stopping)
        return;
    if (!upkeep_budget(worker->settings, &budget.bytes, &err) ||
        !image_evict(worker->images, &budget, &went, &err)) {
        /* A command at work on the store: the next time will do. */
        if (err.code != ERR_CONFLICT)
            log_warn("the artifact budget was not kept", LOG_ERR(&err));
        return;
    }
    if (went.bytes > 0)
        log_info("made room for artifacts", LOG_INT("freed_mib", went.bytes >> 20),
                 LOG_INT("kept_mib", went.kept_bytes >> 20), LOG_INT("layers", went.layers),
                 LOG_INT("blobs", went.blobs), LOG_INT("caches", went.caches),
                 LOG_INT("bundles", went.bundles), LOG_INT("drives", went.drives));
    if (went.kept_bytes > budget.bytes)
        log_warn("artifacts that must stay take more than their budget",
                 LOG_INT("kept_mib", went.kept_bytes >> 20),
                 LOG_INT("budget_mib", budget.bytes >> 20));
}

static void *upkeep_main(void *arg)
{
    struct upkeep *upkeep = arg;
    int64_t next_ms = time_boot_ms();

    pthread_mutex_lock(&upkeep->lock);
    while (!upkeep->is_closing) {
        int64_t wait = next_ms - time_boot_ms();
        if (!upkeep->is_wanted && wait > 0) {
            wait_ms(&upkeep->changed, &upkeep->lock, wait);
            continue;
        }
        upkeep->is_wanted = false;
        pthread_mutex_unlock(&upkeep->lock);
        upkeep_now(upkeep->worker);
        next_ms = time_boot_ms() + PERIOD_MS;
        pthread_mutex_lock(&upkeep->lock);
    }
    pthread_mutex_unlock(&upkeep->lock);
    return NULL;
}

bool upkeep_create(struct worker *worker, struct upkeep **upkeep, struct error *err)
{
    struct upkeep *made = alloc(sizeof *made);

    *made = (struct upkeep){.worker = worker};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (pthread_create(&made->thread, NULL, upkeep_main, made) != 0) {
        free(made);
        return error_set(err, ERR_INTERNAL, "no thread could be made");
    }
    *upkeep = made;
    return true;
}

void upkeep_destroy(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    pthread_mutex_lock(&upkeep->lock);
    upkeep->is_closing = true;
    pthread_cond_broadcast(&upkeep->changed);
    pthread_mutex_unlock(&upkeep->lock);
    pthread_join(upkeep->thread, NULL);
    pthread_mutex_destroy(&upkeep->lock);
    pthread_cond_destroy(&upkeep->changed);
    free(upkeep);
}

void upkeep_wake(struct upkeep *upkeep)
{
    if (!upkeep)
        return;
    pthread_mutex_lock(&upkeep->lock);
    upkeep->is_wanted = true;
    pthread_cond_broadcast(&upkeep->changed);
    pthread_mutex_unlock(&upkeep->lock);
}
