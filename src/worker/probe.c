#include "worker/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "model/engine_choice.h"

/* What is known of engines so far; each is tried at most once. */
struct search {
    struct worker *worker;
    struct engine_finding findings[ENGINE_KIND_COUNT];
    size_t n;
};

static void find_out(struct search *search, enum engine_kind kind)
{
    struct worker *worker = search->worker;
    const struct engine *engine = engine_find(engine_kind_name(kind));
    struct engine_result *result = &worker->probes[worker->n_probes++];

    *result = (struct engine_result){.name = engine_kind_name(kind),
                                     .reason = "this program was built without it"};
    if (engine)
        engine->probe(worker->host, worker->platform.root, NULL, 0, result);
    log_info("engine probed", LOG_STR("engine", result->name),
             LOG_STR("usable", result->usable ? "yes" : "no"), LOG_STR("reason", result->reason));
    search->findings[search->n++] =
        (struct engine_finding){kind, result->usable, result->accelerated, result->reason};
}

const struct engine_result *probe_of(const struct worker *worker, const struct engine *engine)
{
    for (size_t i = 0; i < worker->n_probes; i++)
        if (strcmp(worker->probes[i].name, engine->name) == 0)
            return &worker->probes[i];
    return NULL;
}

static bool choose_for_runs(struct search *search, enum engine_kind *taken, struct error *err)
{
    struct worker *worker = search->worker;
    const char *wanted = worker->settings->engine;
    struct engine_choice choice;

    for (;;) {
        engine_choose(wanted, search->findings, search->n, &choice);
        if (choice.step != ENGINE_TRY)
            break;
        find_out(search, choice.engine);
    }
    if (choice.step == ENGINE_NONE)
        return error_set(err, ERR_UNAVAILABLE,
                         "no engine can be used here, see helmr doctor (HELMR_ENGINE=%s): %s",
                         wanted, choice.reason);
    *taken = choice.engine;
    worker->engine = engine_find(engine_kind_name(choice.engine));
    worker->saves = probe_of(worker, worker->engine)->saves;
    worker->accelerated = probe_of(worker, worker->engine)->accelerated;
    log_info("engine chosen", LOG_STR("engine", worker->engine->name),
             LOG_STR("why", choice.reason[0] ? choice.reason : "the strongest there is"));
    return true;
}

/* Whoever builds must not find out at the first deploy that nobody can. */
static bool choose_for_builds(struct search *search, enum engine_kind runs, struct error *err)
{
    struct worker *worker = search->worker;
    const char *wanted = worker->settings->build_engine;
    struct engine_choice choice;

    for (;;) {
        engine_choose_builder(wanted, runs, engine_host_is_root(worker->host), search->findings,
                              search->n, &choice);
        if (choice.step != ENGINE_TRY)
            break;
        find_out(search, choice.engine);
    }
    if (choice.step == ENGINE_NONE)
        return error_set(err, ERR_UNAVAILABLE,
                         "no engine can build images here (HELMR_WORKER_BUILD_ENGINE=%s): %s; a "
                         "worker with HELMR_WORKER_ROLES=run needs none",
                         wanted, choice.reason);
    worker->build_engine = engine_find(engine_kind_name(choice.engine));
    if (choice.engine != runs)
        log_info("builds have another engine than runs",
                 LOG_STR("engine", worker->build_engine->name), LOG_STR("why", choice.reason));
    return true;
}

bool probe_choose(struct worker *worker, struct error *err)
{
    struct search search = {.worker = worker};
    enum engine_kind runs = ENGINE_KIND_COUNT;

    return choose_for_runs(&search, &runs, err) &&
           (!settings_has_role(worker->settings, "build") || choose_for_builds(&search, runs, err));
}
