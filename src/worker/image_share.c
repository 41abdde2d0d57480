#include "worker/image_share.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/sha256.h"
#include "base/wait.h"
#include "image/config.h"
#include "worker/worker.h"

#define LAYER_BYTES_MAX (INT64_C(8) * 1024 * 1024 * 1024)

enum {
    CALL_TIMEOUT_MS = 30 * 1000,
    LAYERS_MAX = 128,
    FETCHES_MAX = 4,
    TRIES = 4,
    RETRY_MS = 250,
    WAIT_MS = 200,
};

bool share_open(struct lease *lease, struct arena *arena, struct image_share *share,
                struct error *err)
{
    *share = (struct image_share){.worker = lease->worker, .lease = lease, .arena = arena};
    if (!line_open(&lease->worker->link, &share->line, err))
        return false;
    share->line.abort = &lease->is_unwanted;
    return true;
}

void share_close(struct image_share *share)
{
    if (share->line.client)
        line_close(&share->line);
}

static struct wire_fence fence_of(const struct image_share *share)
{
    return (struct wire_fence){share->worker->link.epoch, share->lease->sequence,
                               str_of(share->lease->id)};
}

static bool ask(struct image_share *share, const struct exchange *exchange, struct arena *arena,
                struct error *err)
{
    return line_insist(&share->line, exchange, lease_look(share->lease).fence_ms, arena, err);
}

/* Whether it is worth another try, after a while. */
static bool may_repeat(struct image_share *share, int try, const struct error *err)
{
    bool passing = err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT ||
                   err->code == ERR_UNAUTHENTICATED || err->code == ERR_CONTENT_HASH;

    if (!passing || try + 1 >= TRIES || share->lease->is_unwanted)
        return false;
    poll(NULL, 0, RETRY_MS << try);
    return true;
}

/* The blobs that are on their way into a store of this process. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct flight {
        struct flight *next;
        const char *digest;
    } *first;
} flights = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static struct flight *find_flight(const char *digest)
{
    struct flight *flight = flights.first;

    while (flight && strcmp(flight->digest, digest) != 0)
        flight = flight->next;
    return flight;
}

/* Waits for whoever fetches it now. *has: it is there, and no flight was begun. */
static bool begin_flight(struct image_share *share, struct flight *flight, bool *has,
                         struct error *err)
{
    pthread_mutex_lock(&flights.lock);
    while (find_flight(flight->digest) && !share->lease->is_unwanted)
        wait_ms(&flights.changed, &flights.lock, WAIT_MS);
    *has = store_has_blob(share->worker->images, flight->digest);
    bool is_ours = !*has && !find_flight(flight->digest);
    if (is_ours) {
        flight->next = flights.first;
        flights.first = flight;
    }
    pthread_mutex_unlock(&flights.lock);
    return *has || is_ours || error_set(err, ERR_CANCELLED, "the lease is not wanted any more");
}

static void end_flight(struct flight *flight)
{
    pthread_mutex_lock(&flights.lock);
    for (struct flight **at = &flights.first; *at; at = &(*at)->next) {
        if (*at != flight)
            continue;
        *at = flight->next;
        break;
    }
    pthread_cond_broadcast(&flights.changed);
    pthread_mutex_unlock(&flights.lock);
}

static bool publish_blob(struct image_store *store, int fd, const char *name, const char *digest,
                         struct error *err)
{
    if (!disk_sync(fd, "a fetched blob", err))
        return false;
    if (renameat(store->temporary_fd, name, store->blobs_fd, digest_hex(digest)) != 0)
        return error_errno(err, "publish the blob %s", digest);
    return disk_sync(store->blobs_fd, store->blobs, err);
}

static bool fetch_once(struct image_share *share, const char *digest, int64_t size,
                       struct error *err)
{
    struct image_store *store = share->worker->images;
    char name[DISK_TEMPORARY];

    disk_temporary(name);
    AUTO_FD int fd = openat(store->temporary_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_errno(err, "create %s/%s", store->temporary, name);
    bool fine = line_fetch(&share->line, digest_hex(digest), size, fd, err) &&
                publish_blob(store, fd, name, digest, err);
    if (!fine)
        (void)unlinkat(store->temporary_fd, name, 0);
    return fine;
}

bool share_fetch_blob(struct image_share *share, const char *digest, int64_t size,
                      struct error *err)
{
    struct flight flight = {.digest = digest};
    bool has, fine;

