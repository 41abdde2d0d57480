#include "worker/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static bool is_wanted(const struct worker *worker, const struct engine *engine)
{
    const char *name = worker->settings->engine;

    return strcmp(name, "auto") == 0 ? !engine->by_name_only : strcmp(name, engine->name) == 0;
}

bool probe_choose(struct worker *worker, struct error *err)
{
    const char *reason = "no engine of that name";

    for (size_t i = 0; i < n_engines && worker->n_probes < COUNT_OF(worker->probes); i++) {
        const struct engine *engine = engines[i];
        struct engine_result *result = &worker->probes[worker->n_probes];

        if (!is_wanted(worker, engine))
            continue;
        engine->probe(worker->host, worker->platform.root, NULL, 0, result);
        worker->n_probes++;
        log_info("engine probed", LOG_STR("engine", result->name),
                 LOG_STR("usable", result->usable ? "yes" : "no"),
                 LOG_STR("reason", result->reason));
        reason = result->reason;
        if (result->usable && (!worker->engine || engine->grade > worker->engine->grade)) {
            worker->engine = engine;
            worker->saves = result->saves;
        }
    }
    if (!worker->engine)
        return error_set(err, ERR_UNAVAILABLE,
                         "no engine can be used here (HELMR_ENGINE=%s): %s; see helmr doctor",
                         worker->settings->engine, reason);
    return true;
}
