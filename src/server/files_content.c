/* GET workspaces/:workspace/files/content: the bytes of one file, or a part of them.
 *
 * They are read from the store chunk by chunk as the client takes them. An answer has at most
 * FILES_CONTENT_MAX bytes: of a longer part the beginning, as its Content-Range says.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/own.h"
#include "server/caller.h"
#include "server/files.h"
#include "server/files_live.h"
#include "server/files_write.h"
#include "server/handlers.h"
#include "server/range.h"

/* Bytes of one pull: enough that the way to the pool and back costs little. */
enum { PIECE = 1024 * 1024, ETAG_TEXT = 2 * BLAKE2B_LEN + 3 };

struct content {
    struct files *files; /* owned */
    struct caller_hold caller;
    const struct node_chunk *chunk; /* the next */
    uint64_t skip, left;            /* bytes of it that are not wanted; bytes still to be sent */
};

static bool add_chunk(struct content *content, struct buf *out, struct error *err)
{
    struct str bytes = {0};

    if (!tree_reader_chunk(&content->files->reader, content->chunk, &bytes, err))
        return false;
    content->chunk++;
    bytes = (struct str){bytes.ptr + content->skip, bytes.len - content->skip};
    content->skip = 0;
    if (bytes.len > content->left)
        bytes.len = content->left;
    content->left -= bytes.len;
    return buf_append(out, bytes, err);
}

static bool pull(void *state, struct buf *out, bool *more, bool *over, struct error *err)
{
    struct content *content = state;

    if (!caller_still_may(&content->caller))
        return error_set(err, ERR_FORBIDDEN, "the caller may not read files any more");
    while (content->left > 0 && out->len < PIECE)
        if (!add_chunk(content, out, err))
            return false;
    *over = content->left == 0;
    *more = !*over;
    return true;
}

static void release(void *state)
{
    struct content *content = state;

    files_close(content->files);
    free(content);
}

/* Where the range begins. The entry's chunks add up to its size. */
static struct content *content_create(struct call *call, struct files *files,
                                      const struct node_entry *entry, const struct range *range)
{
    struct content *content = alloc(sizeof *content);

    *content = (struct content){
        .files = files,
        .caller = caller_hold(call),
        .chunk = entry->chunks,
        .skip = range->first,
        .left = range->len,
    };
    while (content->skip >= content->chunk->len)
        content->skip -= content->chunk++->len;
    return content;
}

static void etag_of(const struct node_entry *entry, char etag[ETAG_TEXT])
{
    char hex[2 * BLAKE2B_LEN + 1];

    hex_encode((struct str){(const char *)entry->digest, BLAKE2B_LEN}, hex);
    snprintf(etag, ETAG_TEXT, "\"%s\"", hex);
}

static bool add_headers(struct response *res, const char *version_id, const char *etag,
                        uint64_t size, const struct range *range, struct error *err)
{
    char part[80];

    snprintf(part, sizeof part, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->first,
             range->first + range->len - 1, size);
    return response_header(res, "ETag", str_of(etag), err) &&
           response_header(res, "Accept-Ranges", STR("bytes"), err) &&
           response_header(res, "Helmr-Version-Id", str_of(version_id), err) &&
           (!range->is_part || response_header(res, "Content-Range", str_of(part), err));
}

/* With If-Range a part is wanted only of the file that the client knows. */
static bool read_part(struct call *call, const struct node_entry *entry, const char *etag,
                      struct range *range, struct error *err)
{
    struct str header = call_header(call, STR("Range"));
    struct str condition = call_header(call, STR("If-Range"));

    if (condition.len > 0 && !str_equal(condition, str_of(etag)))
        header = (struct str){0};
    if (!range_read(header, entry->size, range, err))
        return false;
    if (range->is_part && range->len > FILES_CONTENT_MAX)
        range->len = FILES_CONTENT_MAX;
    return range->len <= FILES_CONTENT_MAX ||
           error_set(err, ERR_FILE_TOO_LARGE,
                     "the file has %" PRIu64
                     " bytes: ask for parts of it by Range, or for an archive",
                     entry->size);
}

/* The first chunk is read before the answer begins, so that most damage can be told as that. */
static bool begin(struct content *content, struct error *err)
{
    struct str bytes;

    return tree_reader_chunk(&content->files->reader, content->chunk, &bytes, err);
}

static bool answer(struct call *call, struct files **files, const struct node_entry *entry,
                   const struct range *range, struct response *res, struct error *err)
{
    if (range->len == 0) {
        response_bytes(res, 200, "application/octet-stream");
        return true;
    }
    struct content *content = content_create(call, TAKE(*files), entry, range);
    const struct response_source source = {
        .content_type = "application/octet-stream",
        .length = content->left,
        .status = range->is_part ? 206 : 200,
        .pull = pull,
        .release = release,
        .state = content,
    };
    if (call->request->method != METHOD_HEAD && !begin(content, err)) {
        release(content);
        return false;
    }
    response_stream(res, &source);
    return true;
}

/* What there is, for a client that asked for what there is not. */
static bool refuse_range(struct response *res, uint64_t size, const struct error *why,
                         struct error *err)
{
    char whole[40];

    snprintf(whole, sizeof whole, "bytes */%" PRIu64, size);
    if (why->code == ERR_RANGE && !response_header(res, "Content-Range", str_of(whole), err))
        return false;
    *err = *why;
    return false;
}

static bool answer_file(struct call *call, struct files **files, const struct node_entry *entry,
                        struct response *res, struct error *err)
{
    const char *version_id = arena_text(call->arena, str_of((*files)->version_id));
    uint64_t size = entry->size;
    char etag[ETAG_TEXT];
    struct range range;
    struct error why;

    etag_of(entry, etag);
    if (str_equal(call_header(call, STR("If-None-Match")), str_of(etag))) {
        response_empty(res, 304);
        return response_header(res, "ETag", str_of(etag), err);
    }
    if (!read_part(call, entry, etag, &range, &why))
        return refuse_range(res, size, &why, err);
    return answer(call, files, entry, &range, res, err) &&
           add_headers(res, version_id, etag, size, &range, err);
}

bool files_content_get(struct call *call, struct response *res, struct error *err)
{
    const struct node_entry *entry;
    struct files_query query;
    AUTO_FILES files = NULL;

    if (!files_query_read(call, &query, err))
        return false;
    if (query.source == FILES_LIVE)
        return files_live_content(call, &query, res, err);
    return files_open_version(call, &query, &files, err) &&
           files_find_kind(files, query.path, TREE_FILE, &entry, err) &&
           answer_file(call, &files, entry, res, err);
}
