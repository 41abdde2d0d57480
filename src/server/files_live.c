#include "server/files_live.h"

#include <inttypes.h>

#include "base/encode.h"
#include "image/glob.h"
#include "server/files_ask.h"
#include "server/range.h"

/* An entry as those of versions are. */
static struct node_entry entry_of(const struct files_entry *from)
{
    static const enum tree_kind kinds[] = {
        [FILES_FILE] = TREE_FILE,
        [FILES_DIRECTORY] = TREE_DIRECTORY,
        [FILES_SYMLINK] = TREE_SYMLINK,
        [FILES_OTHER] = TREE_FIFO,
    };

    return (struct node_entry){
        .name = from->name,
        .kind = kinds[from->type],
        .mode = from->mode,
        .size = from->type == FILES_FILE ? from->size : 0,
        .mtime_ns = from->mtime_ns,
        .target = from->target,
    };
}

static bool is_wanted(const struct files_page *page, struct str path)
{
    struct str glob = page->glob;

    return glob.len == 0 ||
           glob_match(glob, memchr(glob.ptr, '/', glob.len) ? path : files_name(path));
}

static struct str join(struct call *call, struct str folder, struct str name)
{
    return str_of(arena_printf(call->arena, "%.*s%s%.*s", (int)folder.len,
                               folder.len ? folder.ptr : "", folder.len ? "/" : "", (int)name.len,
                               name.ptr));
}

static bool write_list(struct call *call, const struct files_query *query,
                       const struct files_page *page, const struct files_answer *answer,
                       struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    struct str rest = answer->data, last = {0};

    json_open(&json, NULL);
    json_open_list(&json, "entries");
    while (rest.len > 0) {
        struct files_entry taken;

        if (!files_entry_take(&rest, &taken, err))
            return false;
        struct node_entry entry = entry_of(&taken);
        last = join(call, query->path, taken.name);
        if (is_wanted(page, last))
            files_write_entry(&json, NULL, last, &entry);
    }
    json_close_list(&json);
    if (answer->has_more && last.len > 0) {
        char *cursor = arena_alloc(call->arena, (4 * last.len + 2) / 3 + 1);
        base64url_encode(last, cursor);
        json_string(&json, "next_cursor", cursor);
    }
    json_close(&json);
    response_json(res, 200);
    return json_end(&json, err);
}

bool files_live_list(struct call *call, const struct files_query *query,
                     const struct files_page *page, struct response *res, struct error *err)
{
    const struct files_question question = {
        .op = FILES_LIST,
        .path = query->path,
        .after = files_name(page->after),
        .length = (uint64_t)page->limit,
    };
    struct files_answer answer;
    bool is_there;

    if (!files_ask(call, query->workspace_id, &question, 1, &answer, &is_there, res, err))
        return false;
    return !is_there ||
           (write_list(call, query, page, &answer, res, err) && files_ask_end(call, err));
}

static bool take_one(const struct files_answer *answer, struct files_entry *entry,
                     struct error *err)
{
    struct str rest = answer->data;

    if (!files_entry_take(&rest, entry, err))
        return false;
    return rest.len == 0 || error_set(err, ERR_INVALID, "there is more than one entry");
}

bool files_live_stat(struct call *call, const struct files_query *query, struct response *res,
                     struct error *err)
{
    const struct files_question question = {.op = FILES_STAT, .path = query->path};
    struct json_writer json = json_begin(response_body(res));
    struct files_answer answer;
    struct files_entry taken;
    bool is_there;

    if (!files_ask(call, query->workspace_id, &question, 1, &answer, &is_there, res, err))
        return false;
    if (!is_there)
        return true;
    if (!take_one(&answer, &taken, err))
        return false;
    struct node_entry entry = entry_of(&taken);
    files_write_entry(&json, NULL, query->path, &entry);
    response_json(res, 200);
    return json_end(&json, err) && files_ask_end(call, err);
}

static bool read_part(struct call *call, uint64_t size, struct range *range, struct error *err)
{
    if (!range_read(call_header(call, STR("Range")), size, range, err))
        return false;
    if (range->is_part && range->len > FILES_LIVE_MAX)
        range->len = FILES_LIVE_MAX;
    return range->len <= FILES_LIVE_MAX ||
           error_set(err, ERR_FILE_TOO_LARGE,
                     "the file has %" PRIu64 " bytes: ask for parts of it by Range", size);
}

/* The questions after the first, which is about the file itself. */
static size_t ask_for(const struct range *range, struct str path,
                      struct files_question questions[FILES_PARTS_MAX])
{
    size_t n = 1;

    for (uint64_t at = 0; at < range->len; at += FILES_DATA_MAX) {
        uint64_t left = range->len - at;

        questions[n++] = (struct files_question){
            .op = FILES_READ,
            .path = path,
            .offset = range->first + at,
            .length = left < FILES_DATA_MAX ? left : FILES_DATA_MAX,
        };
    }
    return n;
}

static bool write_content(struct response *res, const struct range *range, uint64_t size,
                          const struct files_answer *answers, size_t n, struct error *err)
{
    struct buf *body = response_body(res);
    char part[80];

    for (size_t i = 1; i < n; i++)
        if (answers[i].data.len > 0 && !buf_append(body, answers[i].data, err))
            return false;
    if (body->len != range->len)
        return error_set(err, ERR_CONFLICT, "the file was changed while it was read");
    response_bytes(res, range->is_part ? 206 : 200, "application/octet-stream");
    snprintf(part, sizeof part, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, range->first,
             range->first + range->len - 1, size);
    return response_header(res, "Accept-Ranges", STR("bytes"), err) &&
           (!range->is_part || response_header(res, "Content-Range", str_of(part), err));
}

bool files_live_content(struct call *call, const struct files_query *query, struct response *res,
                        struct error *err)
{
    struct files_question questions[FILES_PARTS_MAX] = {
        {.op = FILES_STAT, .path = query->path},
    };
    struct files_answer answers[FILES_PARTS_MAX] = {0};
    struct files_entry entry;
    struct range range;
    bool is_there;

    if (!files_ask(call, query->workspace_id, questions, 1, answers, &is_there, res, err))
        return false;
    if (!is_there)
        return true;
    if (!take_one(&answers[0], &entry, err))
        return false;
    if (entry.type != FILES_FILE)
        return error_set(err, ERR_FILE_NOT_REGULAR, "%.*s is no regular file", (int)query->path.len,
                         query->path.ptr);
    if (!read_part(call, entry.size, &range, err))
        return false;
    size_t n = ask_for(&range, query->path, questions);
    if (!files_ask(call, query->workspace_id, questions, n, answers, &is_there, res, err))
        return false;
    return !is_there ||
           (write_content(res, &range, entry.size, answers, n, err) && files_ask_end(call, err));
}
