#include "server/queued_words.h"

#include "base/json.h"
#include "server/queue.h"
#include "store/queries.h"

enum { WORKERS_MAX = 1000 }; /* of a larger fleet nothing is said */

/* Whether the worker has as much in all, whatever is free of it now. */
static bool has_room(struct str capabilities, const struct rows *needs)
{
    static const struct {
        const char *name;
        int column;
        int64_t unit; /* of what is needed in one of what the worker names */
    } sizes[] = {
        {"vcpus",      RUN_QUEUED_NEEDS_CPU_MILLIS, 1000},
        {"memory_mib", RUN_QUEUED_NEEDS_MEMORY_MIB, 1   },
        {"disk_mib",   RUN_QUEUED_NEEDS_DISK_MIB,   1   },
    };

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        int64_t has = 0;

        if (json_find_int(capabilities, sizes[i].name, &has) &&
            has * sizes[i].unit < row_int(needs, 0, sizes[i].column))
            return false;
    }
    return true;
}

/* What workers there are could lack for good. */
struct lack {
    bool any_is_large, any_has_rules, any_has_both;
};

static struct lack look_over(const struct rows *workers, const struct rows *needs)
{
    const bool wants_rules =
        str_equal(row_str(needs, 0, RUN_QUEUED_NEEDS_COMPAT), STR(QUEUE_RULES));
    struct lack lack = {0};

    for (size_t i = 0; i < workers->n_rows; i++) {
        struct str capabilities = row_str(workers, i, RESUME_WORKERS_CAPABILITIES);
        const bool is_large = has_room(capabilities, needs);
        const bool has_rules = !wants_rules || queue_worker_has_rules(capabilities);

        lack.any_is_large |= is_large;
        lack.any_has_rules |= has_rules;
        lack.any_has_both |= is_large && has_rules;
    }
    return lack;
}

bool queued_in_vain(struct tx *tx, const char *run_id, struct arena *arena, const char **words,
                    struct error *err)
{
    struct rows needs, workers;

    *words = NULL;
    if (!STORE(tx, &run_queued_needs, arena, &needs, err, V_TEXT(run_id)))
        return false;
    if (needs.n_rows == 0)
        return true;
    if (!STORE(tx, &resume_workers, arena, &workers, err,
               V_STR(row_str(&needs, 0, RUN_QUEUED_NEEDS_GROUP_ID)), V_INT(WORKERS_MAX)))
        return false;
    const struct lack lack = look_over(&workers, &needs);
    if (lack.any_has_both || workers.n_rows == 0)
        return true;
    if (!lack.any_has_rules || lack.any_is_large)
        *words = "its sandbox denies networks, which only a worker that is root can do";
    else
        *words =
            arena_printf(arena,
                         "no worker is large enough: it needs %lld vCPU, %lld MiB of memory and "
                         "%lld MiB of disk",
                         (long long)row_int(&needs, 0, RUN_QUEUED_NEEDS_CPU_MILLIS) / 1000,
                         (long long)row_int(&needs, 0, RUN_QUEUED_NEEDS_MEMORY_MIB),
                         (long long)row_int(&needs, 0, RUN_QUEUED_NEEDS_DISK_MIB));
    return true;
}
