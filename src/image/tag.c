/* Names: references of index.json, given only to images that are whole. */
#include "base/own.h"
#include "base/time.h"
#include "image/config.h"
#include "image/reference.h"

/* A name is given only to what is whole: looking at the parts keeps collectors off them. */
static bool is_whole(struct image_store *store, const char *digest, bool with_layers, int64_t *size,
                     struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest_blobs blobs;

    if (!manifest_load(store, digest, &arena, &blobs, err))
        return false;
    size_t n = with_layers ? blobs.n : BLOB_LAYERS;
    for (size_t i = 0; i < n; i++)
        if (!store_has_blob(store, blobs.items[i].digest))
            return error_set(err, ERR_NOT_FOUND, "%s of the image %s is not in the local store",
                             blobs.items[i].digest, digest);
    *size = blobs.items[BLOB_MANIFEST].size;
    return true;
}

static bool publish(struct image_store *store, const char *reference, const char *digest,
                    struct error *err)
{
    bool is_local = reference_is_local(str_of(reference));
    AUTO_FD int lock = -1;
    int64_t size;

    return store_lock(store, &lock, err) && is_whole(store, digest, !is_local, &size, err) &&
           index_put(store, reference, digest, size, time_now_ms(), err);
}

bool document_publish(struct image_store *store, struct image_document *document,
                      const char *reference, struct error *err)
{
    int64_t size;

    return document_save(store, document, &size, err) &&
           publish(store, reference, document->image.digest, err);
}

static bool canonical(const char *reference, bool may_be_digest, char text[REFERENCE_TEXT],
                      struct error *err)
{
    struct reference parsed;

    if (!reference_parse(str_of(reference), &parsed, err))
        return false;
    reference_format(&parsed, text);
    return ((may_be_digest || !parsed.digest[0]) && !digest_is_valid(str_of(reference))) ||
           error_set(err, ERR_INVALID, "an image is named by a tag, not by a digest");
}

bool image_tag(struct image_store *store, const char *reference, const char *digest,
               struct error *err)
{
    char text[REFERENCE_TEXT];

    if (!digest_is_valid(str_of(digest)))
        return error_set(err, ERR_INVALID, "%.80s is no digest", digest);
    return canonical(reference, false, text, err) && publish(store, text, digest, err);
}

bool image_untag(struct image_store *store, const char *reference, struct error *err)
{
    char text[REFERENCE_TEXT];
    AUTO_FD int lock = -1;

    return canonical(reference, true, text, err) && store_lock(store, &lock, err) &&
           index_drop(store, text, err);
}
