#include "worker/link.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/time.h"
#include "protocol/worker_api.h"

enum {
    REQUEST_MAX = 34 * 1024 * 1024, /* a payload grant or an output, and its wrapping */
    REFUSAL_MAX = 64 * 1024,
    RETRY_FIRST_MS = 100,
    RETRY_MAX_MS = 1000,
    OBJECT_STALL_MS = 60 * 1000,
    OBJECT_UNSIZED_MAX = 72 * 1024 * 1024, /* of one whose size is not known: a full pack */
};

static const char *const headers[] = {WORKER_PROTOCOL_HEADER, NULL};

void link_init(struct link *link, const char *url)
{
    *link = (struct link){.url = url};
    pthread_mutex_init(&link->lock, NULL);
}

void link_finish(struct link *link)
{
    secret_finish(&link->credential);
    secret_finish(&link->bearer);
    for (size_t i = 0; i < KEY_RING_MAX; i++)
        secret_finish(&link->store_keys[i]);
    pthread_mutex_destroy(&link->lock);
}

void link_set_bearer(struct link *link, struct str bearer, int64_t valid_ms)
{
    pthread_mutex_lock(&link->lock);
    secret_finish(&link->bearer);
    link->bearer = secret_create(bearer);
    link->bearer_version++;
    link->bearer_renew_ms = time_boot_ms() + valid_ms * 2 / 3;
    pthread_mutex_unlock(&link->lock);
}

bool link_set_store_keys(struct link *link, const struct json_list *keys, struct error *err)
{
    const struct wire_store_key *given = keys->items;
    bool fine = keys->n <= KEY_RING_MAX;

    pthread_mutex_lock(&link->lock);
    for (size_t i = 0; i < KEY_RING_MAX; i++)
        secret_finish(&link->store_keys[i]);
    for (size_t i = 0; i < keys->n && fine; i++) {
        uint8_t bytes[SEAL_KEY_LEN];
        size_t len = sizeof bytes;

        fine = base64_decode(given[i].key, bytes, &len) && len == sizeof bytes;
        if (fine)
            link->store_keys[i] = secret_create((struct str){(const char *)bytes, len});
        bytes_wipe(bytes, sizeof bytes);
    }
    pthread_mutex_unlock(&link->lock);
    return fine || error_set(err, ERR_INVALID, "the server's keys of the store are malformed");
}

bool link_store_keys(struct link *link, struct key_ring *ring, struct error *err)
{
    bool fine = true;

    key_ring_init(ring, SEAL_STORE);
    pthread_mutex_lock(&link->lock);
    for (size_t i = 0; i < KEY_RING_MAX && fine && secret_is_set(&link->store_keys[i]); i++)
        fine = key_ring_add(ring, secret_reveal(&link->store_keys[i]), err);
    pthread_mutex_unlock(&link->lock);
    if (fine && ring->keys.n == 0)
        return error_set(err, ERR_KEY_MISSING, "the server gave no key of the store");
    return fine;
}

bool line_open(struct link *link, struct line *line, struct error *err)
{
    *line = (struct line){.link = link};
    return http_client_create(link->url, &line->client, err);
}

void line_close(struct line *line)
{
    http_client_destroy(line->client);
    line->client = NULL;
}

static void use_newest_bearer(struct line *line, bool without)
{
    struct link *link = line->link;

    if (without) {
        http_client_set_bearer(line->client, NULL);
        line->bearer_version = 0;
        return;
    }
    pthread_mutex_lock(&link->lock);
    if (line->bearer_version != link->bearer_version) {
        http_client_set_bearer(line->client, &link->bearer);
        line->bearer_version = link->bearer_version;
    }
    pthread_mutex_unlock(&link->lock);
}

/* The codes a worker acts on; any other keeps only its meaning as a status. */
static const struct {
    const char *wire;
    enum error_code code;
} known_codes[] = {
    {"lease_stale",             ERR_LEASE_STALE     },
    {"epoch_superseded",        ERR_EPOCH_SUPERSEDED},
    {"worker_identity_in_use",  ERR_WORKER_IN_USE   },
    {"object_gone",             ERR_OBJECT_GONE     },
    {"authentication_required", ERR_UNAUTHENTICATED },
    {"not_found",               ERR_NOT_FOUND       },
    {"secret_missing",          ERR_SECRET_MISSING  },
    {"object_damaged",          ERR_DAMAGED         },
    {"key_missing",             ERR_KEY_MISSING     },
};

