#include "worker/worker.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "worker/compat.h"
#include "worker/enrol.h"
#include "worker/host_open.h"
#include "worker/host_room.h"
#include "worker/probe.h"
#include "worker/standby.h"
#include "worker/upkeep.h"

enum { STOP_BUDGET_MS = 30 * 1000, TICK_MS = 200 };

static bool take_host(struct worker *worker, struct error *err)
{
    const struct worker_settings *set = worker->settings;
    const struct room *room = &worker->capacity.total;
    size_t n;

    if (!host_open(set, set->work_dir,
                   (int)(room->slots + 2 * room->build_slots + 2 * set->standbys), &worker->host,
                   err))
        return false;
    engine_host_reclaimed(worker->host, &n);
    if (n > 0)
        log_info("reclaimed what a former process left", LOG_INT("instances", n));
    return !set->network_enabled || engine_host_network_preflight(worker->host, err);
}

/* Known by their digests to whoever resumes a run of this worker. */
static bool find_guest_files(struct worker *worker, struct error *err)
{
    const char *folder = worker->settings->guest_dir;

    return !worker->engine->has_drives ||
           guest_files_find(folder[0] ? folder : NULL, &worker->guest_files, err);
}

static bool choose_engines(struct worker *worker, struct error *err)
{
    return probe_choose(worker, err) && find_guest_files(worker, err) &&
           host_room_keep_back(worker->settings,
                               host_room_overhead_mib(worker->engine->name, worker->accelerated),
                               &worker->capacity.total, err) &&
           compat_find(worker, err);
}

/* Versions may take half as much as images do, beside them. */
static bool open_pack_cache(struct worker *worker, struct error *err)
{
    char folder[PATH_MAX];
    int64_t budget;

    snprintf(folder, sizeof folder, "%.*s/cache", PATH_MAX - 16, worker->settings->work_dir);
    return upkeep_budget(worker->settings, &budget, err) &&
           pack_cache_open(folder, budget / 2, &worker->packs, err);
}

static bool prepare(struct worker *worker, struct error *err)
{
    const struct worker_settings *set = worker->settings;

    return directory_make(set->work_dir, 0700, err) && directory_make(set->images_dir, 0755, err) &&
           host_room(set, &worker->capacity.total, err) && take_host(worker, err) &&
           platform_prepare(set->images_dir, &worker->platform, err) &&
           image_store_open(set->work_dir, &worker->images, err) && open_pack_cache(worker, err) &&
           choose_engines(worker, err);
}

static bool join_server(struct worker *worker, struct error *err)
{
    struct line line;

    if (!line_open(&worker->link, &line, err))
        return false;
    bool joined = enrol(worker, &line, err) && enrol_activate(worker, &line, err);
    line_close(&line);
    return joined;
}

/* Waits for a signal, or for the end that the keeper declared. */
static void serve(struct worker *worker, int signals)
{
    struct pollfd watched = {.fd = signals, .events = POLLIN};

    while (!worker->stopping) {
        if (poll(&watched, 1, TICK_MS) > 0)
            break;
        lease_reap(&worker->leases);
    }
    worker->stopping = true;
    worker_room_grew(worker);
}

/* Everything still running is given back, to be delivered again. */
static void wind_down(struct worker *worker)
{
    int64_t until = time_boot_ms() + STOP_BUDGET_MS;

    log_info("worker stops", LOG_INT("leases", worker->leases.count));
    lease_stop_all(&worker->leases);
    while (lease_reap(&worker->leases) > 0 && time_boot_ms() < until)
        poll(NULL, 0, TICK_MS / 10);
    worker->is_quiet = true;
}

static bool run_threads(struct worker *worker, int signals, struct error *err)
{
    void *(*const bodies[])(void *) = {keeper_main, run_poller_main, build_poller_main,
                                       message_poller_main};
    pthread_t threads[COUNT_OF(bodies)];

    for (size_t i = 0; i < COUNT_OF(bodies); i++)
        if (pthread_create(&threads[i], NULL, bodies[i], worker) != 0)
            return error_set(err, ERR_INTERNAL, "no thread could be made");
    serve(worker, signals);
    wind_down(worker);
    for (size_t i = 0; i < COUNT_OF(bodies); i++)
        pthread_join(threads[i], NULL);
    return true;
}

static int block_signals(struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGIO, SIG_IGN); /* somebody waits for a file that is being written: it will be */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (fd < 0)
        error_errno(err, "signalfd");
    return fd;
}

bool worker_run(const struct worker_settings *settings, struct error *err)
{
    struct worker worker = {.settings = settings};
    AUTO_FD int signals = block_signals(err);

    if (signals < 0)
        return false;
    /* Keys and payloads pass through this memory: it is never written to a core file. */
    if (setrlimit(RLIMIT_CORE, &(struct rlimit){0}) != 0)
        return error_errno(err, "setrlimit");
    link_init(&worker.link, settings->control_url);
    lease_table_init(&worker.leases);
    warm_init(&worker.warm);
    capacity_init(&worker.capacity, (struct room){0});
    pthread_mutex_init(&worker.room_lock, NULL);
    pthread_cond_init(&worker.room_grew, NULL);

    bool fine = prepare(&worker, err) && join_server(&worker, err);
    if (fine) {
        log_info("worker active", LOG_STR("engine", worker.engine->name),
                 LOG_STR("grade", engine_grade_name(worker.engine->grade)),
                 LOG_INT("slots", worker.capacity.total.slots),
                 LOG_INT("epoch", worker.link.epoch));
        fine = standby_create(&worker, (size_t)settings->standbys, &worker.standby, err) &&
               upkeep_create(&worker, &worker.upkeep, err) && run_threads(&worker, signals, err);
        upkeep_destroy(worker.upkeep);
        standby_destroy(worker.standby);
    }
    pack_cache_close(worker.packs);
    image_store_close(worker.images);
    engine_host_close(worker.host);
    lease_table_finish(&worker.leases);
    warm_finish(&worker.warm);
    capacity_finish(&worker.capacity);
    link_finish(&worker.link);
    if (fine && worker.fenced)
        return error_set(err, ERR_EPOCH_SUPERSEDED, "a newer process of this worker is active");
    return fine;
}
