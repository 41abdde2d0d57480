#include "server/files_write.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/time.h"
#include "protocol/worker_api.h"
#include "server/audit.h"
#include "server/caller.h"
#include "server/mount_store.h"
#include "server/object_store.h"
#include "server/quota.h"
#include "server/versions.h"
#include "store/queries.h"

enum { TRIES_MAX = 8, NS_PER_MS = 1000000, MOUNT_WAIT_MS = 30000 };

/* The version a change begins with. */
struct base {
    struct object_backend backend;
    struct key_ring ring;
    struct tree_reader reader;
    struct str version_id, manifest; /* ptr NULL: there is none yet */
    uint64_t n_entries, n_bytes;
};

static void base_finish(struct base *base)
{
    tree_reader_finish(&base->reader);
    key_ring_finish(&base->ring);
}

/* Objects of the server's own: a row with each file. */
static bool draft_object(void *arg, int *fd, struct error *err)
{
    struct server *server = arg;

    return blob_nameless(server->blobs, fd, err);
}

static bool put_object(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    struct server *server = arg;
    struct object_draft draft;
    AUTO_TX tx = NULL;

    if (!object_draft_sealed(server, fd, facts->size, facts->digest, facts->class, &draft, err))
        return false;
    bool fine = store_begin(server->store, &tx, err) && object_publish(server, tx, &draft, err) &&
                store_commit(&tx, err);
    object_draft_discard(server, &draft);
    return fine;
}

static bool open_object(void *arg, const char *digest, int *fd, struct error *err)
{
    struct server *server = arg;
    uint64_t size;

    return blob_open(server->blobs, digest, fd, &size, err);
}

