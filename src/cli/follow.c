#include "cli/follow.h"

#include <stdio.h>
#include <time.h>

#include "base/time.h"

enum {
    STALL_MS = 45 * 1000, /* a living stream says something every 15 s */
    PAUSE_MIN_MS = 100,
    PAUSE_MAX_MS = 3000,
    PATIENCE_MS = 60 * 1000, /* without any answer */
    REFUSAL_MAX = 1024 * 1024,
};

static const char cli_version[] = CLI_VERSION_HEADER;

/* One connection. */
struct reading {
    struct follow *follow;
    struct sse_reader reader;
    enum follow_verdict verdict;
    size_t n_events;
    struct error err;
};

void follow_init(struct follow *follow, struct api *api, const char *path, follow_event *on_event,
                 void *arg)
{
    *follow = (struct follow){
        .api = api,
        .path = path,
        .on_event = on_event,
        .arg = arg,
        .cursor = {.max = 4096},
    };
}

void follow_finish(struct follow *follow)
{
    buf_finish(&follow->cursor);
}

static bool take_event(void *arg, const struct sse_event *event)
{
    struct reading *reading = arg;
    struct follow *follow = reading->follow;

    reading->n_events++;
    reading->verdict = follow->on_event(follow->arg, event, &reading->err);
    if (reading->verdict == FOLLOW_FAILED)
        return false;
    follow->cursor.len = 0;
    if (!buf_append(&follow->cursor, event->id, &reading->err))
        reading->verdict = FOLLOW_FAILED;
    return reading->verdict == FOLLOW_ON;
}

static bool take_bytes(void *arg, struct str bytes)
{
    struct reading *reading = arg;

    if (!sse_reader_push(&reading->reader, bytes, &reading->err))
        reading->verdict = FOLLOW_FAILED;
    return reading->verdict == FOLLOW_ON;
}

/* ERR_UNAVAILABLE and ERR_TIMEOUT (a stall) are worth another try. */
static bool connect_once(struct reading *reading, struct error *err)
{
    struct follow *follow = reading->follow;
    char resume[4200];
    const char *headers[] = {
        "Accept: text/event-stream",
        API_VERSION_HEADER,
        cli_version,
        follow->cursor.len > 0 ? resume : NULL,
        NULL,
    };
    int64_t left = follow->deadline_ms ? follow->deadline_ms - time_boot_ms() : 0;
    struct http_request request = {
        .method = "GET",
        .path = follow->path,
        .headers = headers,
        .timeout_ms = follow->deadline_ms && left < 1 ? 1 : left,
        .stall_ms = STALL_MS,
        .sink = take_bytes,
        .sink_arg = reading,
    };
    struct http_answer answer = {.body = {.max = REFUSAL_MAX}};

    snprintf(resume, sizeof resume, "Last-Event-ID: %.*s", (int)follow->cursor.len,
             follow->cursor.len ? follow->cursor.bytes : "");
    bool ok = http_client_send(follow->api->client, &request, &answer, err);
    if (ok && (answer.status < 200 || answer.status > 299)) {
        ok = api_refused(follow->api, answer.status, buf_str(&answer.body), err);
        if (answer.status >= 500 && answer.status != 501)
            err->code = ERR_UNAVAILABLE;
    }
    buf_finish(&answer.body);
    return ok;
}

static bool is_late(const struct follow *follow)
{
    return follow->deadline_ms && time_boot_ms() >= follow->deadline_ms;
}

void follow_pause(const struct follow *follow, int64_t *pause)
{
    int64_t wait = *pause > PAUSE_MIN_MS ? *pause : PAUSE_MIN_MS;

    *pause = 2 * wait < PAUSE_MAX_MS ? 2 * wait : PAUSE_MAX_MS;
    if (follow->deadline_ms && follow->deadline_ms - time_boot_ms() < wait)
        wait = follow->deadline_ms - time_boot_ms();
    if (wait > 0)
        nanosleep(&(struct timespec){.tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000},
                  NULL);
}

/* The verdict of one connection; true when the reading as a whole may go on. */
static bool settle(const struct reading *reading, struct error *err)
{
    if (reading->verdict != FOLLOW_FAILED)
        return true;
    *err = reading->err;
    return false;
}

bool follow_once(struct follow *follow, bool *ended, size_t *n_events, struct error *err)
{
    int64_t pause = 0, heard = time_boot_ms();

    *n_events = 0;
    for (;;) {
        struct reading reading = {.follow = follow};

        sse_reader_init(&reading.reader, take_event, &reading);
        bool answered = connect_once(&reading, err);
        sse_reader_finish(&reading.reader);
        *n_events += reading.n_events;
        *ended = reading.verdict == FOLLOW_END;
        if (!settle(&reading, err))
            return false;
        if (answered || *ended)
            return true;
        if (is_late(follow))
            return error_set(err, ERR_TIMEOUT, "the time is up");
        if (err->code != ERR_UNAVAILABLE && err->code != ERR_TIMEOUT)
            return false;
        if (reading.n_events > 0 || err->code == ERR_TIMEOUT) {
            heard = time_boot_ms();
            pause = 0;
        }
        if (time_boot_ms() - heard > PATIENCE_MS)
            return api_explain(follow->api, err);
        follow_pause(follow, &pause);
    }
}

bool follow_until_end(struct follow *follow, struct error *err)
{
    bool ended = false;
    int64_t pause = 0;

    while (!ended) {
        size_t n;

        if (is_late(follow))
            return error_set(err, ERR_TIMEOUT, "the time is up");
        if (!follow_once(follow, &ended, &n, err))
            return false;
        if (n > 0)
            pause = 0;
        else if (!ended)
            follow_pause(follow, &pause);
    }
    return true;
}
