#include "server/outbox.h"

#include "base/json.h"
#include "base/time.h"
#include "store/queries.h"

enum { BODY_MAX = 64 * 1024 };

bool outbox_send(struct tx *tx, const char *worker_id, const char *lease_id, const char *type,
                 struct str body, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows rows;
    if (!STORE(tx, &worker_message_number, &arena, &rows, err, V_TEXT(worker_id)))
        return false;
    if (rows.n_rows != 1)
        return error_set(err, ERR_NOT_FOUND, "there is no worker %s", worker_id);
    wakes_add(wakes, "w", worker_id);
    return STORE(tx, &worker_message_insert, NULL, NULL, err, V_TEXT(worker_id),
                 V_INT(row_int(&rows, 0, WORKER_MESSAGE_NUMBER_CURSOR)), V_TEXT_OR_NULL(lease_id),
                 V_TEXT(type), V_STR(body), V_INT(time_now_ms()));
}

static bool send_cancel(struct tx *tx, const struct rows *lease, struct str reason, bool force,
                        struct wakes *wakes, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);
    json_open(&json, NULL);
    if (reason.ptr)
        json_text(&json, "reason", reason);
    json_bool(&json, "force", force);
    json_close(&json);
    return json_end(&json, err) && outbox_send(tx, row_text(lease, 0, LEASE_LIVE_FIND_WORKER_ID),
                                               row_text(lease, 0, LEASE_LIVE_FIND_ID), "cancel",
                                               buf_str(&body), wakes, err);
}

bool outbox_cancel(struct tx *tx, const char *subject_kind, const char *subject_id,
                   struct str reason, bool force, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows lease;
    if (!STORE(tx, &lease_live_find, &arena, &lease, err, V_TEXT(subject_kind), V_TEXT(subject_id)))
        return false;
    return lease.n_rows == 0 || send_cancel(tx, &lease, reason, force, wakes, err);
}

bool outbox_revoke(struct tx *tx, const char *subject_kind, const char *subject_id,
                   struct str reason, struct wakes *wakes, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct rows lease;
    if (!STORE(tx, &lease_live_find, &arena, &lease, err, V_TEXT(subject_kind), V_TEXT(subject_id)))
        return false;
    if (lease.n_rows == 0)
        return true;
    const char *id = row_text(&lease, 0, LEASE_LIVE_FIND_ID);
    struct rows ended;
    if (!STORE(tx, &lease_end, &arena, &ended, err, V_TEXT(id),
               V_STR(row_str(&lease, 0, LEASE_LIVE_FIND_STATE)), V_TEXT("cancelled"),
               V_INT(time_now_ms())))
        return false;
    if (ended.n_changed != 1)
        return store_lost_race(err, "the lease moved meanwhile");
    return STORE(tx, &lease_operations_forget, NULL, NULL, err, V_TEXT(id)) &&
           send_cancel(tx, &lease, reason, true, wakes, err);
}
