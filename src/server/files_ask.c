#include "server/files_ask.h"

#include "base/encode.h"
#include "base/own.h"
#include "base/time.h"
#include "protocol/worker_api_mount.h"
#include "server/caller.h"
#include "server/lease.h"
#include "server/outbox.h"
#include "server/worker_plane.h"
#include "store/queries.h"

/* What nobody has come back for is as good as forgotten. */
enum { KEPT_MS = 60 * 1000, BODY_MAX = 16 * 1024 };

static const char *op_name(enum files_op op)
{
    switch (op) {
    case FILES_LIST: return "list";
    case FILES_STAT: return "stat";
    case FILES_READ: break;
    }
    return "read";
}

static bool send_question(struct call *call, struct tx *tx, const struct rows *mount, size_t part,
                          const struct files_question *question, struct wakes *wakes,
                          struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = BODY_MAX};
    struct json_writer json = json_begin(&body);
    const char *lease = row_text(mount, 0, FILES_MOUNT_LEASE_ID);
    char id[ID_TEXT];

    id_make(id);
    json_open(&json, NULL);
    json_string(&json, "request_id", id);
    json_string(&json, "op", op_name(question->op));
    json_text(&json, "path", question->path);
    json_int(&json, "offset", (int64_t)question->offset);
    json_int(&json, "length", (int64_t)question->length);
    if (question->after.len > 0)
        json_text(&json, "name", question->after);
    json_close(&json);
    return json_end(&json, err) &&
           STORE(tx, &file_request_insert, NULL, NULL, err, V_TEXT(id), V_TEXT(call->id),
                 V_INT((int64_t)part), V_TEXT(lease), V_INT(time_now_ms())) &&
           outbox_send(tx, row_text(mount, 0, FILES_MOUNT_WORKER_ID), lease, "file_request",
                       buf_str(&body), wakes, err);
}

static bool find_mount(struct call *call, struct tx *tx, const char *workspace_id,
                       struct rows *mount, struct error *err)
{
    if (!STORE(tx, &files_mount, call->arena, mount, err, V_TEXT(call_environment(call)),
               V_TEXT(workspace_id)))
        return false;
    if (mount->n_rows == 0)
        return error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s", workspace_id);
    return !row_is_null(mount, 0, FILES_MOUNT_LEASE_ID) ||
           error_set(err, ERR_NOT_MOUNTED, "the workspace is not mounted");
}

/* Those from `first` on. */
static bool send_questions(struct call *call, const char *workspace_id,
                           const struct files_question *questions, size_t first, size_t n,
                           struct error *err)
{
    struct server *server = server_of(call);
    AUTO_FREE struct wakes *wakes = alloc(sizeof *wakes);
    struct rows mount;
    AUTO_TX tx = NULL;

    *wakes = (struct wakes){0};
    if (!store_begin(server->store, &tx, err) || !find_mount(call, tx, workspace_id, &mount, err) ||
        !STORE(tx, &file_requests_delete, NULL, NULL, err, V_TEXT(""),
               V_INT(time_now_ms() - KEPT_MS)))
        return false;
    for (size_t i = first; i < n; i++)
        if (!send_question(call, tx, &mount, i, &questions[i], wakes, err))
            return false;
    return hub_commit(&server->hub, &tx, wakes, err);
}

/* What the agent says is in its own words; the code says which of ours it is. */
static bool refused(struct str code, struct str reason, struct error *err)
{
    static const struct {
        const char *code;
        enum error_code kind;
    } kinds[] = {
        {"not_found",     ERR_FILE_NOT_FOUND    },
        {"not_directory", ERR_FILE_NOT_DIRECTORY},
        {"not_regular",   ERR_FILE_NOT_REGULAR  },
        {"too_large",     ERR_FILE_TOO_LARGE    },
    };
    enum error_code kind = ERR_NOT_MOUNTED;

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (str_equal(code, str_of(kinds[i].code)))
            kind = kinds[i].kind;
    return error_set(err, kind, "%.*s", (int)reason.len, reason.ptr ? reason.ptr : "");
}

