#include "server/store_verify.h"

#include "base/own.h"
#include "blob/object.h"
#include "server/object_store.h"
#include "store/queries.h"

enum { PAGE = 100, TRIES = 3 };

/* What a row says of an object. */
struct entry {
    const char *id;
    struct str domain, class;
    bool is_sealed;
    uint64_t size;
};

static struct entry entry_of(const struct rows *rows, size_t row)
{
    return (struct entry){
        .id = row_text(rows, row, OBJECTS_AFTER_ID),
        .domain = row_str(rows, row, OBJECTS_AFTER_DOMAIN),
        .class = row_str(rows, row, OBJECTS_AFTER_CLASS),
        .is_sealed = !row_is_null(rows, row, OBJECTS_AFTER_KEY_ID),
        .size = (uint64_t)row_int(rows, row, OBJECTS_AFTER_SIZE_BYTES),
    };
}

static bool check_blob(const struct entry *entry, const struct seal_keys *keys, int *fd,
                       struct error *err)
{
    AUTO(blob_reader_finish) struct blob_reader reader = {.fd = -1};

    return blob_reader_open(&reader, keys, take_fd(fd),
                            entry->is_sealed ? BLOB_SEALED : BLOB_EITHER, err) &&
           blob_reader_check(&reader, entry->id, entry->size, err);
}

static bool check_digest(const struct entry *entry, struct seal_source source, struct error *err)
{
    char digest[SHA256_HEX];

    if (!seal_source_digest(&source, digest, err))
        return false;
    return strcmp(digest, entry->id) == 0 ||
           error_set(err, ERR_DAMAGED, "the object %s has other bytes", entry->id);
}

static bool check(struct store_verify *verify, const struct entry *entry,
                  const struct seal_keys *keys, uint64_t *size, struct error *err)
{
    enum seal_class class;
    struct seal_source source;
    AUTO_FD int fd = -1;

    if (!blob_open(verify->blobs, entry->id, &fd, size, err))
        return err->code == ERR_NOT_FOUND ? error_set(err, ERR_DAMAGED, "the file is missing")
                                          : false;
    if (!object_class_parse(entry->class, &class))
        return check_blob(entry, keys, &fd, err);
    if (!seal_source_fd(&fd, &source, err))
        return false;
    if (!str_equal(entry->domain, STR("store")))
        return check_digest(entry, source, err);
    return object_verify(keys, class, entry->id, source, err);
}

static bool read_page(struct store_verify *verify, const char *after, int64_t limit,
                      struct arena *arena, struct rows *rows, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(verify->store, &tx, err) &&
           STORE(tx, &objects_after, arena, rows, err, V_TEXT(after), V_INT(limit));
}

/* The row as it is now: a server beside us may have removed the object or sealed it anew. */
static bool read_again(struct store_verify *verify, const char *id, struct arena *arena,
                       struct entry *entry, bool *is_there, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(verify->store, &tx, err) ||
        !STORE(tx, &object_again, arena, &rows, err, V_TEXT(id)))
        return false;
    *is_there = rows.n_rows == 1;
    if (*is_there)
        *entry = entry_of(&rows, 0);
    return true;
}

static bool verify_one(struct store_verify *verify, struct entry entry,
                       const struct seal_keys *keys, struct arena *arena, struct error *err)
{
    struct error fault = {0};
    bool is_there = true, is_fine = false;
    uint64_t size = 0;

    for (int try = 0; try < TRIES && is_there && !is_fine; try++) {
        if (try > 0 && !read_again(verify, entry.id, arena, &entry, &is_there, err))
            return false;
        is_fine = is_there && check(verify, &entry, keys, &size, &fault);
    }
    if (!is_there)
        return true;
    verify->n_objects++;
    verify->n_bytes += (int64_t)size;
    if (!is_fine) {
        verify->n_damaged++;
        verify->complain(verify->arg, entry.id, arena_text(arena, entry.class), fault.text);
    }
    return true;
}

bool store_verify_all(struct store_verify *verify, struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    char after[BLOB_ID] = "";
    bool is_over = false;

    if (!keys_ring(verify->keys, &ring, err))
        return false;
    while (!is_over) {
        AUTO(arena_finish) struct arena arena = {0};
        struct rows rows;

        if (!read_page(verify, after, PAGE, &arena, &rows, err))
            return false;
        for (size_t i = 0; i < rows.n_rows; i++)
            if (!verify_one(verify, entry_of(&rows, i), &ring.keys, &arena, err))
                return false;
        is_over = rows.n_rows == 0;
        if (!is_over)
            snprintf(after, sizeof after, "%s", row_text(&rows, rows.n_rows - 1, OBJECTS_AFTER_ID));
    }
    return true;
}