    if (!digest_is_valid(str_of(digest)) || size > LAYER_BYTES_MAX)
        return error_set(err, ERR_INVALID, "%.80s of %lld bytes cannot be fetched", digest,
                         (long long)size);
    if (!begin_flight(share, &flight, &has, err))
        return false;
    if (has)
        return true;
    for (int try = 0;; try++) {
        fine = fetch_once(share, digest, size, err);
        if (fine || !may_repeat(share, try, err))
            break;
    }
    end_flight(&flight);
    return fine;
}

/* Blobs of an image, fetched by a few threads with a line each. */
struct fetch {
    const struct image_share *share;
    const struct manifest_blobs *blobs;
    atomic_size_t next;
    pthread_mutex_t lock;
    struct error err; /* the first, under the lock */
    bool has_failed;
};

static void note_failure(struct fetch *fetch, const struct error *err)
{
    pthread_mutex_lock(&fetch->lock);
    if (!fetch->has_failed)
        fetch->err = *err;
    fetch->has_failed = true;
    pthread_mutex_unlock(&fetch->lock);
}

static bool is_failing(struct fetch *fetch)
{
    pthread_mutex_lock(&fetch->lock);
    bool failing = fetch->has_failed;
    pthread_mutex_unlock(&fetch->lock);
    return failing;
}

static void *fetch_some(void *arg)
{
    struct fetch *fetch = arg;
    AUTO(share_close) struct image_share share = {0};
    struct error err;
    size_t at;

    if (!share_open(fetch->share->lease, NULL, &share, &err)) {
        note_failure(fetch, &err);
        return NULL;
    }
    while (!is_failing(fetch) && (at = atomic_fetch_add(&fetch->next, 1)) < fetch->blobs->n) {
        const struct manifest_blob *blob = &fetch->blobs->items[at];

        if (!share_fetch_blob(&share, blob->digest, blob->size, &err))
            note_failure(fetch, &err);
    }
    return NULL;
}

static bool fetch_blobs(struct image_share *share, const struct manifest_blobs *blobs,
                        struct error *err)
{
    struct fetch fetch = {share, blobs, BLOB_CONFIG, PTHREAD_MUTEX_INITIALIZER, {0}, false};
    pthread_t threads[FETCHES_MAX];
    size_t missing = 0, n = 0;

    for (size_t i = BLOB_CONFIG; i < blobs->n; i++)
        missing += !store_has_blob(share->worker->images, blobs->items[i].digest);
    while (n < missing && n < FETCHES_MAX &&
           pthread_create(&threads[n], NULL, fetch_some, &fetch) == 0)
        n++;
    if (missing > 0 && n == 0)
        return error_set(err, ERR_UNAVAILABLE, "no thread could be made");
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&fetch.lock);
    if (fetch.has_failed)
        *err = fetch.err;
    return !fetch.has_failed;
}

bool share_get_image(struct image_share *share, const char *digest, const char *reference,
                     struct error *err)
{
    struct image_store *store = share->worker->images;
    struct manifest_blobs blobs;
    AUTO_FD int work = -1;

    if (!image_work(store, &work, err) || !share_fetch_blob(share, digest, -1, err) ||
        !manifest_load(store, digest, share->arena, &blobs, err))
        return false;
    if (blobs.n > BLOB_LAYERS + LAYERS_MAX)
        return error_set(err, ERR_TOO_LARGE, "the image has over %d layers", LAYERS_MAX);
    return fetch_blobs(share, &blobs, err) && image_tag(store, reference, digest, err);
}

static bool put_blob(struct image_share *share, const char *digest, int64_t *size,
                     struct error *err)
{
    AUTO_FD int fd = -1;
    struct stat facts;
    bool has = false;

    if (!store_open_blob(share->worker->images, digest, &fd, err))
        return false;
    if (fstat(fd, &facts) != 0)
        return error_errno(err, "look at the blob %s", digest);
    *size = facts.st_size;
    for (int try = 0;; try++) {
        if (line_has(&share->line, digest_hex(digest), &has, err) &&
            (has || line_store(&share->line, digest_hex(digest), *size, fd, err)))
            return true;
        if (!may_repeat(share, try, err))
            return false;
    }
}

static bool put_object(struct image_share *share, const char *digest, struct json_list *objects,
                       struct error *err)
{
    struct wire_object *object = (struct wire_object *)objects->items + objects->n;

    if (!put_blob(share, digest, &object->size, err))
        return false;
    object->digest = str_of(arena_text(share->arena, str_of(digest_hex(digest))));
    objects->n++;
    return true;
}

bool share_put_image(struct image_share *share, const struct image *image,
                     struct json_list *objects, struct error *err)
{
    *objects = (struct json_list){arena_array(share->arena, image->n_layers + BLOB_LAYERS,
                                              sizeof(struct wire_object)),
                                  0};
    for (size_t i = 0; i < image->n_layers; i++)
        if (!put_object(share, image->layers[i].digest, objects, err))
            return false;
    /* The manifest last: where it is, everything is. */
    return put_object(share, image->config_digest, objects, err) &&
           put_object(share, image->digest, objects, err);
}

