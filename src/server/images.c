#include "server/images.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/input.h"
#include "server/lease.h"
#include "server/worker_plane.h"
#include "store/queries.h"

#define DIGEST_PREFIX "sha256:"

/* NEEDED_DAYS: how long a deployment is thought likely to be run though it is not the current. */
enum { PREFIX_LEN = sizeof DIGEST_PREFIX - 1, NEEDED_DAYS = 7 };

/* The digits of sha256:<hex>. */
static bool object_of(struct str digest, struct str *id)
{
    if (digest.len != PREFIX_LEN + BLOB_ID_LEN ||
        memcmp(digest.ptr, DIGEST_PREFIX, PREFIX_LEN) != 0)
        return false;
    *id = (struct str){digest.ptr + PREFIX_LEN, BLOB_ID_LEN};
    return blob_id_is_valid(*id);
}

bool object_keep(struct server *server, struct tx *tx, struct str id, struct arena *arena,
                 struct error *err)
{
    struct rows rows;

    if (!blob_id_is_valid(id))
        return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
    if (!STORE(tx, &object_refer, arena, &rows, err, V_STR(id), V_INT(time_now_ms())))
        return false;
    return (rows.n_rows == 1 && blob_has(server->blobs, arena_text(arena, id))) ||
           error_set(err, ERR_OBJECT_GONE, "object %.*s is not in the store", (int)id.len, id.ptr);
}

static int by_text(const void *a, const void *b)
{
    const struct str *x = a, *y = b;

    return memcmp(x->ptr, y->ptr, BLOB_ID_LEN);
}

/* All objects of all images in one order, so that two publications cannot lock each other out. */
static bool collect(const struct wire_build_complete *built, struct arena *arena, struct str **ids,
                    size_t *n, struct error *err)
{
    const struct wire_build_image *images = built->images.items;
    size_t most = 1;

    for (size_t i = 0; i < built->images.n; i++)
        most += images[i].objects.n;
    *ids = arena_array(arena, most, sizeof **ids);
    *n = 0;
    for (size_t i = 0; i < built->images.n; i++) {
        const struct wire_object *objects = images[i].objects.items;
        struct str manifest = {0};
        bool is_whole = false;

        if (!object_of(images[i].digest, &manifest))
            return error_set(err, ERR_INVALID, "an image is named by sha256: and 64 hex digits");
        for (size_t k = 0; k < images[i].objects.n; k++) {
            if (!blob_id_is_valid(objects[k].digest))
                return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
            is_whole = is_whole || str_equal(objects[k].digest, manifest);
            (*ids)[(*n)++] = objects[k].digest;
        }
        if (!is_whole)
            return error_set(err, ERR_INVALID, "the objects of image %.*s lack its manifest",
                             (int)images[i].id.len, images[i].id.ptr);
    }
    qsort(*ids, *n, sizeof **ids, by_text);
    return true;
}

bool images_publish(struct server *server, struct tx *tx, const char *deployment_id,
                    const struct wire_build_complete *built, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str *ids;
    size_t n;

    if (!collect(built, &arena, &ids, &n, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && str_equal(ids[i], ids[i - 1]))
            continue;
        if (!object_keep(server, tx, ids[i], &arena, err) ||
            !STORE(tx, &image_object_insert, NULL, NULL, err, V_TEXT(deployment_id), V_STR(ids[i])))
            return false;
    }
    return true;
}

/* A call of a build about one of its steps: the lease is live and locked. */
struct step_call {
    struct call *call;
    struct server *server;
    struct tx *tx;
    struct lease_row lease;
    const char *project_id;
};

static void finish_call(struct step_call *open)
{
    store_rollback(&open->tx);
}

static bool open_call(struct call *call, const struct wire_fence *fence, struct step_call *open,
                      struct error *err)
{
    struct rows rows;

    open->call = call;
    open->server = server_of(call);
    if (!store_begin(open->server->store, &open->tx, err) ||
        !lease_open(open->tx, call, fence, false, &open->lease, err) ||
        !lease_is_for(&open->lease, SUBJECT_BUILD, err) ||
        !STORE(open->tx, &environment_project, call->arena, &rows, err,
               V_TEXT(open->lease.environment_id)))
        return false;
    open->project_id = row_text(&rows, 0, ENVIRONMENT_PROJECT_PROJECT_ID);
    return true;
}

/* *found is left empty when nobody has done the step, or what it made is gone. */
static bool find_step(struct step_call *open, struct str digest, struct wire_step_found *found,
                      struct error *err)
{
    struct arena *arena = open->call->arena;
    struct rows rows;

