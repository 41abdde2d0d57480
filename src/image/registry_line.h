/* A line to one registry or mirror, for one repository: requests with authorization, redirects
 * and retries. One per thread; what lines share lies in struct registries, under its lock.
 */
#pragma once

#include <pthread.h>

#include "base/map.h"
#include "http/client.h"
#include "image/challenge.h"
#include "image/reference.h"
#include "image/registry.h"
#include "image/registry_url.h"

enum { LINE_CLIENTS = 4, LINE_REDIRECTS = 5, LINE_TRIES = 3, LINE_ENDPOINTS = 16 };

/* Some registries turn nameless clients away. */
#define REGISTRY_USER_AGENT "User-Agent: helmr/" HELMR_VERSION

/* How patient we are; only tests change it. */
struct registry_pace {
    int64_t stall_ms;       /* silence that ends a try */
    int64_t backoff_ms;     /* before the second try; four times as long before the third */
    int64_t retry_after_ms; /* what a registry may ask for at most */
};

struct registry_mirror {
    char *host; /* whose images it has */
    struct registry_url url;
};

/* What to send along with requests of one scope. */
struct registry_grant {
    char *key;
    struct secret header; /* the whole line */
    int64_t expires_ms;   /* boot time */
};

struct registries {
    char *auth_file, *ca_file; /* or NULL */
    struct registry_mirror *mirrors;
    size_t n_mirrors;
    struct registry_pace pace;
    pthread_mutex_t lock;
    struct registry_grant *grants;
    size_t n_grants;
    struct map clear; /* host:port of loopback registries that do not speak TLS */
};

/* Where the API of a registry or mirror is. */
struct registry_endpoint {
    char name[264];    /* by which credentials are found, and people know it */
    char address[300]; /* host[:port] of the API */
    char prefix[256];  /* of its paths, or empty */
    bool is_loopback, is_mirror;
};

/* Mirrors in order, then the registry. At most LINE_ENDPOINTS. */
size_t registry_endpoints(const struct registries *registries, const char *host,
                          struct registry_endpoint endpoints[LINE_ENDPOINTS]);

struct registry_line {
    struct registries *registries;
    const struct registry_endpoint *endpoint;
    const char *repository; /* borrowed */
    const char *actions;    /* "pull" or "pull,push" */
    const volatile bool *abort;
    struct registry_url root; /* of the API, without /v2 */
    struct line_client {
        char origin[URL_ORIGIN];
        struct http_client *client;
    } clients[LINE_CLIENTS];
    size_t next_client;
};

/* Finds out how a loopback registry is spoken to; other registries are not asked anything yet. */
bool registry_line_open(struct registry_line *line, struct registries *registries,
                        const struct registry_endpoint *endpoint, const char *repository,
                        const char *actions, const volatile bool *abort,
                        struct error *err) MUST_USE;
void registry_line_close(struct registry_line *line);

/* A client for the origin, kept while few others are needed. */
struct http_client *registry_line_client(struct registry_line *line, const char *origin,
                                         struct error *err) MUST_USE;

struct registry_reply {
    int status;
    struct buf body; /* the caller sets .max */
    struct challenge challenge;
    char location[URL_PATH], content_type[256];
    bool is_partial; /* Content-Range was given */
    int64_t range_start;
    int64_t retry_after_ms; /* -1: not said */
};

/* A request: below /v2/<repository>/ by `path`, or to an address by `url`. */
struct registry_ask {
    const char *path;
    const struct registry_url *url;
    const char *header; /* one more line, or NULL */
    struct http_request http;
};

/* One try: with what authorization is needed, following redirects of GET and HEAD. True when an
 * answer came, whatever its status. */
bool registry_line_send(struct registry_line *line, const struct registry_ask *ask,
                        struct registry_reply *reply, struct error *err) MUST_USE;

/* registry_line_send again while the answer is one that may be better later. */
bool registry_line_try(struct registry_line *line, const struct registry_ask *ask,
                       struct registry_reply *reply, struct error *err) MUST_USE;

/* Whether a failed try (status 0: no answer) is worth another one. */
bool registry_may_retry(int status, const struct error *err);

/* Waits before the next try, the number of those done given. ERR_CANCELLED when aborted. */
bool registry_line_rest(struct registry_line *line, int tries, int64_t retry_after_ms,
                        struct error *err) MUST_USE;

/* The error an unwanted status means; `what` was asked for. Returns false. */
bool registry_line_refused(const struct registry_line *line, const char *what,
                           const struct registry_reply *reply, struct error *err);

/* registry_auth.c: the header line for requests of this line, unset when none is known yet. */
struct secret registry_grant_find(struct registry_line *line);

/* Answers a challenge: the grant is remembered. ERR_UNAUTHENTICATED when it cannot be answered. */
bool registry_grant_renew(struct registry_line *line, const struct challenge *challenge,
                          struct error *err) MUST_USE;
void registry_grants_finish(struct registries *registries);
