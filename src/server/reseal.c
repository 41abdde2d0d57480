#include "server/reseal.h"

#include "base/log.h"
#include "base/own.h"
#include "server/object_store.h"
#include "store/queries.h"

enum { PAGE = 50 };

/* One blob on its way. */
struct resealing {
    struct server *server;
    const struct reseal_pace *pace;
    const struct seal_keys *keys;
    const char *id;
    struct value old_key_id;
    bool is_stopped;
};

static bool goes_on(struct resealing *one, size_t n_bytes)
{
    const struct reseal_pace *pace = one->pace;

    one->is_stopped = pace && !pace->go_on(pace->arg, n_bytes);
    return !one->is_stopped;
}

static bool copy(struct resealing *one, struct blob_reader *reader, struct blob_sealer *sealer,
                 struct error *err)
{
    bool is_last = false;
    struct str bytes;

    while (!is_last) {
        if (!blob_reader_next(reader, &bytes, &is_last, err) ||
            !blob_sealer_add(sealer, bytes, err))
            return false;
        if (!goes_on(one, bytes.len))
            return error_set(err, ERR_CANCELLED, "sealing anew was stopped");
    }
    return true;
}

/* Whoever stored the object meanwhile, or found it unneeded, has the better row: nothing is
 * published then. */
static bool replace(struct resealing *one, struct blob_draft *draft, const struct seal_facts *facts,
                    struct error *err)
{
    struct server *server = one->server;
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &object_resealed, &arena, &rows, err, V_TEXT(one->id), one->old_key_id,
               V_TEXT(facts->key_id), V_INT((int64_t)facts->size)))
        return false;
    return rows.n_changed == 0 ||
           (blob_publish(server->blobs, draft, err) && store_commit(&tx, err));
}

static bool reseal(struct resealing *one, struct blob_reader *reader, struct error *err)
{
    AUTO(blob_sealer_finish) struct blob_sealer sealer = {0};
    struct blob_draft draft;
    struct seal_facts facts;

    if (!blob_sealer_begin(&sealer, one->server->blobs, one->keys, err) ||
        !copy(one, reader, &sealer, err))
        return false;
    if (!blob_sealer_end(&sealer, one->id, &draft, &facts, err)) {
        if (err->code == ERR_CONTENT_HASH)
            err->code = ERR_DAMAGED;
        return false;
    }
    bool fine = replace(one, &draft, &facts, err);
    blob_discard(one->server->blobs, &draft);
    return fine;
}

/* A pack or a manifest that is called a blob, as all were before classes were told apart. */
static bool classify(struct resealing *one, int fd, bool *is_other, struct error *err)
{
    uint8_t header[SEAL_HEADER_LEN];
    struct seal_source source;
    struct seal_header said;
    struct error no;
    AUTO_TX tx = NULL;

    *is_other = false;
    if (!seal_source_fd(&fd, &source, err))
        return false;
    if (source.size < sizeof header || !source.read(source.arg, 0, header, sizeof header, &no) ||
        !seal_header_read(header, &said, &no) || said.class == SEAL_BLOB)
        return true;
    *is_other = true;
    return store_begin(one->server->store, &tx, err) &&
           STORE(tx, &object_classified, NULL, NULL, err, V_TEXT(one->id),
                 V_TEXT(object_domain_name(said.domain)), V_TEXT(object_class_name(said.class)),
                 V_TEXT(said.key_id), V_INT((int64_t)source.size)) &&
           store_commit(&tx, err);
}

static bool reseal_one(struct resealing *one, struct error *err)
{
    AUTO(blob_reader_finish) struct blob_reader reader = {.fd = -1};
    bool is_plain = one->old_key_id.kind == VALUE_NULL, is_other = false;
    uint64_t size;
    int fd;

    if (!blob_open(one->server->blobs, one->id, &fd, &size, err) ||
        !blob_reader_open(&reader, one->keys, fd, is_plain ? BLOB_EITHER : BLOB_SEALED, err) ||
        (is_plain && !reader.is_sealed && !classify(one, reader.fd, &is_other, err)))
        return false;
    return is_other || reseal(one, &reader, err);
}

/* False when there is no use in going on to the next. */
static bool note_failure(const struct resealing *one, const struct error *err)
{
    if (one->is_stopped)
        return false;
    log_warn("a blob is not sealed anew", LOG_STR("object", one->id), LOG_ERR(err));
    if (err->code == ERR_DAMAGED)
        object_doubt(one->server, one->id, true);
    return err->code == ERR_DAMAGED || err->code == ERR_NOT_FOUND || err->code == ERR_KEY_MISSING;
}

static bool find_page(struct server *server, const char *after, struct arena *arena,
                      struct rows *rows, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server->store, &tx, err) &&
           STORE(tx, &objects_to_reseal, arena, rows, err, V_TEXT(server->keys.ids[KEY_STORE]),
                 V_TEXT(after), V_INT(PAGE));
}

static bool reseal_page(struct resealing *one, const struct rows *rows, size_t *n)
{
    struct error err;

    for (size_t i = 0; i < rows->n_rows; i++) {
        one->id = row_text(rows, i, OBJECTS_TO_RESEAL_ID);
        one->old_key_id = *row_value(rows, i, OBJECTS_TO_RESEAL_KEY_ID);
        if (reseal_one(one, &err))
            (*n)++;
        else if (!note_failure(one, &err))
            return false;
    }
    return true;
}

bool reseal_all(struct server *server, const struct reseal_pace *pace)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    struct resealing one = {.server = server, .pace = pace, .keys = &ring.keys};
    char after[BLOB_ID] = "";
    struct error err;
    size_t n = 0;
    bool fine = keys_ring(&server->keys, &ring, &err), is_over = false;

    while (fine && !is_over) {
        AUTO(arena_finish) struct arena arena = {0};
        struct rows rows;

        fine = find_page(server, after, &arena, &rows, &err);
        if (!fine)
            log_warn("blobs are not sealed anew", LOG_ERR(&err));
        is_over = !fine || rows.n_rows == 0;
        if (!is_over) {
            fine = reseal_page(&one, &rows, &n);
            snprintf(after, sizeof after, "%s",
                     row_text(&rows, rows.n_rows - 1, OBJECTS_TO_RESEAL_ID));
        }
    }
    if (n > 0)
        log_info("blobs sealed anew", LOG_INT("objects", (int64_t)n));
    return fine;
}