static bool read_layer(const struct wire_layer *from, struct image_layer *layer, struct error *err)
{
    if (!digest_is_valid(from->digest) || !digest_is_valid(from->diff_id))
        return error_set(err, ERR_INTERNAL, "the server named a layer without a digest");
    *layer = (struct image_layer){.size = from->size, .coding = LAYER_ZSTD};
    memcpy(layer->digest, from->digest.ptr, DIGEST_TEXT - 1);
    memcpy(layer->diff_id, from->diff_id.ptr, DIGEST_TEXT - 1);
    return true;
}

bool share_find_step(struct image_share *share, const char *key, enum share_step *found,
                     struct image_layer *layer, bool *has_layer, struct error *err)
{
    const struct wire_step_wanted wanted = {fence_of(share), str_of(key)};
    struct wire_step_found answer = {0};
    const struct exchange exchange = {
        .route = "images/lookup",
        .request_fields = wire_step_wanted_fields,
        .request = &wanted,
        ANSWER(wire_step_found_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    if (!ask(share, &exchange, share->arena, err))
        return false;
    *has_layer = answer.has_layer;
    if (str_equal(answer.state, STR("hit")))
        *found = SHARE_HIT;
    else
        *found = str_equal(answer.state, STR("yours")) ? SHARE_YOURS : SHARE_BUSY;
    return *found != SHARE_HIT || !answer.has_layer || read_layer(&answer.layer, layer, err);
}

bool share_record_step(struct image_share *share, const char *key, const struct image_layer *layer,
                       struct error *err)
{
    struct wire_step_done done = {.fence = fence_of(share), .step_digest = str_of(key)};
    const struct exchange exchange = {
        .route = "images/record",
        .request_fields = wire_step_done_fields,
        .request = &done,
        .timeout_ms = CALL_TIMEOUT_MS,
    };

    if (layer) {
        done.has_layer = true;
        done.layer = (struct wire_layer){str_of(layer->digest), str_of(layer->diff_id), 0};
    }
    for (int try = 0;; try++) {
        if (layer && !put_blob(share, layer->digest, &done.layer.size, err))
            return false;
        if (ask(share, &exchange, share->arena, err))
            return true;
        if (err->code != ERR_OBJECT_GONE || try + 1 >= TRIES)
            return false;
    }
}

/* What a repository's name may hold; anything else becomes a dash, and a part of the hash keeps two
 * names apart that became equal. */
static const char *repository_name(struct arena *arena, struct str name)
{
    char *text = arena_alloc(arena, name.len + 1), hash[SHA256_HEX];
    bool is_same = name.len > 0;

    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)tolower((unsigned char)name.ptr[i]);
        /* A separator stands between two letters only. */
        bool is_edge = i == 0 || i + 1 == name.len || (i > 0 && text[i - 1] == '-');

        if (!islower(c) && !isdigit(c))
            c = is_edge ? '0' : '-';
        text[i] = (char)c;
        is_same = is_same && text[i] == name.ptr[i];
    }
    text[name.len] = '\0';
    if (is_same)
        return text;
    sha256_of(name, hash);
    return arena_printf(arena, "%s-%.8s", name.len ? text : "0", hash);
}

const char *share_reference(struct arena *arena, struct str project, struct str image_id,
                            struct str version)
{
    return arena_printf(arena, "helmr.local/%s/%s:%.*s", repository_name(arena, project),
                        repository_name(arena, image_id), (int)version.len, version.ptr);
}

bool share_secret(struct image_share *share, const char *name, struct secret *value,
                  struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str names[] = {str_of(name)};
    const struct wire_secrets_wanted wanted = {
        fence_of(share), {names, 1}
    };
    struct wire_secrets answer = {0};
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%s/secrets", share->lease->id),
        .request_fields = wire_secrets_wanted_fields,
        .request = &wanted,
        ANSWER(wire_secrets_fields, answer),
        .timeout_ms = CALL_TIMEOUT_MS,
        .is_secret = true,
    };

    if (!ask(share, &exchange, &arena, err)) {
        if (err->code == ERR_SECRET_MISSING)
            error_set(err, ERR_NOT_FOUND, "the secret %s is not stored in this environment", name);
        return false;
    }
    const struct wire_secret *secrets = answer.secrets.items;
    if (answer.secrets.n != 1 || !str_equal(secrets[0].name, names[0]))
        return error_set(err, ERR_INTERNAL, "the server gave another secret than %s", name);
    *value = secret_create(secrets[0].value);
    bytes_wipe((void *)(uintptr_t)secrets[0].value.ptr, secrets[0].value.len);
    return true;
}