static bool find_base(struct call *call, const char *workspace_id, struct base *base,
                      struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &files_base, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(workspace_id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", workspace_id);
    if (str_equal(row_str(&rows, 0, FILES_BASE_STATE), STR("recovery_required")))
        return error_set(err, ERR_WORKSPACE_RECOVERY,
                         "changes of the workspace were lost: mount it once to go on");
    if (!str_equal(row_str(&rows, 0, FILES_BASE_STATE), STR("active")))
        return error_set(err, ERR_WORKSPACE_INACTIVE, "the workspace is %s",
                         row_text(&rows, 0, FILES_BASE_STATE));
    base->version_id = row_str(&rows, 0, FILES_BASE_CURRENT_VERSION_ID);
    base->manifest = row_str(&rows, 0, FILES_BASE_MANIFEST_ID);
    if (base->manifest.ptr) {
        base->n_bytes = (uint64_t)row_int(&rows, 0, FILES_BASE_SIZE_BYTES);
        base->n_entries = (uint64_t)row_int(&rows, 0, FILES_BASE_ENTRIES);
    }
    return quota_check_storage(tx, call_environment(call), err);
}

static bool open_base(struct call *call, const char *workspace_id, struct base *base,
                      struct error *err)
{
    struct server *server = server_of(call);

    *base = (struct base){
        .backend = {server, draft_object, put_object, open_object},
    };
    return find_base(call, workspace_id, base, err) && keys_ring(&server->keys, &base->ring, err) &&
           (!base->manifest.ptr || tree_reader_init(&base->reader, &base->backend, &base->ring.keys,
                                                    arena_text(call->arena, base->manifest), err));
}

static struct tree_edit *begin_edit(struct base *base)
{
    const struct tree_edit_plan plan = {
        .store = {&base->backend, &base->ring.keys, base->manifest.ptr ? &base->reader : NULL},
        .n_entries = base->n_entries,
        .n_bytes = base->n_bytes,
        .now_ns = time_now_ms() * NS_PER_MS,
    };

    return tree_edit_create(&plan);
}

static struct wire_version version_of(const struct tree_facts *facts, const char *id,
                                      struct arena *arena)
{
    struct wire_object *objects = arena_array(arena, facts->n_objects + 1, sizeof *objects);

    for (size_t i = 0; i < facts->n_objects; i++)
        objects[i] = (struct wire_object){.digest = str_of(facts->objects[i].digest),
                                          .size = (int64_t)facts->objects[i].size};
    return (struct wire_version){
        .id = str_of(id),
        .manifest = str_of(facts->manifest),
        .tree_digest = str_of(facts->tree_digest),
        .objects = {objects, facts->n_objects},
        .size_bytes = (int64_t)facts->n_bytes,
        .entries = (int64_t)facts->n_entries,
    };
}

/* Nobody else may write from here to the end of the transaction. */
static bool take_turn(struct call *call, struct tx *tx, const char *workspace_id,
                      struct wakes *wakes, struct error *err)
{
    bool is_free;

    return mount_make_way(tx, call_environment(call), workspace_id, call->arena, &is_free, wakes,
                          err) &&
           (is_free || error_set(err, ERR_WORKSPACE_WRITER, "the workspace was just mounted"));
}

static bool publish(struct call *call, struct files_change *change, const struct base *base,
                    const struct tree_facts *facts, struct error *err)
{
    struct server *server = server_of(call);
    const struct version_place place = {
        .environment_id = call_environment(call),
        .workspace_id = change->workspace_id,
        .base = base->version_id,
        .generation = VERSION_OF_SERVER,
    };
    AUTO_FREE struct wakes *wakes = alloc(sizeof *wakes);
    AUTO_TX tx = NULL;

    *wakes = (struct wakes){0};
    id_make(change->version_id);
    struct wire_version version = version_of(facts, change->version_id, call->arena);
    return store_begin(server->store, &tx, err) &&
           take_turn(call, tx, change->workspace_id, wakes, err) &&
           version_publish_in(server, tx, &version, &place, wakes, err) &&
           audit_call(tx, call, "workspace.write", str_of(change->workspace_id), err) &&
           hub_commit(&server->hub, &tx, wakes, err);
}

static bool try_once(struct call *call, struct files_change *change, struct error *err)
{
    AUTO(base_finish) struct base base = {0};
    struct tree_facts facts;

    if (!open_base(call, change->workspace_id, &base, err))
        return false;
    AUTO_TREE_EDIT edit = begin_edit(&base);
    if (!change->apply(edit, change->arg, err))
        return false;
    if (!tree_edit_has_changes(edit)) {
        snprintf(change->version_id, ID_TEXT, "%.*s", (int)base.version_id.len,
                 base.version_id.ptr ? base.version_id.ptr : "");
        return true;
    }
    return tree_edit_end(edit, &facts, err) && publish(call, change, &base, &facts, err);
}

/* A mount that nothing runs in is captured and stopped first. */
static bool make_way(struct call *call, const char *workspace_id, bool *is_free, struct error *err)
{
    struct server *server = server_of(call);
    AUTO_FREE struct wakes *wakes = alloc(sizeof *wakes);
    AUTO_TX tx = NULL;

    *wakes = (struct wakes){0};
    return store_begin(server->store, &tx, err) &&
           mount_make_way(tx, call_environment(call), workspace_id, call->arena, is_free, wakes,
                          err) &&
           hub_commit(&server->hub, &tx, wakes, err);
}

static bool wait_for_mount(struct call *call, struct files_change *change, struct response *res,
                           struct error *err)
{
    if (call->is_last_try)
        return error_set(err, ERR_WORKSPACE_WRITER,
                         "the workspace is mounted, and that did not end in time");
    change->is_parked = true;
    response_park(res, arena_printf(call->arena, "workspace:%s", change->workspace_id),
                  MOUNT_WAIT_MS);
    return true;
}

bool files_change_make(struct call *call, struct files_change *change, struct response *res,
                       struct error *err)
{
    bool is_free;

    if (!make_way(call, change->workspace_id, &is_free, err))
        return false;
    if (!is_free)
        return wait_for_mount(call, change, res, err);
    /* A version that came in between is the new base, and a pack that the collector took is
     * written again. */
    for (int i = 1; i < TRIES_MAX; i++) {
        if (try_once(call, change, err))
            return true;
        if (err->code != ERR_LEASE_STALE && err->code != ERR_OBJECT_GONE)
            return false;
    }
    return try_once(call, change, err) ||
           (err->code == ERR_LEASE_STALE &&
            error_set(err, ERR_CONFLICT, "the workspace is being changed by others"));
}
