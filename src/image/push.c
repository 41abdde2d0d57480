/* image_push: blobs the registry does not have yet, then the manifest. */
#include <inttypes.h>

#include "base/own.h"
#include "image/config.h"
#include "image/registry_batch.h"
#include "image/registry_manifest.h"

struct push {
    struct image_store *store;
    const struct image_transfer *transfer;
    const char *name; /* of the destination, as it was given */
    struct registry_endpoint endpoint;
    struct reference destination;
    struct registry_manifest manifest;
};

static bool is_there(struct registry_line *line, const char *digest, struct registry_reply *reply,
                     bool *there, struct error *err)
{
    char path[160];

    (void)snprintf(path, sizeof path, "blobs/%s", digest);
    struct registry_ask ask = {.path = path, .http = {.method = "HEAD"}};
    if (!registry_line_try(line, &ask, reply, err))
        return false;
    *there = reply->status == 200;
    return *there || reply->status == 404 || registry_line_refused(line, digest, reply, err);
}

/* Where the registry wants the bytes; an upload elsewhere goes without our credentials. */
static bool begin_upload(struct registry_line *line, const char *digest,
                         struct registry_reply *reply, struct registry_url *url, struct error *err)
{
    struct registry_ask ask = {.path = "blobs/uploads/", .http = {.method = "POST"}};

    if (!registry_line_send(line, &ask, reply, err))
        return false;
    if (reply->status != 202)
        return registry_line_refused(line, line->repository, reply, err);
    if (!reply->location[0])
        return error_set(err, ERR_INTERNAL, "%s gave no address for an upload",
                         line->endpoint->name);
    if (!registry_url_read(reply->location, &line->root, url, err)) {
        err->code = ERR_INTERNAL;
        return error_wrap(err, "%s wants an upload at", line->endpoint->name);
    }
    if (url->is_loopback && !line->root.is_loopback)
        return error_set(err, ERR_INTERNAL, "%s wants an upload at this machine itself: refused",
                         line->endpoint->name);
    size_t len = strlen(url->path);
    int written = snprintf(url->path + len, sizeof url->path - len, "%cdigest=%s",
                           strchr(url->path, '?') ? '&' : '?', digest);
    return (written > 0 && (size_t)written < sizeof url->path - len) ||
           error_set(err, ERR_INTERNAL, "%s gave too long an address for an upload",
                     line->endpoint->name);
}

struct sending {
    struct batch *batch;
    int64_t sent;
};

static void on_sent(void *arg, uint64_t sent, uint64_t total UNUSED)
{
    struct sending *sending = arg;

    batch_progress(sending->batch, (int64_t)sent - sending->sent);
    sending->sent = (int64_t)sent;
}

/* One try: a new upload each time, for the last one's state is the registry's. */
static bool upload(struct batch *batch, struct registry_line *line, const struct batch_blob *blob,
                   struct registry_reply *reply, struct error *err)
{
    AUTO_FD int fd = -1;
    struct sending sending = {.batch = batch};
    struct registry_url url;

    if (!store_open_blob(batch->store, blob->digest, &fd, err) ||
        !begin_upload(line, blob->digest, reply, &url, err))
        return false;
    struct registry_ask ask = {
        .url = &url,
        .http =
            {
                   .method = "PUT",
                   .body_fd = fd,
                   .body_fd_len = (uint64_t)blob->size,
                   .content_type = "application/octet-stream",
                   .progress = on_sent,
                   .progress_arg = &sending,
                   .is_bulk = true,
                   },
    };
    if (registry_line_send(line, &ask, reply, err)) {
        batch_progress(batch, blob->size - sending.sent);
        if (reply->status == 201)
            return true;
        sending.sent = blob->size;
        (void)registry_line_refused(line, blob->digest, reply, err);
    }
    batch_progress(batch, -sending.sent);
    return false;
}

static bool put_blob(struct batch *batch, struct registry_line *line, const struct batch_blob *blob,
                     struct error *err)
{
    AUTO_FREE struct registry_reply *reply = alloc(sizeof *reply);
    bool ok, there = false;
    struct error why;

