/* The worker's line to the server: who it is, and calls that carry that.
 *
 * One struct link is shared by all threads; each thread talks through a line of its own,
 * which holds one kept-alive connection. An answer that is an error comes back as that
 * error, with the code the server gave it.
 */
#pragma once

#include <pthread.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/secret.h"
#include "blob/key_ring.h"
#include "blob/seal_writer.h"
#include "http/websocket_client.h"

struct link {
    const char *url; /* http(s)://… or unix:/path */
    pthread_mutex_t lock;
    char worker_id[40];
    int64_t epoch;
    struct secret credential, bearer;       /* under the lock */
    struct secret store_keys[KEY_RING_MAX]; /* the current one first; unset from the end on */
    uint64_t bearer_version;                /* raised with every new bearer */
    int64_t bearer_renew_ms;                /* boot time at which to ask for the next one */
};

struct line {
    struct link *link;
    struct http_client *client;
    uint64_t bearer_version;
    const volatile bool *abort; /* ends a call under way when set; or NULL */
};

void link_init(struct link *link, const char *url);
void link_finish(struct link *link);
void link_set_bearer(struct link *link, struct str bearer, int64_t valid_ms);

/* The keys of the store, as a session or a bearer brings them: struct wire_store_key. */
bool link_set_store_keys(struct link *link, const struct json_list *keys,
                         struct error *err) MUST_USE;

/* ERR_KEY_MISSING when the server gave none. */
bool link_store_keys(struct link *link, struct key_ring *ring, struct error *err) MUST_USE;

bool line_open(struct link *link, struct line *line, struct error *err) MUST_USE;
void line_close(struct line *line);

/* One message each way, named by their tables. */
struct exchange {
    const char *route; /* "leases/<id>/renew" */
    const struct json_field *request_fields;
    const void *request;
    const struct json_field *answer_fields;
    void *answer;
    size_t answer_size;
    const struct str *tail; /* bytes that follow the message after a newline; NULL: none */
    size_t n_tail;
    int64_t timeout_ms;
    bool without_bearer; /* register, session and bearer carry their own proof */
    bool is_secret;      /* the answer's bytes are wiped once they are decoded */
};

#define ANSWER(fields, variable) \
    .answer_fields = (fields), .answer = &(variable), .answer_size = sizeof(variable)

bool line_call(struct line *line, const struct exchange *exchange, struct arena *arena,
               struct error *err) MUST_USE;

/* line_call, tried again while the server cannot be reached or is overloaded, until the boot time
 * `until_ms`. Every call made this way is safe to repeat. */
bool line_insist(struct line *line, const struct exchange *exchange, int64_t until_ms,
                 struct arena *arena, struct error *err) MUST_USE;

/* A WebSocket to the server, with the newest bearer; the line may be closed afterwards. */
bool line_dial(struct line *line, const struct websocket_dial *dial,
               const struct websocket_events *events, void *arg, struct websocket_client **client,
               struct error *err) MUST_USE;

/* Objects by digest: a file down or up. The digest of what came is checked; a size of -1 is not
 * known, and at most 72 MiB. */
bool line_fetch(struct line *line, const char *digest, int64_t size, int fd,
                struct error *err) MUST_USE;
bool line_store(struct line *line, const char *digest, int64_t size, int fd,
                struct error *err) MUST_USE;

/* An object that was sealed here: a pack or a manifest. */
bool line_store_sealed(struct line *line, const struct seal_facts *facts, int fd,
                       struct error *err) MUST_USE;

/* line_store_sealed, tried again as line_insist does. */
bool line_store_insist(struct line *line, const struct seal_facts *facts, int fd, int64_t until_ms,
                       struct error *err) MUST_USE;

/* Whether the server has the object. */
bool line_has(struct line *line, const char *digest, bool *has, struct error *err) MUST_USE;
