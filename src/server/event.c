#include "server/event.h"

#include "base/id.h"
#include "base/time.h"
#include "store/queries.h"

static const char *const final_kinds[] = {
    "run.completed",     "run.failed",          "run.cancelled",     "run.expired",
    "run.dead_lettered", "deployment.deployed", "deployment.failed",
};

bool event_is_final(struct str kind)
{
    for (size_t i = 0; i < COUNT_OF(final_kinds); i++)
        if (str_equal(kind, str_of(final_kinds[i])))
            return true;
    return false;
}

static struct value or_default(const char *given, const char *usual)
{
    return V_TEXT(given ? given : usual);
}

static bool insert(struct tx *tx, const char *owner_id, int64_t cursor, bool is_run,
                   const struct event *event, struct error *err)
{
    char id[ID_TEXT];
    if (event->attributes.len > EVENT_ATTRIBUTES_MAX)
        return error_set(err, ERR_TOO_LARGE, "the attributes of %s are over %d bytes", event->kind,
                         EVENT_ATTRIBUTES_MAX);
    id_make(id);
    struct value shared[] = {
        V_TEXT(event->kind),
        V_INT(event->at_ms ? event->at_ms : time_now_ms()),
        or_default(event->category, "lifecycle"),
        or_default(event->severity, "info"),
        or_default(event->source, "control"),
        V_TEXT(event->is_sensitive ? "sensitive" : "internal"),
        V_STR(event->attributes.len ? event->attributes : STR("{}")),
    };
    if (is_run)
        return STORE(tx, &run_event_insert, NULL, NULL, err, V_TEXT(owner_id), V_INT(cursor),
                     V_TEXT(id), event->attempt ? V_INT(event->attempt) : V_NULL, shared[0],
                     shared[1], shared[2], shared[3], shared[4], shared[5], shared[6]);
    return STORE(tx, &deployment_event_insert, NULL, NULL, err, V_TEXT(owner_id), V_INT(cursor),
                 V_TEXT(id), shared[0], shared[1], shared[2], shared[3], shared[4], shared[5],
                 shared[6]);
}

static bool append(struct tx *tx, const char *owner_id, bool is_run, const struct event *event,
                   struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    if (!STORE(tx, is_run ? &run_event_number : &deployment_event_number, &arena, &rows, err,
               V_TEXT(owner_id), V_INT(time_now_ms())))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_NOT_FOUND, "the event has no owner");
    return insert(tx, owner_id, row_int(&rows, 0, RUN_EVENT_NUMBER_CURSOR), is_run, event, err);
}

bool run_event_first(struct tx *tx, const char *run_id, const struct event *event,
                     struct error *err)
{
    return insert(tx, run_id, 1, true, event, err);
}

bool run_event_append(struct tx *tx, const char *run_id, const struct event *event,
                      struct error *err)
{
    return append(tx, run_id, true, event, err);
}

bool deployment_event_first(struct tx *tx, const char *deployment_id, const struct event *event,
                            struct error *err)
{
    return insert(tx, deployment_id, 1, false, event, err);
}

bool deployment_event_append(struct tx *tx, const char *deployment_id, const struct event *event,
                             struct error *err)
{
    return append(tx, deployment_id, false, event, err);
}
