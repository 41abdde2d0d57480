#include "blob/tree_stream.h"

#include <stdlib.h>

#include "base/own.h"

/* One level of the tree. */
struct tree_stream_folder {
    struct tree_stream_folder *parent;
    struct arena arena;
    struct node node;
    size_t next;
    size_t path_len; /* of the stream's path while here */
};

void tree_stream_init(struct tree_stream *stream, struct tree_reader *reader)
{
    *stream = (struct tree_stream){.reader = reader, .path = {.max = TREE_PATH_MAX}};
}

static void leave_folder(struct tree_stream *stream)
{
    struct tree_stream_folder *folder = stream->folder;

    stream->folder = folder->parent;
    arena_finish(&folder->arena);
    free(folder);
}

void tree_stream_finish(struct tree_stream *stream)
{
    while (stream->folder)
        leave_folder(stream);
    buf_finish(&stream->path);
    map_finish(&stream->groups);
}

static bool enter_folder(struct tree_stream *stream, const struct node_chunk *chunks, size_t n,
                         struct error *err)
{
    struct tree_stream_folder *folder = alloc(sizeof *folder);

    *folder = (struct tree_stream_folder){
        .parent = stream->folder,
        .path_len = stream->path.len,
    };
    stream->folder = folder;
    return tree_reader_node(stream->reader, chunks, n, &folder->arena, &folder->node, err);
}

static bool set_path(struct tree_stream *stream, struct str name, struct error *err)
{
    stream->path.len = stream->folder->path_len;
    return (stream->path.len == 0 || buf_append(&stream->path, STR("/"), err)) &&
           buf_append(&stream->path, name, err);
}

/* In a stream groups are numbered as they appear; in a tree that was edited they may be any
 * numbers. The first name of a group carries the contents. */
static uint64_t number_of(struct tree_stream *stream, uint64_t group, bool *is_linked)
{
    struct str key = {(const char *)&group, sizeof group};

    *is_linked = false;
    if (group == 0)
        return 0;
    uintptr_t known = (uintptr_t)map_find(&stream->groups, key);
    *is_linked = known != 0;
    if (known == 0) {
        known = (uintptr_t)++stream->n_groups;
        map_put(&stream->groups, key, (void *)known);
    }
    return known;
}

static bool put_entry(struct tree_stream *stream, const struct node_entry *entry, struct buf *out,
                      struct error *err)
{
    const struct str none = {0};
    bool is_linked;
    uint64_t group = number_of(stream, entry->link_group, &is_linked);
    const struct tree_entry given = {
        .kind = entry->kind,
        .path = buf_str(&stream->path),
        .mode = entry->mode,
        .uid = entry->uid,
        .gid = entry->gid,
        .mtime_ns = entry->mtime_ns,
        .size = is_linked ? 0 : entry->size,
        .target = entry->target,
        .xattrs = is_linked ? none : entry->xattrs,
        .link_group = group,
        .is_linked = is_linked,
        .is_opaque = entry->is_opaque,
        .is_cover = entry->is_cover,
    };

    if (!tree_encode_entry(out, &given, err))
        return false;
    if (entry->kind == TREE_DIRECTORY)
        return enter_folder(stream, entry->chunks, entry->n_chunks, err);
    if (entry->kind == TREE_FILE && !is_linked) {
        stream->chunks = entry->chunks;
        stream->n_chunks = entry->n_chunks;
    }
    return true;
}

static bool put_chunk(struct tree_stream *stream, struct buf *out, struct error *err)
{
    struct str bytes = {0};

    if (!tree_reader_chunk(stream->reader, stream->chunks, &bytes, err))
        return false;
    stream->chunks++;
    stream->n_chunks--;
    return buf_append(out, bytes, err);
}

bool tree_stream_step(struct tree_stream *stream, struct buf *out, struct error *err)
{
    if (!stream->has_begun) {
        stream->has_begun = true;
        return tree_encode_start(out, err) &&
               enter_folder(stream, stream->reader->root, stream->reader->n_root, err);
    }
    if (stream->n_chunks > 0)
        return put_chunk(stream, out, err);
    while (stream->folder && stream->folder->next == stream->folder->node.n)
        leave_folder(stream);
    if (!stream->folder) {
        stream->is_done = true;
        return tree_encode_finish(out, err);
    }
    const struct node_entry *entry = &stream->folder->node.entries[stream->folder->next++];
    return set_path(stream, entry->name, err) && put_entry(stream, entry, out, err);
}
