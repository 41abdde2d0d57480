#include "server/versions.h"

#include "base/time.h"
#include "server/event.h"
#include "server/object_refs.h"
#include "store/queries.h"

static const char *kind_name(enum version_kind kind)
{
    return kind == VERSION_USER ? "user" : "system";
}

static bool has_manifest(const struct wire_version *version, struct error *err)
{
    const struct wire_object *objects = version->objects.items;

    for (size_t i = 0; i < version->objects.n; i++)
        if (str_equal(objects[i].digest, version->manifest))
            return true;
    return error_set(err, ERR_INVALID, "the objects of a version lack its manifest");
}

static bool keep_objects(struct server *server, struct tx *tx, const struct wire_version *version,
                         struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};

    return object_refs_add(server, tx, arena_text(&arena, version->id), &version->objects, &arena,
                           err);
}

static bool append_event(struct tx *tx, const struct wire_version *version, const char *run_id,
                         enum version_kind kind, struct error *err)
{
    AUTO(buf_finish) struct buf text = {.max = KIB(4)};
    struct json_writer json = json_begin(&text);

    json_open(&json, NULL);
    json_text(&json, "version_id", version->id);
    json_string(&json, "kind", kind_name(kind));
    json_int(&json, "size_bytes", version->size_bytes);
    json_int(&json, "entries", version->entries);
    json_close(&json);
    if (!json_end(&json, err))
        return false;
    const struct event event = {.kind = "workspace.version_captured",
                                .source = "worker",
                                .attributes = buf_str(&text)};
    return run_event_append(tx, run_id, &event, err);
}

static bool make_current(struct tx *tx, const struct wire_version *version, const char *run_id,
                         struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &workspace_set_current, &arena, &rows, err, V_TEXT(run_id), V_STR(version->id),
               V_INT(time_now_ms())))
        return false;
    return rows.n_changed == 1 ||
           error_set(err, ERR_LEASE_STALE, "the workspace has another version by now");
}

bool version_publish(struct server *server, struct tx *tx, const struct wire_version *version,
                     const char *run_id, enum version_kind kind, struct wakes *wakes,
                     struct error *err)
{
    if (!has_manifest(version, err) || !keep_objects(server, tx, version, err) ||
        !STORE(tx, &version_insert, NULL, NULL, err, V_STR(version->id), V_TEXT(run_id),
               V_TEXT(kind_name(kind)), V_STR(version->manifest), V_STR(version->tree_digest),
               V_INT(version->size_bytes), V_INT(version->entries), V_INT(time_now_ms())) ||
        !STORE(tx, &run_set_result_version, NULL, NULL, err, V_TEXT(run_id), V_STR(version->id),
               V_INT(time_now_ms())) ||
        (kind == VERSION_USER && !make_current(tx, version, run_id, err)) ||
        !append_event(tx, version, run_id, kind, err))
        return false;
    wakes_add(wakes, "run:", run_id);
    return true;
}
