/* GET workspaces/:workspace/files and files/stat: what a version holds. */
#include "base/encode.h"
#include "image/glob.h"
#include "server/files.h"
#include "server/files_live.h"
#include "server/handlers.h"
#include "server/page.h"

enum { LIMIT_DEFAULT = 200, LIMIT_MAX = 500 };

struct listing {
    struct files *files;
    struct json_writer *json;
    struct str glob, after; /* empty: everything; after: the last path of the page before */
    int64_t left;           /* how many more the page takes */
    bool is_recursive, has_more;
    struct str last;
    struct arena arena;
};

static bool read_cursor(struct call *call, struct str *after, struct error *err)
{
    struct str text = {0};
    bool found = false;

    if (!call_query(call, "cursor", &text, &found, err) || !found)
        return !found;
    size_t len = text.len;
    char *path = arena_alloc(call->arena, len + 1);
    if (!base64url_decode(text, path, &len) || len == 0)
        return error_set(err, ERR_INVALID_CURSOR, "the cursor is not one of this list");
    *after = (struct str){path, len};
    return true;
}

static bool read_listing(struct call *call, struct listing *listing, struct error *err)
{
    bool found;

    return call_query(call, "name", &listing->glob, &found, err) &&
           files_flag_read(call, "recursive", &listing->is_recursive, err) &&
           read_cursor(call, &listing->after, err) &&
           call_query_int(call, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &listing->left, err);
}

static bool is_below(struct str path, struct str folder)
{
    return path.len > folder.len && path.ptr[folder.len] == '/' &&
           memcmp(path.ptr, folder.ptr, folder.len) == 0;
}

/* A pattern with a slash is one for the whole path. */
static bool is_wanted(const struct listing *listing, struct str path)
{
    struct str glob = listing->glob;

    if (glob.len == 0)
        return true;
    return glob_match(glob, memchr(glob.ptr, '/', glob.len) ? path : files_name(path));
}

static struct str join(struct listing *listing, struct str folder, struct str name)
{
    char *path = arena_alloc(&listing->arena, folder.len + name.len + 2);
    size_t len = folder.len;

    if (len > 0) {
        memcpy(path, folder.ptr, len);
        path[len++] = '/';
    }
    memcpy(path + len, name.ptr, name.len);
    return (struct str){path, len + name.len};
}

static void show(struct listing *listing, struct str path, const struct node_entry *entry)
{
    listing->has_more = listing->left == 0;
    if (listing->has_more)
        return;
    files_write_entry(listing->json, NULL, path, entry);
    listing->last = path;
    listing->left--;
}

/* Its depth is that of a tree, which the decoder of each node does not know. */
static bool list_folder(struct listing *listing, struct str folder, const struct node_entry *entry,
                        int depth, struct error *err)
{
    struct node node;

    if (depth > TREE_DEPTH_MAX)
        return error_set(err, ERR_DAMAGED, "a stored tree is deeper than any workspace");
    if (!files_node(listing->files, entry, &listing->arena, &node, err))
        return false;
    for (size_t i = 0; i < node.n && !listing->has_more; i++) {
        const struct node_entry *child = &node.entries[i];
        struct str path = join(listing, folder, child->name), after = listing->after;
        bool was_shown = after.len > 0 && tree_path_order(path, after) <= 0;

        if (child->kind == TREE_WHITEOUT)
            continue;
        if (!was_shown && is_wanted(listing, path))
            show(listing, path, child);
        bool is_on_way = !was_shown || str_equal(path, after) || is_below(after, path);
        if (listing->is_recursive && is_on_way && child->kind == TREE_DIRECTORY &&
            !listing->has_more && !list_folder(listing, path, child, depth + 1, err))
            return false;
    }
    return true;
}

static void write_next(struct call *call, struct json_writer *json, struct str path)
{
    char *text = arena_alloc(call->arena, (4 * path.len + 2) / 3 + 1);

    base64url_encode(path, text);
    json_string(json, "next_cursor", text);
}

static bool write_list(struct call *call, const struct files_query *query, struct listing *listing,
                       const struct node_entry *folder, struct error *err)
{
    struct json_writer *json = listing->json;

    json_open(json, NULL);
    json_open_list(json, "entries");
    if (!list_folder(listing, query->path, folder, 0, err))
        return false;
    json_close_list(json);
    json_string(json, "version_id", listing->files->version_id);
    if (listing->has_more)
        write_next(call, json, listing->last);
    json_close(json);
    return json_end(json, err);
}

static bool list_live(struct call *call, const struct files_query *query,
                      const struct listing *listing, struct response *res, struct error *err)
{
    const struct files_page page = {listing->glob, listing->after, listing->left};

    if (listing->is_recursive)
        return error_set(err, ERR_INVALID, "what is live is listed one directory at a time");
    return files_live_list(call, query, &page, res, err);
}

bool files_list_get(struct call *call, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    AUTO_FILES files = NULL;
    const struct node_entry *folder;
    struct files_query query;
    struct listing listing = {.json = &json};

    if (!files_query_read(call, &query, err) || !read_listing(call, &listing, err))
        return false;
    if (query.source == FILES_LIVE)
        return list_live(call, &query, &listing, res, err);
    if (!files_open_version(call, &query, &files, err) ||
        !files_find_kind(files, query.path, TREE_DIRECTORY, &folder, err))
        return false;
    listing.files = files;
    bool fine = write_list(call, &query, &listing, folder, err);
    arena_finish(&listing.arena);
    response_json(res, 200);
    return fine;
}

bool files_stat_get(struct call *call, struct response *res, struct error *err)
{
    struct json_writer json = json_begin(response_body(res));
    const struct node_entry *entry;
    struct files_query query;
    AUTO_FILES files = NULL;

    if (!files_query_read(call, &query, err))
        return false;
    if (query.source == FILES_LIVE)
        return files_live_stat(call, &query, res, err);
    if (!files_open_version(call, &query, &files, err) ||
        !files_find(files, query.path, &entry, err))
        return false;
    files_write_entry(&json, NULL, query.path, entry);
    response_json(res, 200);
    return json_end(&json, err);
}
