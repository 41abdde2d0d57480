/* image_resolve and image_pull. */
#include "base/own.h"
#include "base/time.h"
#include "image/config.h"
#include "image/registry_blob.h"
#include "image/registry_manifest.h"

struct pull {
    struct image_store *store;
    const struct image_transfer *transfer;
    const char *name; /* as it was asked for */
    struct reference reference;
    struct arena *arena;
    bool only_resolve;
    char *digest; /* where the result goes */
};

static bool get_blobs(struct pull *pull, const struct image_transfer *transfer,
                      const struct registry_endpoint *endpoint, const struct batch_blob *blobs,
                      size_t n, struct error *err)
{
    struct batch batch = {
        .store = pull->store,
        .transfer = transfer,
        .endpoint = endpoint,
        .name = pull->name,
        .repository = pull->reference.repository,
        .actions = "pull",
        .blobs = blobs,
        .n_blobs = n,
        .move = registry_blob_get,
    };

    return batch_run(&batch, err);
}

/* The configuration comes first: it says whether the layers are worth fetching. */
static bool get_content(struct pull *pull, const struct registry_endpoint *endpoint,
                        const struct registry_manifest *manifest, struct error *err)
{
    struct batch_blob config = {manifest->config, manifest->config_size};
    struct image_transfer silent = *pull->transfer;
    struct image_document document;

    silent.progress = NULL;
    if (!get_blobs(pull, &silent, endpoint, &config, 1, err) ||
        !document_read(pull->store, manifest->bytes, pull->arena, &document, err))
        return false;
    const struct image *image = &document.image;
    struct batch_blob *layers = arena_array(pull->arena, image->n_layers + 1, sizeof *layers);
    return get_blobs(pull, pull->transfer, endpoint, layers, batch_layers(image, layers), err);
}

static bool record(struct pull *pull, const struct registry_manifest *manifest, struct error *err)
{
    AUTO_FD int lock = -1;
    char text[REFERENCE_TEXT], digest[DIGEST_TEXT];

    reference_format(&pull->reference, text);
    return store_put_blob(pull->store, manifest->bytes, digest, err) &&
           store_lock(pull->store, &lock, err) &&
           index_put(pull->store, text, digest, (int64_t)manifest->bytes.len, time_now_ms(), err);
}

static bool pull_from(struct pull *pull, const struct registry_endpoint *endpoint,
                      struct error *err)
{
    AUTO(registry_line_close) struct registry_line line = {0};
    struct registry_manifest manifest;

    if (!registry_line_open(&line, pull->transfer->registries, endpoint, pull->reference.repository,
                            "pull", pull->transfer->abort, err) ||
        !registry_manifest_get(&line, &pull->reference, pull->arena, &manifest, err))
        return false;
    if (!pull->only_resolve &&
        (!get_content(pull, endpoint, &manifest, err) || !record(pull, &manifest, err)))
        return false;
    memcpy(pull->digest, manifest.digest, DIGEST_TEXT);
    return true;
}

/* A fault of this host, or the wish to stop, is not mended by asking elsewhere. */
static bool is_final(const struct error *err)
{
    return err->code == ERR_CANCELLED || err->sys != 0;
}

/* That nobody answered is the verdict only when nobody did: a mirror that refused has answered. */
static void merge(const struct error *mirror, struct error *err)
{
    if (mirror->text[0] && err->code == ERR_UNAVAILABLE && mirror->code != ERR_UNAVAILABLE) {
        char text[256];
        (void)snprintf(text, sizeof text, "%.255s", err->text);
        (void)error_set(err, mirror->code, "%.240s; then %s", mirror->text, text);
    }
}

static bool pull_any(struct pull *pull, struct error *err)
{
    struct registry_endpoint endpoints[LINE_ENDPOINTS];
    struct error refused = {0}, why = {0};
    size_t n = registry_endpoints(pull->transfer->registries, pull->reference.host, endpoints);

    for (size_t i = 0; i < n; i++) {
        if (pull_from(pull, &endpoints[i], &why))
            return true;
        if (is_final(&why))
            break;
        if (i + 1 == n)
            merge(&refused, &why);
        else if (!refused.text[0] || refused.code == ERR_UNAVAILABLE)
            refused = why;
    }
    *err = why;
    return error_wrap(err, "%s", pull->name);
}

static bool start(struct image_store *store, const struct image_transfer *transfer,
                  const char *reference, bool only_resolve, char digest[DIGEST_TEXT],
                  struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int work = -1;
    struct pull pull = {
        .store = store,
        .transfer = transfer,
        .name = reference,
        .arena = &arena,
        .only_resolve = only_resolve,
        .digest = digest,
    };

    return reference_parse(str_of(reference), &pull.reference, err) &&
           image_work(store, &work, err) && pull_any(&pull, err);
}

bool image_resolve(struct image_store *store, const struct image_transfer *transfer,
                   const char *reference, char digest[DIGEST_TEXT], struct error *err)
{
    return start(store, transfer, reference, true, digest, err);
}

bool image_pull(struct image_store *store, const struct image_transfer *transfer,
                const char *reference, char digest[DIGEST_TEXT], struct error *err)
{
    return start(store, transfer, reference, false, digest, err);
}
