/* That something changed in an environment, as it happens: for pages that show many things at once
 * and look again.
 *
 * A frame says nothing but when; what changed is read where it stands. Several changes may be one
 * frame.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/context.h"
#include "server/handlers.h"
#include "server/history.h"
#include "server/hub.h"
#include "server/page.h"

struct live {
    struct caller_hold hold;
};

static bool write_time(struct buf *out, int64_t now, struct error *err)
{
    char at[TIME_TEXT_MAX];
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "at", time_format(now, at));
    json_close(&json);
    return json_end(&json, err);
}

static bool pull(void *state, struct buf *out, bool *more UNUSED, bool *over, struct error *err)
{
    const struct live *live = state;
    int64_t now = time_now_ms();

    *over = !caller_still_may(&live->hold);
    return *over || (sse_begin(out, now, "environment_changed", err) && write_time(out, now, err) &&
                     sse_end(out, err));
}

bool live_get(struct call *call, struct response *res, struct error *err)
{
    char topic[TOPIC_TEXT];

    if (!call_wants_events(call)) {
        response_json(res, 200);
        return write_time(response_body(res), time_now_ms(), err);
    }
    struct live *live = alloc(sizeof *live);
    *live = (struct live){caller_hold(call)};
    snprintf(topic, sizeof topic, "env:%s", call_environment(call));
    response_stream(res, &(struct response_source){.topic = topic,
                                                   .content_type = "text/event-stream",
                                                   .is_sse = true,
                                                   .pull = pull,
                                                   .release = free,
                                                   .state = live});
    return true;
}