    *reply = (struct registry_reply){.body.max = MIB(1)};
    ok = is_there(line, blob->digest, reply, &there, &why);
    for (int tries = 1; ok && !there; tries++) {
        if (upload(batch, line, blob, reply, &why))
            break;
        ok = tries < LINE_TRIES && registry_may_retry(reply->status, &why) &&
             registry_line_rest(line, tries, reply->retry_after_ms, &why);
    }
    if (there)
        batch_progress(batch, blob->size);
    buf_finish(&reply->body);
    if (!ok)
        *err = why;
    if (!ok && err->code == ERR_TIMEOUT)
        err->code = ERR_UNAVAILABLE;
    return ok;
}

static bool put_manifest(struct push *push, struct error *err)
{
    AUTO(registry_line_close) struct registry_line line = {0};
    AUTO_FREE struct registry_reply *reply = alloc(sizeof *reply);
    char path[160];

    *reply = (struct registry_reply){.body.max = MIB(1)};
    (void)snprintf(path, sizeof path, "manifests/%s", push->destination.tag);
    struct registry_ask ask = {
        .path = path,
        .http =
            {
                   .method = "PUT",
                   .body = push->manifest.bytes,
                   .content_type = push->manifest.media_type,
                   },
    };
    bool ok =
        registry_line_open(&line, push->transfer->registries, &push->endpoint,
                           push->destination.repository, "pull,push", push->transfer->abort, err) &&
        registry_line_try(&line, &ask, reply, err);
    if (ok && reply->status != 201 && reply->status != 200)
        ok = registry_line_refused(&line, "the manifest", reply, err);
    buf_finish(&reply->body);
    return ok;
}

static bool put_blobs(struct push *push, const struct image_transfer *transfer,
                      const struct batch_blob *blobs, size_t n, struct error *err)
{
    struct batch batch = {
        .store = push->store,
        .transfer = transfer,
        .endpoint = &push->endpoint,
        .name = push->name,
        .repository = push->destination.repository,
        .actions = "pull,push",
        .blobs = blobs,
        .n_blobs = n,
        .move = put_blob,
    };

    return batch_run(&batch, err);
}

static bool put_content(struct push *push, const struct image *image, struct arena *arena,
                        struct error *err)
{
    struct batch_blob *layers = arena_array(arena, image->n_layers + 1, sizeof *layers);
    struct batch_blob config = {push->manifest.config, push->manifest.config_size};
    struct image_transfer silent = *push->transfer;
    size_t n = batch_layers(image, layers);

    silent.progress = NULL;
    return put_blobs(push, push->transfer, layers, n, err) &&
           put_blobs(push, &silent, &config, 1, err);
}

static bool read_destination(struct push *push, const char *text, struct error *err)
{
    struct registry_endpoint endpoints[LINE_ENDPOINTS];

    if (!reference_parse(str_of(text), &push->destination, err))
        return false;
    if (push->destination.digest[0])
        return error_set(err, ERR_INVALID, "an image is pushed to a tag, not to a digest");
    /* The last one is the registry itself: mirrors only give. */
    size_t n = registry_endpoints(push->transfer->registries, push->destination.host, endpoints);
    push->endpoint = endpoints[n - 1];
    return true;
}

bool image_push(struct image_store *store, const struct image_transfer *transfer,
                const char *reference, const char *destination, char digest[DIGEST_TEXT],
                struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int work = -1;
    struct push push = {.store = store, .transfer = transfer, .name = destination};
    struct image image;
    struct str bytes;

    if (!read_destination(&push, destination, err) || !image_work(store, &work, err) ||
        !image_find(store, reference, &arena, &image, err) ||
        !store_read_blob(store, image.digest, MANIFEST_LIMIT, &arena, &bytes, err) ||
        !registry_manifest_read(bytes, image.digest, &arena, &push.manifest, err))
        return false;
    if (!put_content(&push, &image, &arena, err) || !put_manifest(&push, err))
        return error_wrap(err, "pushing to %s", destination);
    memcpy(digest, image.digest, DIGEST_TEXT);
    return true;
}
