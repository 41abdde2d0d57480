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
static bool is_current(struct call *call, struct error *err)
{
    enum worker_state state;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !worker_check(call, tx, caller_of(call)->epoch, &state, err))
        return false;
    return state != WORKER_DISABLED || error_set(err, ERR_FORBIDDEN, "the worker is disabled");
}

bool object_get(struct call *call, struct response *res, struct error *err)
{
    struct str id = call_param(call, 0);
    uint64_t size;
    int fd;

    if (!blob_id_is_valid(id))
        return error_set(err, ERR_NOT_FOUND, "there is no such object");
    if (!is_current(call, err) ||
        !blob_open(server_of(call)->blobs, arena_text(call->arena, id), &fd, &size, err))
        return false;
    struct download *down = alloc(sizeof *down);
    down->fd = fd;
    down->at = 0;
    down->size = size;
    const struct response_source source = {
        .content_type = "application/octet-stream",
        .pull = pull,
        .release = release,
        .state = down,
    };
    response_stream(res, &source);
    return true;
}

bool object_put(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct str id = call_param(call, 0);
    char stored[BLOB_ID];
    AUTO_TX tx = NULL;

    if (!blob_id_is_valid(id))
        return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
    const char *expected = arena_text(call->arena, id);
    return is_current(call, err) &&
           blob_put_fd(server->blobs, call->upload_fd, 0, call->upload_len, expected, stored,
                       err) &&
           store_begin(server->store, &tx, err) &&
           STORE(tx, &object_insert, NULL, NULL, err, V_TEXT(stored), V_TEXT("store"),
                 V_TEXT("blob"), V_TEXT(stored), V_INT(call->upload_len), V_INT(time_now_ms())) &&
           store_commit(&tx, err) && worker_answer_nothing(res, err);
}
