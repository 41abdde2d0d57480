/* Who is told after a commit: topics such as run:<id>, deployment:<id>, env:<id>.
 *
 * A change collects its topics and is committed through here, so that nobody is woken
 * before the change can be read, and nobody is forgotten. On PostgreSQL the other servers
 * are told by the database itself.
 */
#pragma once

#include "base/id.h"
#include "base/loop.h"
#include "store/store.h"

enum { WAKES_MAX = 256, TOPIC_TEXT = 64 };

/* Topics of one transaction. Zeroed: none. */
struct wakes {
    char topics[WAKES_MAX][TOPIC_TEXT];
    size_t n;
    bool is_everyone; /* there were more than fit: everything that waits looks again */
};

/* TOPIC_AUTH: credentials changed; every server forgets whom it knows. */
#define TOPIC_AUTH "auth"
/* TOPIC_ALL: more changed than can be named. */
#define TOPIC_ALL "all"

struct server;

struct hub {
    struct server *server;
    struct loop_source *source;
    struct loop_timer *retry;
    int fd;
    char id[ID_TEXT]; /* by which it knows its own notifications */
};

/* The same topic twice is kept once; more than WAKES_MAX wake everyone. */
void wakes_add(struct wakes *wakes, const char *kind, const char *id);

/* Commits, then wakes. */
bool hub_commit(struct hub *hub, struct tx **tx, const struct wakes *wakes,
                struct error *err) MUST_USE;

/* Wakes this process only. Any thread. */
void hub_wake(struct hub *hub, const char *topic);

/* On the loop's thread: listens for what other servers commit. */
bool hub_start(struct hub *hub, struct server *server, struct error *err) MUST_USE;
void hub_stop(struct hub *hub);
