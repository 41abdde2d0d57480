#include "server/object_store.h"

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "store/queries.h"

static const char *const class_names[] = {
    [SEAL_PACK] = "pack",
    [SEAL_MANIFEST] = "manifest",
    [SEAL_BLOB] = "blob",
};

static const char *const domain_names[] = {
    [SEAL_STORE] = "store",
    [SEAL_CHECKPOINT] = "checkpoint",
};

const char *object_class_name(enum seal_class class)
{
    return class_names[class];
}

const char *object_domain_name(enum seal_domain domain)
{
    return domain_names[domain];
}

bool object_class_parse(struct str name, enum seal_class *class)
{
    for (enum seal_class i = SEAL_PACK; i <= SEAL_MANIFEST; i++) {
        if (str_equal(name, str_of(class_names[i]))) {
            *class = i;
            return true;
        }
    }
    return false;
}

bool object_draft_blob(struct server *server, int fd, uint64_t offset, uint64_t len, const char *id,
                       struct object_draft *draft, struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};

    *draft = (struct object_draft){.size = len};
    return keys_ring(&server->keys, &ring, err) &&
           blob_stage_sealed(server->blobs, &ring.keys, fd, offset, len, id, &draft->blob,
                             &draft->facts, err);
}

/* A worker is believed neither the class nor that anybody could ever read it. */
static bool check_header(struct server *server, int fd, enum seal_class class,
                         struct seal_header *said, struct error *err)
{
    uint8_t header[SEAL_HEADER_LEN];
    struct seal_source source;
    size_t index;

    if (!seal_source_fd(&fd, &source, err))
        return false;
    if (source.size < sizeof header)
        return error_set(err, ERR_INVALID, "the object is shorter than its header");
    if (!source.read(source.arg, 0, header, sizeof header, err))
        return false;
    if (!seal_header_read(header, said, err) || said->class != class)
        return error_set(err, ERR_INVALID, "this is no sealed %s", object_class_name(class));
    if (said->domain == SEAL_STORE &&
        !keys_find(&server->keys, KEY_STORE, str_of(said->key_id), &index))
        return error_set(err, ERR_INVALID, "key id %s is none of this store", said->key_id);
    return true;
}

bool object_draft_sealed(struct server *server, int fd, uint64_t len, const char *id,
                         enum seal_class class, struct object_draft *draft, struct error *err)
{
    struct seal_header said;

    *draft = (struct object_draft){.size = len};
    if (!check_header(server, fd, class, &said, err) ||
        !blob_stage_fd(server->blobs, fd, 0, len, id, &draft->blob, err))
        return false;
    draft->facts = (struct seal_facts){.domain = said.domain, .class = class, .size = len};
    snprintf(draft->facts.key_id, sizeof draft->facts.key_id, "%s", said.key_id);
    snprintf(draft->facts.digest, sizeof draft->facts.digest, "%s", draft->blob.id);
    return true;
}

bool object_publish(struct server *server, struct tx *tx, struct object_draft *draft,
                    struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct seal_facts *facts = &draft->facts;
    struct rows rows;

    if (!STORE(tx, &object_insert, &arena, &rows, err, V_TEXT(draft->blob.id),
               V_TEXT(object_domain_name(facts->domain)), V_TEXT(object_class_name(facts->class)),
               V_TEXT(facts->key_id), V_TEXT(draft->blob.id), V_INT((int64_t)draft->size),
               V_INT((int64_t)facts->size), V_INT(time_now_ms())))
        return false;
    if (rows.n_changed != 1)
        return error_set(err, ERR_CONFLICT, "object %s is there as another class", draft->blob.id);
    return blob_publish(server->blobs, &draft->blob, err);
}

void object_draft_discard(struct server *server, struct object_draft *draft)
{
    blob_discard(server->blobs, &draft->blob);
}

bool object_find_row(struct tx *tx, struct str id, struct arena *arena, struct object_row *row,
                     struct error *err)
{
    struct rows rows;

    if (!STORE(tx, &object_find, arena, &rows, err, V_STR(id)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_NOT_FOUND, "there is no such object");
    *row = (struct object_row){
        .class = SEAL_BLOB,
        .is_sealed = !row_is_null(&rows, 0, OBJECT_FIND_KEY_ID),
        .is_doubted = !row_is_null(&rows, 0, OBJECT_FIND_DAMAGED_MS),
        .size = (uint64_t)row_int(&rows, 0, OBJECT_FIND_SIZE_BYTES),
    };
    object_class_parse(row_str(&rows, 0, OBJECT_FIND_CLASS), &row->class);
    return true;
}

/* A file is replaced by its sealed form just before its row says so. */
static bool open_reader(struct server *server, const char *id, const struct object_row *row,
                        struct blob_reader *reader, struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    uint64_t size;
    int fd;

    *reader = (struct blob_reader){.fd = -1};
    return keys_ring(&server->keys, &ring, err) && blob_open(server->blobs, id, &fd, &size, err) &&
           blob_reader_open(reader, &ring.keys, fd, row->is_sealed ? BLOB_SEALED : BLOB_EITHER,
                            err);
}

/* One that is doubted is read through once before anybody gets a byte of it: a reader could not be
 * told any more once the answer has begun. */
bool object_open_blob(struct server *server, const char *id, const struct object_row *row,
                      struct blob_reader *reader, struct error *err)
{
    if (row->is_doubted) {
        AUTO(blob_reader_finish) struct blob_reader check = {.fd = -1};
        if (!open_reader(server, id, row, &check, err) ||
            !blob_reader_check(&check, id, row->size, err)) {
            *reader = (struct blob_reader){.fd = -1};
            return false;
        }
        object_doubt(server, id, false);
    }
    return open_reader(server, id, row, reader, err);
}

void object_doubt(struct server *server, const char *id, bool is_damaged)
{
    struct error err;
    AUTO_TX tx = NULL;

    if (is_damaged)
        log_error("an object is damaged", LOG_STR("object", id));
    if (!store_begin(server->store, &tx, &err) ||
        !STORE(tx, &object_mark, NULL, NULL, &err, V_TEXT(id),
               is_damaged ? V_INT(time_now_ms()) : V_NULL) ||
        !store_commit(&tx, &err))
        log_warn("an object could not be marked", LOG_STR("object", id), LOG_ERR(&err));
}
