/* For tests: whoever asks for what only a worker knows, and waits while the test plays the worker.
 */
#pragma once

#include <pthread.h>

#include "base/own.h"
#include "base/time.h"
#include "server/mount_testing.h"

enum { HEAR_MS = 60 * 1000 };

/* Somebody who asks, on a thread of their own. */
struct asker {
    const char *url, *key, *method, *path;
    struct str body;
    struct http_answer answer;
    pthread_t thread;
};

static inline void *asker_main(void *arg)
{
    struct asker *asker = arg;
    AUTO(secret_finish) struct secret key = secret_create(str_of(asker->key));
    const struct http_request request = {.method = asker->method,
                                         .path = asker->path,
                                         .body = asker->body};
    struct http_client *client;
    struct error err;

    asker->answer = (struct http_answer){.status = -1, .body.max = MIB(8)};
    if (!http_client_create(asker->url, &client, &err))
        return NULL;
    http_client_set_bearer(client, &key);
    if (!http_client_send(client, &request, &asker->answer, &err))
        asker->answer.status = -1;
    http_client_destroy(client);
    return NULL;
}

static inline void asker_start(struct asker *asker)
{
    if (pthread_create(&asker->thread, NULL, asker_main, asker) != 0)
        abort();
}

/* Below the workspace. */
static inline void asker_begin(struct asker *asker, struct yard *yard, const char *method,
                               const char *rest, struct str body)
{
    *asker = (struct asker){yard->service->url, yard->key, method, yard_path(yard, rest), body};
    asker_start(asker);
}

static inline int asker_end(struct asker *asker)
{
    pthread_join(asker->thread, NULL);
    return asker->answer.status;
}

static inline void asker_finish(struct asker *asker)
{
    buf_finish(&asker->answer.body);
}

/* Waits for messages of the type; the last poll's answer is in the service. */
static inline bool hear(struct yard *yard, const char *type, size_t n)
{
    int64_t until = time_boot_ms() + HEAR_MS;

    while (time_boot_ms() < until)
        if (yard_hear(yard) >= n &&
            strcmp(service_text(yard->service, "messages.0.type"), type) == 0)
            return true;
    return false;
}