static bool refused(const struct http_answer *answer, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct str body = buf_str(&answer->body), code = STR("internal_error"), text = body;

    json_find_text(body, "code", &arena, &code);
    json_find_text(body, "error", &arena, &text);
    error_set(err, answer->status >= 500 ? ERR_UNAVAILABLE : ERR_INVALID, "%.*s (%.*s)",
              (int)(text.len > 300 ? 300 : text.len), text.ptr, (int)code.len, code.ptr);
    for (size_t i = 0; i < COUNT_OF(known_codes); i++)
        if (str_equal(code, str_of(known_codes[i].wire)))
            err->code = known_codes[i].code;
    return false;
}

bool line_call(struct line *line, const struct exchange *exchange, struct arena *arena,
               struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = REQUEST_MAX};
    struct http_answer answer = {.body = {.max = REQUEST_MAX}};
    struct json_writer writer = json_begin(&body);

    wire_write(&writer, NULL, exchange->request_fields, exchange->request);
    if (!json_end(&writer, err) || (exchange->tail && !buf_append(&body, STR("\n"), err)))
        return false;
    for (size_t i = 0; exchange->tail && i < exchange->n_tail; i++)
        if (!buf_append(&body, exchange->tail[i], err))
            return false;
    use_newest_bearer(line, exchange->without_bearer);

    const char *path = arena_printf(arena, "/api/worker/%s", exchange->route);
    const struct http_request request = {
        .method = "POST",
        .path = path,
        .body = buf_str(&body),
        .headers = headers,
        .timeout_ms = exchange->timeout_ms,
        .is_secret = exchange->is_secret,
        .abort = line->abort,
    };
    bool fine = http_client_send(line->client, &request, &answer, err);
    if (fine && answer.status / 100 != 2)
        fine = refused(&answer, err);
    else if (fine && exchange->answer)
        fine = json_read_loose(buf_str(&answer.body), exchange->answer_fields, exchange->answer,
                               exchange->answer_size, arena, err);
    if (exchange->is_secret && answer.body.len > 0)
        bytes_wipe(answer.body.bytes, answer.body.len);
    buf_finish(&answer.body);
    return fine || error_wrap(err, "%s", exchange->route);
}

bool line_dial(struct line *line, const struct websocket_dial *dial,
               const struct websocket_events *events, void *arg, struct websocket_client **client,
               struct error *err)
{
    struct http_answer refusal = {.body = {.max = REFUSAL_MAX}};
    struct websocket_dial with_headers = *dial;

    with_headers.headers = headers;
    use_newest_bearer(line, false);
    bool fine =
        websocket_client_open(line->client, &with_headers, events, arg, client, &refusal, err);
    if (!fine && refusal.status > 0)
        refused(&refusal, err);
    buf_finish(&refusal.body);
    return fine;
}

/* Whether it is worth another try; after a while, which becomes longer. */
static bool may_repeat(const struct line *line, int64_t until_ms, int64_t *wait_ms,
                       const struct error *err)
{
    bool passing = err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT ||
                   err->code == ERR_UNAUTHENTICATED;

    if (!passing || (line->abort && *line->abort) || time_boot_ms() + *wait_ms > until_ms)
        return false;
    poll(NULL, 0, (int)*wait_ms);
    *wait_ms = *wait_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : *wait_ms * 2;
    return true;
}

bool line_insist(struct line *line, const struct exchange *exchange, int64_t until_ms,
                 struct arena *arena, struct error *err)
{
    int64_t wait = RETRY_FIRST_MS;

    while (!line_call(line, exchange, arena, err))
        if (!may_repeat(line, until_ms, &wait, err))
            return false;
    return true;
}

struct download {
    int fd;
    int64_t got, size;
    struct sha256 hash;
    struct error *err;
    bool failed;
};

static bool take_bytes(void *arg, struct str bytes)
{
    struct download *down = arg;

    down->got += (int64_t)bytes.len;
    if (down->got > (down->size < 0 ? OBJECT_UNSIZED_MAX : down->size))
        return false;
    sha256_update(&down->hash, bytes);
    down->failed = !fd_write_all(down->fd, bytes, down->err);
    return !down->failed;
}

