/* Objects of the blob store, for workers that cannot reach it themselves. */
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/worker_plane.h"
#include "store/queries.h"

enum { PIECE = 256 * 1024 };

struct download {
    int fd;
    uint64_t at, size;
    char piece[PIECE];
};

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct download *down = state;
    ssize_t got = pread(down->fd, down->piece, sizeof down->piece, (off_t)down->at);

    if (got < 0)
        return error_errno(err, "read the object");
    down->at += (uint64_t)got;
    *over = down->at >= down->size || got == 0;
    *more = !*over;
    return buf_append(out, (struct str){down->piece, (size_t)got}, err);
}

static void release(void *state)
{
    struct download *down = state;

    close(down->fd);
    free(down);
}

/* The bearer alone would still be good when its worker is superseded or disabled. */
static bool check_worker(struct call *call, struct tx *tx, struct error *err)
{
    enum worker_state state;

    if (!worker_check(call, tx, caller_of(call)->epoch, &state, err))
        return false;
    return state != WORKER_DISABLED || error_set(err, ERR_FORBIDDEN, "the worker is disabled");
}

static bool is_current(struct call *call, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) && check_worker(call, tx, err);
}

/* One that is dead is as good as gone: its file may be removed at any time. */
static bool is_there(struct call *call, struct str id, struct error *err)
{
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) || !check_worker(call, tx, err) ||
        !STORE(tx, &object_is_live, call->arena, &rows, err, V_STR(id)))
        return false;
    return rows.n_rows == 1 || error_set(err, ERR_NOT_FOUND, "there is no such object");
}

bool object_get(struct call *call, struct response *res, struct error *err)
{
    struct str id = call_param(call, 0);
    uint64_t size;
    int fd;

    if (!blob_id_is_valid(id))
        return error_set(err, ERR_NOT_FOUND, "there is no such object");
    if (!is_there(call, id, err) ||
        !blob_open(server_of(call)->blobs, arena_text(call->arena, id), &fd, &size, err))
        return false;
    struct download *down = alloc(sizeof *down);
    down->fd = fd;
    down->at = 0;
    down->size = size;
    const struct response_source source = {
        .content_type = "application/octet-stream",
        .length = size,
        .pull = pull,
        .release = release,
        .state = down,
    };
    response_stream(res, &source);
    return true;
}

/* The row is locked before the file takes its place: the collector, which removes both under the
 * same lock, comes wholly before or wholly after. */
static bool publish(struct server *server, struct blob_draft *draft, int64_t size,
                    struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(server->store, &tx, err) &&
           STORE(tx, &object_insert, NULL, NULL, err, V_TEXT(draft->id), V_TEXT("store"),
                 V_TEXT("blob"), V_TEXT(draft->id), V_INT(size), V_INT(time_now_ms())) &&
           blob_publish(server->blobs, draft, err) && store_commit(&tx, err);
}

bool object_put(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct str id = call_param(call, 0);
    struct blob_draft draft;

    if (!blob_id_is_valid(id))
        return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
    if (!is_current(call, err) ||
        !blob_stage_fd(server->blobs, call->upload_fd, 0, call->upload_len,
                       arena_text(call->arena, id), &draft, err))
        return false;
    bool fine = publish(server, &draft, (int64_t)call->upload_len, err);
    blob_discard(server->blobs, &draft);
    return fine && worker_answer_nothing(res, err);
}
