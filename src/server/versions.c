#include "server/versions.h"

#include "base/time.h"
#include "server/event.h"
#include "server/object_refs.h"
#include "server/quota.h"
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

/* Of a run it has been asked before whether there is room. */
static bool count_of_run(struct tx *tx, const struct wire_version *version, const char *run_id,
                         struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    return STORE(tx, &run_environment, &arena, &rows, err, V_TEXT(run_id)) &&
           quota_add_version(tx, row_text(&rows, 0, RUN_ENVIRONMENT_ENVIRONMENT_ID),
                             arena_text(&arena, version->id), true, err);
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
    json_int(&json, "files_read", version->files_read);
    json_int(&json, "bytes_read", version->bytes_read);
    json_int(&json, "capture_ms", version->capture_ms);
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
        !append_event(tx, version, run_id, kind, err) || !count_of_run(tx, version, run_id, err))
        return false;
    wakes_add(wakes, "run:", run_id);
    return true;
}

static bool advance(struct tx *tx, const struct version_place *place, struct str id,
                    struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &workspace_advance, &arena, &rows, err, V_TEXT(place->workspace_id), V_STR(id),
               V_STR_OR_NULL(place->base), V_INT(place->generation), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_LEASE_STALE, "the workspace has another version by now");
    wakes_add(wakes, "workspace:", place->workspace_id);
    wakes_add(wakes, "env:", place->environment_id);
    return true;
}

/* The objects are referred to by now. */
static bool insert_in(struct tx *tx, const struct wire_version *version,
                      const struct version_place *place, struct str parent, struct wakes *wakes,
                      struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};

    return STORE(tx, &version_insert_in, NULL, NULL, err, V_STR(version->id),
                 V_TEXT(place->environment_id), V_TEXT(place->workspace_id), V_STR_OR_NULL(parent),
                 V_STR(version->manifest), V_STR(version->tree_digest), V_INT(version->size_bytes),
                 V_INT(version->entries), V_INT(time_now_ms())) &&
           advance(tx, place, version->id, wakes, err) &&
           quota_add_version(tx, place->environment_id, arena_text(&arena, version->id),
                             place->may_exceed, err);
}

bool version_publish_in(struct server *server, struct tx *tx, const struct wire_version *version,
                        const struct version_place *place, struct wakes *wakes, struct error *err)
{
    return has_manifest(version, err) && keep_objects(server, tx, version, err) &&
           insert_in(tx, version, place, place->base, wakes, err);
}

bool version_publish_beside(struct server *server, struct tx *tx,
                            const struct wire_version *version, const char *subject_id,
                            struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!has_manifest(version, err) || !keep_objects(server, tx, version, err) ||
        !STORE(tx, &version_insert_beside, &arena, &rows, err, V_STR(version->id),
               V_TEXT(subject_id), V_STR(version->manifest), V_STR(version->tree_digest),
               V_INT(version->size_bytes), V_INT(version->entries), V_INT(time_now_ms())))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_LEASE_STALE, "there is no run and no mount %s", subject_id);
    return quota_add_version(tx, row_text(&rows, 0, VERSION_INSERT_BESIDE_ENVIRONMENT_ID),
                             arena_text(&arena, version->id), false, err);
}

bool version_adopt(struct server *server, struct tx *tx, const char *from_id,
                   const struct version_place *place, struct arena *arena, char id[ID_TEXT],
                   struct wakes *wakes, struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &version_hold, arena, &rows, err, V_TEXT(place->environment_id),
               V_TEXT(from_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_VERSION_NOT_FOUND, "there is no version %s", from_id);
    id_make(id);
    const struct wire_version version = {
        .id = str_of(id),
        .manifest = row_str(&rows, 0, VERSION_HOLD_MANIFEST_ID),
        .tree_digest = row_str(&rows, 0, VERSION_HOLD_TREE_DIGEST),
        .size_bytes = row_int(&rows, 0, VERSION_HOLD_SIZE_BYTES),
        .entries = row_int(&rows, 0, VERSION_HOLD_ENTRIES),
    };
    /* What comes first in a workspace has the version it was branched from before it. */
    return object_refs_copy(server, tx, from_id, id, arena, err) &&
           insert_in(tx, &version, place, place->base.ptr ? place->base : str_of(from_id), wakes,
                     err);
}

bool version_delete(struct tx *tx, const char *id, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;

    if (!STORE(tx, &version_retire, &arena, &rows, err, V_TEXT(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_CONFLICT, "version %s is gone or needed", id);
    return quota_drop_version(tx, row_text(&rows, 0, VERSION_RETIRE_ENVIRONMENT_ID), id, err) &&
           object_refs_drop(tx, id, err);
}
