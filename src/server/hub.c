#include "server/hub.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "server/context.h"

enum { RETRY_MS = 1000 };

void wakes_add(struct wakes *wakes, const char *kind, const char *id)
{
    char topic[TOPIC_TEXT];
    snprintf(topic, sizeof topic, "%s%s", kind, id);
    for (size_t i = 0; i < wakes->n; i++)
        if (strcmp(wakes->topics[i], topic) == 0)
            return;
    if (wakes->n == WAKES_MAX)
        wakes->is_everyone = true;
    else
        memcpy(wakes->topics[wakes->n++], topic, sizeof topic);
}

static bool notify(const struct hub *hub, struct tx *tx, const char *topic, struct error *err)
{
    char text[TOPIC_TEXT + ID_TEXT];

    snprintf(text, sizeof text, "%s %s", topic, hub->id);
    return store_notify(tx, str_of(text), err);
}

static bool notify_others(const struct hub *hub, struct tx *tx, const struct wakes *wakes,
                          struct error *err)
{
    for (size_t i = 0; i < wakes->n; i++)
        if (!notify(hub, tx, wakes->topics[i], err))
            return false;
    return !wakes->is_everyone || notify(hub, tx, TOPIC_ALL, err);
}

bool hub_commit(struct hub *hub, struct tx **tx, const struct wakes *wakes, struct error *err)
{
    if (store_is_postgres(hub->server->store) && !notify_others(hub, *tx, wakes, err))
        return false;
    if (!store_commit(tx, err))
        return false;
    for (size_t i = 0; i < wakes->n; i++)
        hub_wake(hub, wakes->topics[i]);
    if (wakes->is_everyone)
        hub_wake(hub, TOPIC_ALL);
    return true;
}

static void wake_everyone(void *arg)
{
    struct hub *hub = arg;
    caller_cache_clear(&hub->server->callers);
    http_server_wake_all(hub->server->http);
    if (hub->server->preview_http)
        http_server_wake_all(hub->server->preview_http);
}

static void wake_listeners(struct server *server, const char *topic)
{
    http_server_wake(server->http, topic);
    if (server->preview_http)
        http_server_wake(server->preview_http, topic);
}

void hub_wake(struct hub *hub, const char *topic)
{
    if (strcmp(topic, TOPIC_AUTH) == 0)
        caller_cache_clear(&hub->server->callers);
    else if (hub->server->http && strcmp(topic, TOPIC_ALL) == 0)
        loop_post(hub->server->loop, wake_everyone, hub);
    else if (hub->server->http)
        wake_listeners(hub->server, topic);
}

/* What this server told the others it has told itself already. */
static void heard(void *arg, struct str notification)
{
    struct hub *hub = arg;
    const char *end = memchr(notification.ptr, ' ', notification.len);
    size_t len = end ? (size_t)(end - notification.ptr) : notification.len;
    char topic[TOPIC_TEXT];

    if (len >= sizeof topic ||
        (end && str_equal(str_of(hub->id), (struct str){end + 1, notification.len - len - 1})))
        return;
    memcpy(topic, notification.ptr, len);
    topic[len] = '\0';
    hub_wake(hub, topic);
}

static void listen_again(void *arg);

static void readable(void *arg, unsigned events UNUSED)
{
    struct hub *hub = arg;
    struct error err;
    if (store_notifications(hub->server->store, heard, hub, &err))
        return;

    log_warn("notifications lost", LOG_ERR(&err));
    loop_remove(hub->source);
    hub->source = NULL;
    hub->retry = loop_after(hub->server->loop, RETRY_MS, listen_again, hub);
}

static bool attach(struct hub *hub, struct error *err)
{
    if (!store_listen(hub->server->store, &hub->fd, err))
        return false;
    return hub->fd < 0 ||
           loop_add(hub->server->loop, hub->fd, LOOP_READ, readable, hub, &hub->source, err);
}

static void attach_on_loop(void *arg)
{
    struct hub *hub = arg;
    struct error err;
    if (!loop_add(hub->server->loop, hub->fd, LOOP_READ, readable, hub, &hub->source, &err))
        log_error("notifications cannot be watched", LOG_ERR(&err));
    else
        log_info("notifications are back");
    /* What was committed meanwhile was told to nobody here. */
    wake_everyone(hub);
}

static void retry_on_loop(void *arg)
{
    struct hub *hub = arg;
    hub->retry = loop_after(hub->server->loop, RETRY_MS, listen_again, hub);
}

/* Connecting may block, so it is done on the pool. */
static void listen_job(void *arg)
{
    struct hub *hub = arg;
    struct error err;
    bool ok = store_listen(hub->server->store, &hub->fd, &err);
    loop_post(hub->server->loop, ok ? attach_on_loop : retry_on_loop, hub);
}

static void listen_again(void *arg)
{
    struct hub *hub = arg;
    hub->retry = NULL;
    pool_give(hub->server->pool, listen_job, hub);
}

bool hub_start(struct hub *hub, struct server *server, struct error *err)
{
    *hub = (struct hub){.server = server, .fd = -1};
    id_make(hub->id);
    return attach(hub, err);
}

void hub_stop(struct hub *hub)
{
    loop_remove(hub->source);
    loop_cancel(hub->retry);
    hub->source = NULL;
    hub->retry = NULL;
}
