/* index.json of the layout: which reference means which manifest. */
#include <errno.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "image/config.h"
#include "image/reference.h"
#include "image/store.h"

enum { INDEX_MAX = 4 << 20, ENTRIES_MAX = 4096 };

#define NAME_KEY    "org.opencontainers.image.ref.name"
#define CREATED_KEY "org.opencontainers.image.created"
#define INDEX_TYPE  "application/vnd.oci.image.index.v1+json"

struct row {
    struct str media_type, digest;
    int64_t size;
    struct json_map annotations;
};

struct document {
    int64_t version;
    struct json_list rows;
};

static const struct json_field row_fields[] = {
    {"mediaType", JSON_TEXT, offsetof(struct row, media_type), REQUIRED, .max = 256},
    {"digest", JSON_TEXT, offsetof(struct row, digest), REQUIRED, .max = 71},
    {"size", JSON_INTEGER, offsetof(struct row, size), REQUIRED, .max = INT32_MAX},
    {"annotations", JSON_MAP, offsetof(struct row, annotations), OPTIONAL, .max = 64},
    {0},
};

static const struct json_field document_fields[] = {
    {"schemaVersion", JSON_INTEGER, offsetof(struct document, version), REQUIRED, .min = 2,
     .max = 2},
    {"manifests", JSON_LIST, offsetof(struct document, rows), REQUIRED, .max = ENTRIES_MAX,
     .fields = row_fields, .size = sizeof(struct row)},
    {0},
};

static struct str annotation(const struct row *row, const char *key)
{
    for (size_t i = 0; i < row->annotations.n; i++)
        if (str_equal(row->annotations.pairs[i].name, str_of(key)))
            return row->annotations.pairs[i].value;
    return (struct str){0};
}

static bool read_index(struct image_store *store, struct arena *arena, struct document *document,
                       struct error *err)
{
    AUTO_FREE char *text = NULL;
    char *path = arena_printf(arena, "%s/index.json", store->oci);

    *document = (struct document){0};
    if (!disk_has(store->oci_fd, "index.json"))
        return true;
    return (file_read(path, INDEX_MAX, &text, err) &&
            json_read_loose(str_of(text), document_fields, document, sizeof *document, arena,
                            err)) ||
           error_wrap(err, "%s", path);
}

bool index_find(struct image_store *store, const char *reference, char digest[DIGEST_TEXT],
                struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct document document;

    if (!read_index(store, &arena, &document, err))
        return false;
    const struct row *rows = document.rows.items;
    for (size_t i = 0; i < document.rows.n; i++) {
        if (!str_equal(annotation(&rows[i], NAME_KEY), str_of(reference)) ||
            !digest_is_valid(rows[i].digest))
            continue;
        memcpy(digest, rows[i].digest.ptr, DIGEST_TEXT - 1);
        digest[DIGEST_TEXT - 1] = '\0';
        return true;
    }
    return error_set(err, ERR_NOT_FOUND, "%s is not in the local image store", reference);
}

static void write_row(struct json_writer *writer, const struct row *row)
{
    json_open(writer, NULL);
    json_text(writer, "mediaType", row->media_type);
    json_text(writer, "digest", row->digest);
    json_int(writer, "size", row->size);
    json_open(writer, "annotations");
    for (size_t i = 0; i < row->annotations.n; i++)
        json_text(writer, row->annotations.pairs[i].name.ptr, row->annotations.pairs[i].value);
    json_close(writer);
    json_close(writer);
}

/* The list without the reference, and with `added` at its end unless that is NULL. */
static bool rewrite(struct image_store *store, const char *reference, const struct row *added,
                    bool *was_there, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf out = {.max = INDEX_MAX};
    struct json_writer writer = json_begin(&out);
    struct document document;

    *was_there = false;
    if (!read_index(store, &arena, &document, err))
        return false;
    json_open(&writer, NULL);
    json_int(&writer, "schemaVersion", 2);
    json_string(&writer, "mediaType", INDEX_TYPE);
    json_open_list(&writer, "manifests");
    const struct row *rows = document.rows.items;
    for (size_t i = 0; i < document.rows.n; i++) {
        if (str_equal(annotation(&rows[i], NAME_KEY), str_of(reference)))
            *was_there = true;
        else
            write_row(&writer, &rows[i]);
    }
    if (added && document.rows.n >= ENTRIES_MAX && !*was_there)
        return error_set(err, ERR_TOO_LARGE, "the image store has %d references: remove some",
                         ENTRIES_MAX);
    if (added)
        write_row(&writer, added);
    json_close_list(&writer);
    json_close(&writer);
    if (!json_end(&writer, err))
        return false;
    return (!added && !*was_there) ||
           file_publish(arena_printf(&arena, "%s/index.json", store->oci), buf_str(&out), 0644,
                        err);
}

bool index_put(struct image_store *store, const char *reference, const char *digest, int64_t size,
               int64_t created_ms, struct error *err)
{
    char created[TIME_TEXT_MAX];
    struct json_pair pairs[] = {
        {STR(CREATED_KEY), str_of(time_format(created_ms, created))},
        {STR(NAME_KEY), str_of(reference)},
    };
    /* Also of Docker's manifests: tools that read layouts look for no other type. */
    const struct row row = {
        str_of(MANIFEST_TYPE), str_of(digest), size, {pairs, COUNT_OF(pairs)}
    };
    bool was_there;

    return rewrite(store, reference, &row, &was_there, err);
}

bool index_drop(struct image_store *store, const char *reference, struct error *err)
{
    bool was_there;

    if (!rewrite(store, reference, NULL, &was_there, err))
        return false;
    return was_there ||
           error_set(err, ERR_NOT_FOUND, "%s is not in the local image store", reference);
}

bool reference_is_local(struct str reference)
{
    static const struct str prefix = STR("helmr.local/");

    return reference.len > prefix.len && memcmp(reference.ptr, prefix.ptr, prefix.len) == 0;
}

static int64_t size_of(struct image_store *store, const struct row *row)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest_blobs blobs;
    struct error ignored;
    int64_t size = 0;

    if (!manifest_load(store, arena_text(&arena, row->digest), &arena, &blobs, &ignored))
        return 0;
    for (size_t i = 0; i < blobs.n; i++)
        size += blobs.items[i].size;
    return size;
}

bool image_list(struct image_store *store, struct arena *arena, const struct image_entry **entries,
                size_t *n, struct error *err)
{
    struct document document;
    size_t found = 0;

    if (!read_index(store, arena, &document, err))
        return false;
    const struct row *rows = document.rows.items;
    struct image_entry *list = arena_array(arena, document.rows.n + 1, sizeof *list);
    for (size_t i = 0; i < document.rows.n; i++) {
        struct image_entry *entry = &list[found];
        struct str created = annotation(&rows[i], CREATED_KEY);
        struct error ignored;
        entry->reference = annotation(&rows[i], NAME_KEY);
        if (!entry->reference.len || !digest_is_valid(rows[i].digest))
            continue;
        memcpy(entry->digest, rows[i].digest.ptr, DIGEST_TEXT - 1);
        entry->size = size_of(store, &rows[i]);
        if (!created.len || !time_parse(created, &entry->created_ms, &ignored))
            entry->created_ms = 0;
        found++;
    }
    *entries = list;
    *n = found;
    return true;
}
