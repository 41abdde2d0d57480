#include "blob/tree_writer.h"

#include <string.h>

#include "base/own.h"

/* A directory whose entries still come; its own entry is the last one of the folder above. */
struct folder {
    struct folder *above;
    struct arena arena;
    struct node node;
    size_t room;
};

/* The contents of files with several names, known by their first. */
struct group {
    uint64_t size;
    uint8_t digest[BLAKE2B_LEN];
    struct node_chunk *chunks;
    size_t n_chunks;
};

struct tree_writer {
    struct tree_store *store;
    struct folder *top;
    size_t depth; /* of the top; the root has 0 */
    struct buf contents;
    struct blake2b hash;
    struct arena arena; /* of the groups */
    struct group *groups;
    size_t n_groups, groups_room;
    uint64_t n_entries, n_bytes;
};

static void open_folder(struct tree_writer *writer)
{
    struct folder *folder = alloc(sizeof *folder);

    *folder = (struct folder){.above = writer->top};
    writer->top = folder;
}

static void drop_folder(struct tree_writer *writer)
{
    struct folder *folder = writer->top;

    writer->top = folder->above;
    arena_finish(&folder->arena);
    free(folder->node.entries);
    free(folder);
}

struct tree_writer *tree_writer_create(const struct tree_plan *plan)
{
    struct tree_writer *writer = alloc(sizeof *writer);

    *writer = (struct tree_writer){
        .store = tree_store_create(plan),
        .contents = {.max = 2 * CHUNK_MAX + TREE_XATTRS_MAX},
    };
    open_folder(writer);
    return writer;
}

void tree_writer_destroy(struct tree_writer *writer)
{
    if (!writer)
        return;
    while (writer->top)
        drop_folder(writer);
    tree_store_destroy(writer->store);
    buf_finish(&writer->contents);
    arena_finish(&writer->arena);
    free(writer->groups);
    free(writer);
}

static struct node_entry *add_entry(struct folder *folder)
{
    if (folder->node.n == folder->room) {
        folder->room = folder->room ? 2 * folder->room : 8;
        folder->node.entries =
            alloc_more(folder->node.entries, folder->room * sizeof *folder->node.entries);
    }
    return &folder->node.entries[folder->node.n++];
}

static struct node_entry *last_entry(const struct folder *folder)
{
    return &folder->node.entries[folder->node.n - 1];
}

static bool close_folder(struct tree_writer *writer, struct error *err)
{
    struct folder *folder = writer->top;
    struct node_entry *entry = last_entry(folder->above);

    if (!tree_store_node(writer->store, &folder->node, err))
        return false;
    node_digests(&folder->node, entry->digest, entry->root);
    entry->chunks = tree_store_take(writer->store, &folder->above->arena, &entry->n_chunks);
    drop_folder(writer);
    writer->depth--;
    return true;
}

static size_t depth_of(struct str path)
{
    size_t depth = 0;

    for (size_t i = 0; i < path.len; i++)
        depth += path.ptr[i] == '/';
    return depth;
}

static struct str name_of(struct str path)
{
    const char *slash = memrchr(path.ptr, '/', path.len);
    const char *name = slash ? slash + 1 : path.ptr;

    return (struct str){name, (size_t)(path.ptr + path.len - name)};
}

/* Another name of a file that came before has what that one has. */
static bool link_entry(struct tree_writer *writer, struct node_entry *entry, struct error *err)
{
    if (entry->link_group > writer->n_groups)
        return error_set(err, ERR_INVALID, "%.*s is linked to nothing", (int)entry->name.len,
                         entry->name.ptr);
    const struct group *group = &writer->groups[entry->link_group - 1];
    entry->size = group->size;
    memcpy(entry->digest, group->digest, sizeof entry->digest);
    entry->chunks = group->chunks;
    entry->n_chunks = group->n_chunks;
    return true;
}

bool tree_writer_entry(void *arg, const struct tree_entry *given, struct error *err)
{
    struct tree_writer *writer = arg;

    while (writer->depth > depth_of(given->path))
        if (!close_folder(writer, err))
            return false;
    struct folder *folder = writer->top;
    struct node_entry *entry = add_entry(folder);
    *entry = (struct node_entry){
        .name = arena_str(&folder->arena, name_of(given->path)),
        .kind = given->kind,
        .mode = given->mode,
        .uid = given->uid,
        .gid = given->gid,
        .mtime_ns = given->mtime_ns,
        .size = given->size,
        .link_group = given->link_group,
        .target = given->target.len ? arena_str(&folder->arena, given->target) : (struct str){0},
        .xattrs = given->xattrs.len ? arena_str(&folder->arena, given->xattrs) : (struct str){0},
        .is_opaque = given->is_opaque,
        .is_cover = given->is_cover,
    };
    writer->n_entries++;
    writer->n_bytes += given->size;
    blake2b_init(&writer->hash, (struct str){0});
    if (given->kind == TREE_DIRECTORY) {
        open_folder(writer);
        writer->depth++;
    }
    return !given->is_linked || link_entry(writer, entry, err);
}

static void note_group(struct tree_writer *writer, const struct node_entry *entry)
{
    if (writer->n_groups == writer->groups_room) {
        writer->groups_room = writer->groups_room ? 2 * writer->groups_room : 8;
        writer->groups = alloc_more(writer->groups, writer->groups_room * sizeof *writer->groups);
    }
    struct group *group = &writer->groups[writer->n_groups++];
    group->size = entry->size;
    memcpy(group->digest, entry->digest, sizeof group->digest);
    group->n_chunks = entry->n_chunks;
    group->chunks = arena_array(&writer->arena, entry->n_chunks + 1, sizeof *group->chunks);
    if (entry->n_chunks > 0)
        memcpy(group->chunks, entry->chunks, entry->n_chunks * sizeof *group->chunks);
}

static bool end_file(struct tree_writer *writer)
{
    struct node_entry *entry = last_entry(writer->top);

    blake2b_final(&writer->hash, entry->digest);
    entry->chunks = tree_store_take(writer->store, &writer->top->arena, &entry->n_chunks);
    /* The decoder numbers groups as they appear. */
    if (entry->link_group == writer->n_groups + 1)
        note_group(writer, entry);
    return true;
}

bool tree_writer_bytes(void *arg, struct str bytes, bool is_last, struct error *err)
{
    struct tree_writer *writer = arg;

    blake2b_update(&writer->hash, bytes);
    do {
        struct str piece = {bytes.ptr, bytes.len < CHUNK_MAX ? bytes.len : CHUNK_MAX};
        bool is_end = is_last && piece.len == bytes.len;

        if (piece.len > 0 && !buf_append(&writer->contents, piece, err))
            return false;
        struct str rest = buf_str(&writer->contents);
        if (!tree_store_cut(writer->store, &rest, is_end, err))
            return false;
        buf_consume(&writer->contents, writer->contents.len - rest.len);
        bytes = (struct str){bytes.ptr + piece.len, bytes.len - piece.len};
    } while (bytes.len > 0);
    return !is_last || end_file(writer);
}

bool tree_writer_end(struct tree_writer *writer, struct tree_facts *facts, struct error *err)
{
    while (writer->depth > 0)
        if (!close_folder(writer, err))
            return false;
    *facts = (struct tree_facts){.n_entries = writer->n_entries, .n_bytes = writer->n_bytes};
    return tree_store_end(writer->store, &writer->top->node, facts, err);
}