/* How many of the first `n` have been asked, and whether all of those were answered. */
static bool read_answers(struct call *call, struct files_answer *answers, size_t n, size_t *n_asked,
                         bool *is_there, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &file_requests_of, call->arena, &rows, err, V_TEXT(call->id)))
        return false;
    *n_asked = rows.n_rows;
    *is_there = rows.n_rows >= n;
    for (size_t i = 0; i < rows.n_rows && i < n; i++) {
        if (row_is_null(&rows, i, FILE_REQUESTS_OF_ANSWERED_MS)) {
            *is_there = false;
            continue;
        }
        if (!row_is_null(&rows, i, FILE_REQUESTS_OF_CODE))
            return refused(row_str(&rows, i, FILE_REQUESTS_OF_CODE),
                           row_str(&rows, i, FILE_REQUESTS_OF_REASON), err);
        answers[i] = (struct files_answer){
            .data = row_str(&rows, i, FILE_REQUESTS_OF_DATA),
            .size = (uint64_t)row_int(&rows, i, FILE_REQUESTS_OF_SIZE_BYTES),
            .has_more = row_int(&rows, i, FILE_REQUESTS_OF_MORE) != 0,
        };
    }
    return true;
}

bool files_ask(struct call *call, const char *workspace_id, const struct files_question *questions,
               size_t n, struct files_answer *answers, bool *is_there, struct response *res,
               struct error *err)
{
    size_t n_asked;

    if (!read_answers(call, answers, n, &n_asked, is_there, err))
        return false;
    if (*is_there)
        return true;
    if (call->is_last_try)
        return error_set(err, ERR_NOT_MOUNTED, "the sandbox has not answered in time");
    if (n_asked < n && !send_questions(call, workspace_id, questions, n_asked, n, err))
        return false;
    response_park(res, arena_printf(call->arena, "files:%s", call->id), FILES_ASK_MS);
    return true;
}

bool files_ask_end(struct call *call, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(server_of(call)->store, &tx, err) &&
           STORE(tx, &file_requests_delete, NULL, NULL, err, V_TEXT(call->id),
                 V_INT(time_now_ms() - KEPT_MS)) &&
           store_commit(&tx, err);
}

static bool note_answer(struct call *call, struct tx *tx, const struct wire_file *file,
                        struct wakes *wakes, struct error *err)
{
    size_t len = file->data.len;
    char *data = arena_alloc(call->arena, len + 1);
    struct rows rows;

    if (!base64_decode(file->data, data, &len) || len > FILES_DATA_MAX)
        return error_set(err, ERR_INVALID, "/data must be base64");
    if (!STORE(tx, &file_request_answer, call->arena, &rows, err, V_STR(file->request_id),
               V_STR(file->fence.lease_id), V_STR_OR_NULL(file->code), V_STR_OR_NULL(file->text),
               V_BYTES(((struct str){data, len})), V_INT(file->size), V_INT(file->more),
               V_INT(time_now_ms())))
        return false;
    /* Nobody waits any more when there is none. */
    if (rows.n_rows > 0)
        wakes_add(wakes, "files:", row_text(&rows, 0, FILE_REQUEST_ANSWER_CALL_ID));
    return true;
}

bool lease_file_post(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    AUTO_FREE struct wakes *wakes = alloc(sizeof *wakes);
    struct lease_row lease;
    struct wire_file file;
    AUTO_TX tx = NULL;

    *wakes = (struct wakes){0};
    return worker_read(call, wire_file_fields, &file, sizeof file, err) &&
           store_begin(server->store, &tx, err) &&
           lease_open(tx, call, &file.fence, false, &lease, err) &&
           lease_is_for(&lease, SUBJECT_MOUNT, err) && note_answer(call, tx, &file, wakes, err) &&
           hub_commit(&server->hub, &tx, wakes, err) && worker_answer_nothing(res, err);
}
