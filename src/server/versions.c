#include "server/versions.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/time.h"
#include "server/event.h"
#include "server/images.h"
#include "store/queries.h"

static const char *kind_name(enum version_kind kind)
{
    return kind == VERSION_USER ? "user" : "system";
}

static int by_digest(const void *a, const void *b)
{
    const struct str *x = a, *y = b;

    return memcmp(x->ptr, y->ptr, BLOB_ID_LEN);
}

/* In one order, so that two publications cannot lock each other out. */
static bool keep_objects(struct server *server, struct tx *tx, const struct wire_version *version,
                         struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct wire_object *objects = version->objects.items;
    struct str *ids = arena_array(&arena, version->objects.n + 1, sizeof *ids);
    bool is_whole = false;

    for (size_t i = 0; i < version->objects.n; i++) {
        if (!blob_id_is_valid(objects[i].digest))
            return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
        is_whole = is_whole || str_equal(objects[i].digest, version->manifest);
        ids[i] = objects[i].digest;
    }
    if (!is_whole)
        return error_set(err, ERR_INVALID, "the objects of a version lack its manifest");
    qsort(ids, version->objects.n, sizeof *ids, by_digest);
    for (size_t i = 0; i < version->objects.n; i++)
        if (!object_keep(server, tx, ids[i], &arena, err) ||
            !STORE(tx, &object_ref_insert, NULL, NULL, err, V_STR(version->id), V_STR(ids[i])))
            return false;
    return true;
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
    if (!keep_objects(server, tx, version, err) ||
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
