/* Names of the store, and whether all they lead to is here. */
#include "base/own.h"
#include "image/config.h"
#include "image/verify.h"

/* How to get a part again, told to people. */
static const char *cure_of(struct verifier *verifier, const struct image_entry *entry)
{
    const char *name = arena_text(&verifier->arena, entry->reference);

    if (reference_is_local(entry->reference))
        return "the server has it: it is fetched when a run needs it";
    return arena_printf(&verifier->arena,
                        "helmr image pull %s, or helmr image bootstrap --force %s", name, name);
}

static void note_layers(struct verifier *verifier, const struct image_entry *entry)
{
    struct image_document document;
    struct error why;

    if (!document_load(verifier->store, entry->digest, &verifier->arena, &document, &why)) {
        /* Another platform's image is none of ours, but no damage. */
        if (why.code != ERR_UNSUPPORTED)
            verify_problem(verifier, arena_text(&verifier->arena, entry->reference),
                           cure_of(verifier, entry), "%s", why.text);
        return;
    }
    for (size_t i = 0; i < document.image.n_layers; i++) {
        const struct image_layer *layer = &document.image.layers[i];
        struct thing *unpacked = map_find(&verifier->census.layers, str_of(layer->chain));
        if (unpacked)
            unpacked->reach |= REACH_NAME;
        map_put(&verifier->diffs, str_of(digest_hex(layer->digest)),
                arena_text(&verifier->arena, str_of(layer->diff_id)));
    }
}

static void check_part(struct verifier *verifier, const struct image_entry *entry,
                       const struct manifest_blob *blob, bool may_be_absent)
{
    struct thing *thing = map_find(&verifier->census.blobs, str_of(digest_hex(blob->digest)));
    struct stat facts;

    if (thing)
        thing->reach |= reference_is_local(entry->reference) ? REACH_LOCAL : REACH_NAME;
    /* On the disk, not in the census: the name may be younger. */
    if (store_look(verifier->store, blob->digest, &facts)) {
        if (facts.st_size != blob->size)
            verify_problem(verifier, blob->digest, cure_of(verifier, entry),
                           "has %lld bytes where %.*s promises %lld", (long long)facts.st_size,
                           (int)entry->reference.len, entry->reference.ptr, (long long)blob->size);
    } else if (may_be_absent) {
        verifier->verdict->absent++;
    } else {
        verify_problem(verifier, blob->digest, cure_of(verifier, entry),
                       "is missing; %.*s needs it", (int)entry->reference.len,
                       entry->reference.ptr);
    }
}

static void check_image(struct verifier *verifier, const struct image_entry *entry)
{
    struct manifest_blobs blobs;
    struct error why;

    verifier->verdict->references++;
    if (!manifest_load(verifier->store, entry->digest, &verifier->arena, &blobs, &why)) {
        verify_problem(verifier, arena_text(&verifier->arena, entry->reference),
                       cure_of(verifier, entry), "%s", why.text);
        return;
    }
    size_t problems = verifier->verdict->n_problems;
    for (size_t i = 0; i < blobs.n; i++)
        check_part(verifier, entry, &blobs.items[i],
                   i >= BLOB_LAYERS && reference_is_local(entry->reference));
    if (verifier->verdict->n_problems == problems)
        note_layers(verifier, entry);
}

void verify_images(struct verifier *verifier)
{
    const struct image_entry *entries;
    struct error why;
    size_t n;

    if (!image_list(verifier->store, &verifier->arena, &entries, &n, &why)) {
        verify_problem(verifier, "index.json",
                       "move the file away: base images are then pulled or made again, and "
                       "deployments' images fetched from the server",
                       "%s", why.text);
        return;
    }
    for (size_t i = 0; i < n; i++)
        check_image(verifier, &entries[i]);
}

static bool is_whole(struct verifier *verifier, const struct image_entry *entry)
{
    bool is_local = reference_is_local(entry->reference);
    struct manifest_blobs blobs;
    struct error ignored;
    struct stat facts;

    if (!manifest_load(verifier->store, entry->digest, &verifier->arena, &blobs, &ignored))
        return false;
    for (size_t i = 0; i < blobs.n; i++)
        if ((i < BLOB_LAYERS || !is_local) &&
            !store_look(verifier->store, blobs.items[i].digest, &facts))
            return false;
    return true;
}

bool verify_drop_names(struct verifier *verifier, struct error *err)
{
    const struct image_entry *entries;
    AUTO_FD int lock = -1;
    struct error ignored;
    size_t n;

    if (!store_lock(verifier->store, &lock, err))
        return false;
    /* A list that cannot be read is somebody's to look at, not ours to replace. */
    if (!image_list(verifier->store, &verifier->arena, &entries, &n, &ignored))
        return true;
    for (size_t i = 0; i < n; i++)
        if (!is_whole(verifier, &entries[i]) &&
            !index_drop(verifier->store, arena_text(&verifier->arena, entries[i].reference), err))
            return false;
    return true;
}
