/* Objects of the store, for workers that cannot reach it themselves. */
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "server/caller.h"
#include "server/object_store.h"
#include "server/worker_plane.h"

enum { PIECE = 256 * 1024 };

/* A file as it is: one that was sealed by whoever reads it. */
struct relay {
    int fd;
    uint64_t at, size;
    char piece[PIECE];
};

static bool pull_file(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct relay *relay = state;
    ssize_t got = pread(relay->fd, relay->piece, sizeof relay->piece, (off_t)relay->at);

    if (got < 0)
        return error_errno(err, "read the object");
    relay->at += (uint64_t)got;
    *over = relay->at >= relay->size || got == 0;
    *more = !*over;
    return buf_append(out, (struct str){relay->piece, (size_t)got}, err);
}

static void release_file(void *state)
{
    struct relay *relay = state;

    close(relay->fd);
    free(relay);
}

/* A blob, unsealed record by record as it is read. */
struct download {
    struct server *server;
    struct blob_reader reader;
    struct str rest; /* of the record at hand */
    bool is_last;    /* it is the last one */
    uint64_t left;   /* bytes still to be sent */
    char id[BLOB_ID];
};

static bool next_record(struct download *down, struct error *err)
{
    bool fine = blob_reader_next(&down->reader, &down->rest, &down->is_last, err);

    if (fine && (down->rest.len > down->left || (down->is_last && down->rest.len != down->left)))
        fine = error_set(err, ERR_DAMAGED, "the object %s is not of its length", down->id);
    if (!fine && err->code == ERR_DAMAGED)
        object_doubt(down->server, down->id, true);
    return fine;
}

static bool pull_blob(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct download *down = state;

    if (down->rest.len == 0 && !down->is_last && !next_record(down, err))
        return false;
    struct str piece = {down->rest.ptr, down->rest.len < PIECE ? down->rest.len : PIECE};
    down->rest = (struct str){down->rest.ptr + piece.len, down->rest.len - piece.len};
    down->left -= piece.len;
    *over = down->is_last && down->rest.len == 0;
    *more = !*over;
    return buf_append(out, piece, err);
}

static void release_blob(void *state)
{
    struct download *down = state;

    blob_reader_finish(&down->reader);
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

static bool find_row(struct call *call, struct str id, struct object_row *row, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin_read(server_of(call)->store, &tx, err) && check_worker(call, tx, err) &&
           object_find_row(tx, id, call->arena, row, err);
}

static bool answer_file(struct call *call, const char *id, struct response *res, struct error *err)
{
    uint64_t size;
    int fd;

    if (!blob_open(server_of(call)->blobs, id, &fd, &size, err))
        return false;
    struct relay *relay = alloc(sizeof *relay);
    relay->fd = fd;
    relay->at = 0;
    relay->size = size;
    const struct response_source source = {
        .content_type = "application/octet-stream",
        .length = size,
        .pull = pull_file,
        .release = release_file,
        .state = relay,
    };
    response_stream(res, &source);
    return true;
}

static struct download *download_create(struct call *call, const char *id,
                                        const struct object_row *row)
{
    struct download *down = alloc(sizeof *down);

    *down = (struct download){.server = server_of(call), .reader.fd = -1, .left = row->size};
    snprintf(down->id, sizeof down->id, "%s", id);
    return down;
}

static void stream(struct download *down, struct response *res)
{
    const struct response_source source = {
        .content_type = "application/octet-stream",
        .length = down->left,
        .pull = pull_blob,
        .release = release_blob,
        .state = down,
    };
    response_stream(res, &source);
}

/* The first record is opened before the answer begins, so that most damage can be told as that. */
static bool answer_blob(struct call *call, const char *id, const struct object_row *row,
                        struct response *res, struct error *err)
{
    struct download *down = download_create(call, id, row);

    if (!object_open_blob(down->server, id, row, &down->reader, err) || !next_record(down, err)) {
        release_blob(down);
        return false;
    }
    stream(down, res);
    return true;
}

/* Asks only whether it is there, so nothing is opened: one that was found damaged had better be
 * stored again. */
static bool answer_head(struct call *call, const char *id, const struct object_row *row,
                        struct response *res, struct error *err)
{
    if (row->is_doubted || !blob_has(server_of(call)->blobs, id))
        return error_set(err, ERR_NOT_FOUND, "there is no such object");
    stream(download_create(call, id, row), res);
    return true;
}

bool object_get(struct call *call, struct response *res, struct error *err)
{
    struct str param = call_param(call, 0);
    struct object_row row;

    if (!blob_id_is_valid(param))
        return error_set(err, ERR_NOT_FOUND, "there is no such object");
    if (!find_row(call, param, &row, err))
        return false;
    const char *id = arena_text(call->arena, param);
    if (call->request->method == METHOD_HEAD)
        return answer_head(call, id, &row, res, err);
    return row.class == SEAL_BLOB ? answer_blob(call, id, &row, res, err)
                                  : answer_file(call, id, res, err);
}

static bool stage(struct call *call, const char *id, struct object_draft *draft, struct error *err)
{
    struct str name = call_header(call, STR(WORKER_OBJECT_CLASS));
    struct server *server = server_of(call);
    enum seal_class class;

    if (name.len == 0)
        return object_draft_blob(server, call->upload_fd, 0, call->upload_len, id, draft, err);
    if (!object_class_parse(name, &class))
        return error_set(err, ERR_INVALID, "%s is pack or manifest", WORKER_OBJECT_CLASS);
    return object_draft_sealed(server, call->upload_fd, call->upload_len, id, class, draft, err);
}

static bool publish(struct server *server, struct object_draft *draft, struct error *err)
{
    AUTO_TX tx = NULL;

    return store_begin(server->store, &tx, err) && object_publish(server, tx, draft, err) &&
           store_commit(&tx, err);
}

bool object_put(struct call *call, struct response *res, struct error *err)
{
    struct server *server = server_of(call);
    struct str id = call_param(call, 0);
    struct object_draft draft;

    if (!blob_id_is_valid(id))
        return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
    if (!is_current(call, err) || !stage(call, arena_text(call->arena, id), &draft, err))
        return false;
    bool fine = publish(server, &draft, err);
    object_draft_discard(server, &draft);
    return fine && worker_answer_nothing(res, err);
}
