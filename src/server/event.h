/* Events: facts in the history of a run or a deployment, numbered by a cursor.
 *
 * One is written in the transaction of the change it reports, so it is there exactly when
 * the change is. Nothing here commits or wakes; that is hub_commit's.
 */
#pragma once

#include "base/json.h"
#include "store/store.h"

/* One event fits into one piece of a stream. */
enum { EVENT_ATTRIBUTES_MAX = 1024 * 1024 };

struct event {
    const char *kind;
    const char *category;  /* NULL: lifecycle */
    const char *severity;  /* NULL: info */
    const char *source;    /* NULL: control */
    bool is_sensitive;     /* carries payload, answer or emitted content */
    int64_t attempt;       /* 0: none */
    int64_t at_ms;         /* 0: now */
    struct str attributes; /* a JSON object; empty: {} */
};

/* The first event of a new run; its row was inserted with event_cursor 1. */
bool run_event_first(struct tx *tx, const char *run_id, const struct event *event,
                     struct error *err) MUST_USE;
bool run_event_append(struct tx *tx, const char *run_id, const struct event *event,
                      struct error *err) MUST_USE;

bool deployment_event_first(struct tx *tx, const char *deployment_id, const struct event *event,
                            struct error *err) MUST_USE;
bool deployment_event_append(struct tx *tx, const char *deployment_id, const struct event *event,
                             struct error *err) MUST_USE;

/* Whether a live stream ends after this kind. */
bool event_is_final(struct str kind);