static bool check_digest(struct sha256 *hash, const char *digest, struct error *err)
{
    char text[SHA256_HEX];

    sha256_take(hash, text);
    if (strcmp(text, digest) != 0)
        return error_set(err, ERR_CONTENT_HASH, "object %.12s came damaged", digest);
    return true;
}

bool line_fetch(struct line *line, const char *digest, int64_t size, int fd, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct download down = {.fd = fd, .size = size, .err = err};
    struct http_answer answer = {.body = {.max = KIB(64)}};

    sha256_init(&down.hash);
    use_newest_bearer(line, false);

    const struct http_request request = {
        .method = "GET",
        .path = arena_printf(&arena, "/api/worker/objects/%s", digest),
        .headers = headers,
        .stall_ms = OBJECT_STALL_MS,
        .sink = take_bytes,
        .sink_arg = &down,
        .abort = line->abort,
    };
    bool fine = http_client_send(line->client, &request, &answer, err) && !down.failed;
    if (fine && answer.status != 200)
        fine = refused(&answer, err);
    else if (fine && size >= 0 && down.got != size)
        fine = error_set(err, ERR_UNAVAILABLE, "object %.12s ended after %lld bytes", digest,
                         (long long)down.got);
    fine = fine && check_digest(&down.hash, digest, err);
    sha256_finish(&down.hash);
    buf_finish(&answer.body);
    return fine || error_wrap(err, "fetching object %.12s", digest);
}

/* Of a sealed object the class is said; class NULL: the bytes are plain. */
static bool store_object(struct line *line, const char *digest, int64_t size, int fd,
                         const char *class, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const char *lines[] = {WORKER_PROTOCOL_HEADER, NULL, NULL};
    struct http_answer answer = {.body = {.max = KIB(64)}};

    if (class)
        lines[1] = arena_printf(&arena, WORKER_OBJECT_CLASS ": %s", class);
    use_newest_bearer(line, false);
    const struct http_request request = {
        .method = "PUT",
        .path = arena_printf(&arena, "/api/worker/objects/%s", digest),
        .content_type = "application/octet-stream",
        .body_fd = fd,
        .body_fd_len = (uint64_t)size,
        .headers = lines,
        .stall_ms = OBJECT_STALL_MS,
        .abort = line->abort,
    };
    bool fine = http_client_send(line->client, &request, &answer, err);
    if (fine && answer.status / 100 != 2)
        fine = refused(&answer, err);
    buf_finish(&answer.body);
    return fine || error_wrap(err, "storing object %.12s", digest);
}

bool line_store(struct line *line, const char *digest, int64_t size, int fd, struct error *err)
{
    return store_object(line, digest, size, fd, NULL, err);
}

bool line_store_sealed(struct line *line, const struct seal_facts *facts, int fd, struct error *err)
{
    const char *class = facts->class == SEAL_MANIFEST ? "manifest" : "pack";

    return store_object(line, facts->digest, (int64_t)facts->size, fd, class, err);
}

bool line_store_insist(struct line *line, const struct seal_facts *facts, int fd, int64_t until_ms,
                       struct error *err)
{
    int64_t wait = RETRY_FIRST_MS;

    while (!line_store_sealed(line, facts, fd, err))
        if (!may_repeat(line, until_ms, &wait, err))
            return false;
    return true;
}

bool line_has(struct line *line, const char *digest, bool *has, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct http_answer answer = {.body = {.max = KIB(64)}};

    use_newest_bearer(line, false);
    const struct http_request request = {
        .method = "HEAD",
        .path = arena_printf(&arena, "/api/worker/objects/%s", digest),
        .headers = headers,
        .timeout_ms = OBJECT_STALL_MS,
        .abort = line->abort,
    };
    bool fine = http_client_send(line->client, &request, &answer, err);
    *has = fine && answer.status == 200;
    /* An answer to HEAD has no body that could tell more. */
    if (fine && answer.status == 401)
        fine = error_set(err, ERR_UNAUTHENTICATED, "the bearer is not taken");
    else if (fine && answer.status != 200 && answer.status != 404)
        fine = error_set(err, ERR_UNAVAILABLE, "the server answered %d", answer.status);
    buf_finish(&answer.body);
    return fine || error_wrap(err, "asking for object %.12s", digest);
}
