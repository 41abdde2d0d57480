#include "worker/snapshot.h"

#include <stdio.h>

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "protocol/worker_api_mount.h"
#include "worker/capture.h"
#include "worker/worker.h"

/* Who asks waits for 30 s. */
enum { HOLD_MS = 15 * 1000, CALL_MS = 5 * 1000 };

void snapshot_wish(struct snapshot_wishes *wishes, const struct wire_message *message)
{
    if (wishes->n == WIRE_SNAPSHOT_WISHES) {
        log_warn("too many ask for a snapshot at once");
        return;
    }
    snprintf(wishes->ids[wishes->n++], ID_TEXT, "%.*s", (int)message->request_id.len,
             message->request_id.ptr);
}

static bool tell(const struct snapshot_wishes *wishes, const struct snapshot_source *source,
                 struct wire_snapshot *message, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct lease *lease = source->lease;
    struct str ids[WIRE_SNAPSHOT_WISHES];

    for (size_t i = 0; i < wishes->n; i++)
        ids[i] = str_of(wishes->ids[i]);
    message->request_ids = (struct json_list){ids, wishes->n};
    message->fence =
        (struct wire_fence){lease->worker->link.epoch, lease->sequence, str_of(lease->id)};
    const struct exchange exchange = {
        .route = arena_printf(&arena, "leases/%s/snapshot", lease->id),
        .request_fields = wire_snapshot_fields,
        .request = message,
        .timeout_ms = CALL_MS,
    };
    return line_insist(source->line, &exchange, time_boot_ms() + CALL_MS, &arena, err);
}

static void refuse(struct snapshot_wishes *wishes, const struct snapshot_source *source,
                   const struct error *why)
{
    struct wire_snapshot message = {
        .code = str_of(error_wire_name(why->code)),
        .text = str_of(why->text),
    };
    struct error err;

    log_info("no snapshot", LOG_STR("lease", source->lease->id), LOG_ERR(why));
    if (!tell(wishes, source, &message, &err))
        log_info("nobody was told", LOG_STR("lease", source->lease->id), LOG_ERR(&err));
}

void snapshot_refuse(struct snapshot_wishes *wishes, const struct snapshot_source *source,
                     const char *why)
{
    struct error err;

    if (wishes->n == 0)
        return;
    error_set(&err, ERR_CONFLICT, "%s", why);
    refuse(wishes, source, &err);
    wishes->n = 0;
}

bool snapshot_take(struct snapshot_wishes *wishes, const struct snapshot_source *source,
                   struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    int64_t begun_ms = time_boot_ms();
    struct capture capture = {0};
    struct error why;

    bool is_taken = guest_hold(source->guest, HOLD_MS, &why) &&
                    capture_workspace(source->guest, source->lease, source->line, source->has_base,
                                      begun_ms + HOLD_MS, &arena, &capture, &why);
    if (!guest_let_go(source->guest, err))
        return false;
    log_debug("sandbox was held", LOG_STR("lease", source->lease->id),
              LOG_INT("ms", time_boot_ms() - begun_ms));
    struct wire_snapshot message = {.has_version = capture.has_version, .version = capture.version};
    if (!is_taken || !tell(wishes, source, &message, &why))
        refuse(wishes, source, &why);
    wishes->n = 0;
    return true;
}