    if (!STORE(open->tx, &image_step_find, arena, &rows, err, V_TEXT(open->project_id),
               V_STR(digest)))
        return false;
    if (rows.n_rows == 0)
        return true;
    struct str object = row_str(&rows, 0, IMAGE_STEP_FIND_OBJECT_ID);
    if (object.ptr && !object_keep(open->server, open->tx, object, arena, err))
        return err->code == ERR_OBJECT_GONE;
    found->state = STR("hit");
    found->has_layer = object.ptr != NULL;
    if (object.ptr)
        found->layer = (struct wire_layer){
            str_of(arena_printf(arena, DIGEST_PREFIX "%.*s", (int)object.len, object.ptr)),
            row_str(&rows, 0, IMAGE_STEP_FIND_DIFF_ID),
            row_int(&rows, 0, IMAGE_STEP_FIND_SIZE_BYTES),
        };
    return STORE(open->tx, &image_step_use, NULL, NULL, err, V_TEXT(open->project_id),
                 V_STR(digest), V_INT(time_now_ms()));
}

static bool claim_step(struct step_call *open, struct str digest, struct wire_step_found *found,
                       struct error *err)
{
    struct rows rows;

    if (!STORE(open->tx, &image_step_claim, open->call->arena, &rows, err, V_TEXT(open->project_id),
               V_STR(digest), V_TEXT(open->lease.id), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed == 0) {
        found->state = STR("busy");
        return true;
    }
    /* The one who held the claim may have finished since we looked. */
    if (!find_step(open, digest, found, err))
        return false;
    if (!found->state.ptr) {
        found->state = STR("yours");
        return true;
    }
    return STORE(open->tx, &image_step_unclaim, NULL, NULL, err, V_TEXT(open->project_id),
                 V_STR(digest));
}

bool image_lookup_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct step_call open = {0};
    struct wire_step_found found = {0};
    struct wire_step_wanted wanted;

    if (!worker_read(call, wire_step_wanted_fields, &wanted, sizeof wanted, err) ||
        !open_call(call, &wanted.fence, &open, err) ||
        !find_step(&open, wanted.step_digest, &found, err))
        return false;
    if (!found.state.ptr && !claim_step(&open, wanted.step_digest, &found, err))
        return false;
    return store_commit(&open.tx, err) && worker_answer(res, wire_step_found_fields, &found, err);
}

bool image_record_post(struct call *call, struct response *res, struct error *err)
{
    AUTO(finish_call) struct step_call open = {0};
    struct wire_step_done done;
    struct str object = {0};

    if (!worker_read(call, wire_step_done_fields, &done, sizeof done, err))
        return false;
    if (done.step_digest.len == 0 || (done.has_layer && !object_of(done.layer.digest, &object)))
        return error_set(err, ERR_INVALID, "/layer/digest must be sha256: and 64 hex digits");
    if (!open_call(call, &done.fence, &open, err) ||
        (done.has_layer && !object_keep(open.server, open.tx, object, call->arena, err)))
        return false;
    return STORE(open.tx, &image_step_put, NULL, NULL, err, V_TEXT(open.project_id),
                 V_STR(done.step_digest), V_STR_OR_NULL(object),
                 done.has_layer ? V_STR(done.layer.diff_id) : V_NULL,
                 done.has_layer ? V_INT(done.layer.size) : V_NULL, V_INT(time_now_ms())) &&
           STORE(open.tx, &image_step_unclaim, NULL, NULL, err, V_TEXT(open.project_id),
                 V_STR(done.step_digest)) &&
           store_commit(&open.tx, err) && worker_answer_nothing(res, err);
}

static bool is_needed(struct call *call, struct tx *tx, struct str digest, bool *needed,
                      struct error *err)
{
    struct str object;
    struct rows rows;

    *needed = false;
    if (!object_of(digest, &object))
        return true;
    if (!STORE(tx, &image_is_needed, call->arena, &rows, err, V_STR(object),
               V_INT(time_now_ms() - NEEDED_DAYS * DAY_MS)))
        return false;
    *needed = rows.n_rows > 0;
    return true;
}

bool images_needed_post(struct call *call, struct response *res, struct error *err)
{
    struct wire_images_held held;
    enum worker_state state;
    AUTO_TX tx = NULL;

    if (!worker_read(call, wire_images_held_fields, &held, sizeof held, err) ||
        !store_begin_read(server_of(call)->store, &tx, err) ||
        !worker_check(call, tx, held.epoch, &state, err))
        return false;
    const struct str *images = held.images.items;
    struct str *gone = arena_array(call->arena, held.images.n + 1, sizeof *gone);
    size_t n = 0;
    for (size_t i = 0; i < held.images.n; i++) {
        bool needed;

        if (!is_needed(call, tx, images[i], &needed, err))
            return false;
        if (!needed)
            gone[n++] = images[i];
    }
    const struct wire_images_gone answer = {
        {gone, n}
    };
    return worker_answer(res, wire_images_gone_fields, &answer, err);
}
