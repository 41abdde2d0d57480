#include "server/snapshot.h"

#include "base/json.h"
#include "base/own.h"
#include "base/time.h"
#include "protocol/worker_api_mount.h"
#include "server/caller.h"
#include "server/files_ask.h"
#include "server/lease.h"
#include "server/outbox.h"
#include "server/versions.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum { BODY_MAX = 256 };

static bool send_question(struct call *call, struct tx *tx, const char *lease_id,
                          const char *worker_id, struct wakes *wakes, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);
    char id[ID_TEXT];

    id_make(id);
    json_open(&json, NULL);
    json_string(&json, "request_id", id);
    json_close(&json);
    return json_end(&json, err) &&
           STORE(tx, &file_request_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(call->id), V_INT(0),
                 V_TEXT(lease_id), V_INT(time_now_ms())) &&
           outbox_send(tx, worker_id, lease_id, "workspace_snapshot", buf_str(&body), wakes, err);
}

static bool ask(struct call *call, const char *subject_id, struct error *err)
{
    struct server *server = server_of(call);
    AUTO_FREE struct wakes *wakes = alloc(sizeof *wakes);
    struct rows lease;
    AUTO_TX tx = NULL;

    *wakes = (struct wakes){0};
    if (!store_begin(server->store, &tx, err) ||
        !STORE(tx, &snapshot_lease, call->arena, &lease, err, V_TEXT(call_environment(call)),
               V_TEXT(subject_id)))
        return false;
    if (lease.n_rows == 0)
        return error_set(err, ERR_NOT_MOUNTED, "it is in no sandbox now: only versions are there");
    return send_question(call, tx, row_text(&lease, 0, SNAPSHOT_LEASE_LEASE_ID),
                         row_text(&lease, 0, SNAPSHOT_LEASE_WORKER_ID), wakes, err) &&
           hub_commit(&server->hub, &tx, wakes, err);
}

static bool read_answer(const struct rows *rows, struct snapshot *snapshot, struct error *err)
{
    struct str code = row_str(rows, 0, FILE_REQUESTS_OF_CODE);
    struct str id = row_str(rows, 0, FILE_REQUESTS_OF_DATA);

    if (!row_is_null(rows, 0, FILE_REQUESTS_OF_CODE))
        return error_set(err,
                         str_equal(code, str_of(error_wire_name(ERR_QUOTA))) ? ERR_QUOTA
                                                                             : ERR_NOT_MOUNTED,
                         "what it holds now cannot be read: %s",
                         row_text(rows, 0, FILE_REQUESTS_OF_REASON));
    snprintf(snapshot->version_id, ID_TEXT, "%.*s", (int)id.len, id.ptr ? id.ptr : "");
    snapshot->is_there = true;
    return true;
}

static bool find_answer(struct call *call, bool *is_asked, bool *is_answered,
                        struct snapshot *snapshot, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &file_requests_of, call->arena, &rows, err, V_TEXT(call->id)))
        return false;
    *is_asked = rows.n_rows > 0;
    *is_answered = *is_asked && !row_is_null(&rows, 0, FILE_REQUESTS_OF_ANSWERED_MS);
    return !*is_answered || read_answer(&rows, snapshot, err);
}

bool snapshot_ask(struct call *call, const char *subject_id, struct snapshot *snapshot,
                  struct response *res, struct error *err)
{
    bool is_asked = false, is_answered = false;
    struct error other;

    *snapshot = (struct snapshot){0};
    bool fine = find_answer(call, &is_asked, &is_answered, snapshot, err);
    if (is_answered || call->is_last_try)
        return files_ask_end(call, fine ? err : &other) && fine &&
               (is_answered ||
                error_set(err, ERR_NOT_MOUNTED, "the sandbox has not answered in time"));
    if (!fine || (!is_asked && !ask(call, subject_id, err)))
        return false;
    response_park(res, arena_printf(call->arena, "files:%s", call->id), SNAPSHOT_MS);
    return true;
}

/* Those who still wait, each once. */
static bool answer_all(struct call *call, struct tx *tx, const struct wire_snapshot *told,
                       bool *is_wanted, struct wakes *wakes, struct error *err)
{
    const struct str *ids = told->request_ids.items;
    struct rows rows;

    *is_wanted = false;
    for (size_t i = 0; i < told->request_ids.n; i++) {
        if (!STORE(tx, &file_request_answer, call->arena, &rows, err, V_STR(ids[i]),
                   V_STR(told->fence.lease_id), V_STR_OR_NULL(told->code),
                   V_STR_OR_NULL(told->text),
                   told->has_version ? V_BYTES(told->version.id) : V_NULL, V_INT(0), V_INT(0),
                   V_INT(time_now_ms())))
            return false;
        if (rows.n_rows == 0)
            continue;
        *is_wanted = true;
        wakes_add(wakes, "files:", row_text(&rows, 0, FILE_REQUEST_ANSWER_CALL_ID));
    }
    return true;
}

bool lease_snapshot_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    AUTO_FREE struct wakes *wakes = alloc(sizeof *wakes);
    struct wire_snapshot told;
    struct lease_row lease;
    bool is_wanted;
    AUTO_TX tx = NULL;

    *wakes = (struct wakes){0};
    return worker_read(call, wire_snapshot_fields, &told, sizeof told, err) &&
           store_begin(server->store, &tx, err) &&
           lease_open(tx, call, &told.fence, false, &lease, err) &&
           answer_all(call, tx, &told, &is_wanted, wakes, err) &&
           (!is_wanted || !told.has_version ||
            version_publish_beside(server, tx, &told.version, lease.subject_id, err)) &&
           hub_commit(&server->hub, &tx, wakes, err) && worker_answer_nothing(res, err);
}
