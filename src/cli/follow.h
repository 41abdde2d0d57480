/* Follows a stream of server-sent events to its end, over broken connections and the server's
 * own cuts, without a gap and without a repetition.
 */
#pragma once

#include "cli/api.h"
#include "http/sse_reader.h"

enum follow_verdict {
    FOLLOW_ON,
    FOLLOW_END,    /* that was the last one wanted */
    FOLLOW_FAILED, /* with *err filled */
};

typedef enum follow_verdict follow_event(void *arg, const struct sse_event *event,
                                         struct error *err);

struct follow {
    struct api *api;
    const char *path;
    follow_event *on_event;
    void *arg;
    int64_t deadline_ms; /* boot time; 0: none */
    struct buf cursor;   /* of the last event, or where to start; .max is set by follow_init */
};

void follow_init(struct follow *follow, struct api *api, const char *path, follow_event *on_event,
                 void *arg);
void follow_finish(struct follow *follow);

/* True when on_event said so (*ended), or when the server closed the stream in order. A caller who
 * needs to know whether that was its real end asks again. ERR_TIMEOUT at the
 * deadline. *n_events counts those of this call. */
bool follow_once(struct follow *follow, bool *ended, size_t *n_events, struct error *err) MUST_USE;

/* Waits a little longer each time, and never past the deadline. Start with *pause 0. */
void follow_pause(const struct follow *follow, int64_t *pause);

/* Until on_event says that it is over. */
bool follow_until_end(struct follow *follow, struct error *err) MUST_USE;
