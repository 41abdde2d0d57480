/* GET workspaces/:workspace/files/archive: a directory of a version as a tar stream.
 *
 * Entries come in the order of the tree, so the same version gives the same bytes. What a version
 * marks as gone is not in it.
 */
#include <stdlib.h>

#include "base/map.h"
#include "base/own.h"
#include "server/caller.h"
#include "server/files.h"
#include "server/handlers.h"
#include "server/tar_header.h"

enum { PIECE = 1024 * 1024 };

/* One level of the directory. */
struct folder {
    struct folder *above;
    struct arena arena;
    struct node node;
    size_t next;
    size_t path_len; /* of the archive's path while here */
};

struct archive_out {
    struct files *files; /* owned */
    struct caller_hold caller;
    struct folder *folder;
    struct buf path;
    const struct node_chunk *chunks; /* of the file whose contents are on their way */
    size_t n_chunks;
    uint64_t pad_after; /* its size, until its last block is whole */
    struct map groups;  /* the first name of each file with several */
    struct arena arena; /* of those */
    int depth;
    bool is_done;
};

static void leave(struct archive_out *out)
{
    struct folder *folder = out->folder;

    out->folder = folder->above;
    out->depth--;
    arena_finish(&folder->arena);
    free(folder);
}

static void release(void *state)
{
    struct archive_out *out = state;

    while (out->folder)
        leave(out);
    buf_finish(&out->path);
    map_finish(&out->groups);
    arena_finish(&out->arena);
    files_close(out->files);
    free(out);
}

static bool enter(struct archive_out *out, const struct node_entry *entry, struct error *err)
{
    struct folder *folder = alloc(sizeof *folder);

    *folder = (struct folder){.above = out->folder, .path_len = out->path.len};
    out->folder = folder;
    if (++out->depth > TREE_DEPTH_MAX + 1)
        return error_set(err, ERR_DAMAGED, "a stored tree is deeper than any workspace");
    return files_node(out->files, entry, &folder->arena, &folder->node, err);
}

static bool set_path(struct archive_out *out, struct str name, struct error *err)
{
    out->path.len = out->folder->path_len;
    return (out->path.len == 0 || buf_append(&out->path, STR("/"), err)) &&
           buf_append(&out->path, name, err);
}

/* The path that has the contents already; empty when this is the first of its group. */
static struct str first_name(struct archive_out *out, const struct node_entry *entry)
{
    struct str key = {(const char *)&entry->link_group, sizeof entry->link_group};

    if (entry->link_group == 0)
        return (struct str){0};
    const char *first = map_find(&out->groups, key);
    if (first)
        return str_of(first);
    map_put(&out->groups, key, arena_text(&out->arena, buf_str(&out->path)));
    return (struct str){0};
}

static bool put_entry(struct archive_out *out, const struct node_entry *entry, struct buf *bytes,
                      struct error *err)
{
    struct str link = first_name(out, entry);

    if (!tar_header_put(entry, buf_str(&out->path), link, bytes, err))
        return false;
    if (entry->kind == TREE_DIRECTORY)
        return enter(out, entry, err);
    if (entry->kind == TREE_FILE && link.len == 0) {
        out->chunks = entry->chunks;
        out->n_chunks = entry->n_chunks;
        out->pad_after = entry->size;
    }
    return true;
}

static bool put_chunk(struct archive_out *out, struct buf *bytes, struct error *err)
{
    struct str chunk = {0};

    if (!tree_reader_chunk(&out->files->reader, out->chunks, &chunk, err) ||
        !buf_append(bytes, chunk, err))
        return false;
    out->chunks++;
    out->n_chunks--;
    if (out->n_chunks > 0)
        return true;
    return tar_pad_put(out->pad_after, bytes, err);
}

static bool step(struct archive_out *out, struct buf *bytes, struct error *err)
{
    if (out->n_chunks > 0)
        return put_chunk(out, bytes, err);
    while (out->folder && out->folder->next == out->folder->node.n)
        leave(out);
    if (!out->folder) {
        out->is_done = true;
        return tar_end_put(bytes, err);
    }
    const struct node_entry *entry = &out->folder->node.entries[out->folder->next++];
    return entry->kind == TREE_WHITEOUT ||
           (set_path(out, entry->name, err) && put_entry(out, entry, bytes, err));
}

static bool pull(void *state, struct buf *bytes, bool *more, bool *over, struct error *err)
{
    struct archive_out *out = state;

    if (!caller_still_may(&out->caller))
        return error_set(err, ERR_FORBIDDEN, "the caller may not read files any more");
    while (!out->is_done && bytes->len < PIECE)
        if (!step(out, bytes, err))
            return false;
    *over = out->is_done;
    *more = !*over;
    return true;
}

/* The directory is read before the answer begins, so that most damage can be told as that. */
static bool answer(struct call *call, struct files **files, const struct node_entry *entry,
                   struct response *res, struct error *err)
{
    const char *version_id = arena_text(call->arena, str_of((*files)->version_id));
    struct archive_out *out = alloc(sizeof *out);

    *out = (struct archive_out){
        .files = TAKE(*files),
        .caller = caller_hold(call),
        .path = {.max = TREE_PATH_MAX},
    };
    const struct response_source source = {
        .content_type = "application/x-tar",
        .pull = pull,
        .release = release,
        .state = out,
    };
    if (!enter(out, entry, err)) {
        release(out);
        return false;
    }
    response_stream(res, &source);
    return response_header(res, "Helmr-Version-Id", str_of(version_id), err);
}

bool files_archive_get(struct call *call, struct response *res, struct error *err)
{
    const struct node_entry *entry;
    struct files_query query;
    AUTO_FILES files = NULL;

    if (!files_query_read(call, &query, err))
        return false;
    if (query.source == FILES_LIVE)
        return error_set(err, ERR_INVALID, "an archive is made of a version, not of what is live");
    return files_open_version(call, &query, &files, err) &&
           files_find_kind(files, query.path, TREE_DIRECTORY, &entry, err) &&
           answer(call, &files, entry, res, err);
}
