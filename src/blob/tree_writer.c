#include "blob/tree_writer.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

/* The directory of the base that is where a folder is. */
struct base_folder {
    bool is_known, is_there;
    struct node node;
};

/* A directory whose entries still come; its own entry is the last one of the folder above. */
struct folder {
    struct folder *above;
    struct arena arena;
    struct node node;
    size_t room;
    struct base_folder base;
};

/* Small files wait for others of their folder: hashes of many are made faster than of one. */
enum { GATHERED_FILES = 64, GATHERED_BYTES = 1 << 20, GATHERED_MAX = CHUNK_MAX };

/* A file that waits; its bytes are in the writer's. */
struct gathered {
    size_t entry; /* of the top folder */
    size_t at, len;
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
    struct tree_reader *base; /* or NULL */
    bool is_exact;            /* every chunk of it that is needed has to be said */
    struct folder *top;
    size_t depth;                  /* of the top; the root has 0 */
    struct buf contents;           /* of a large file: what is not cut yet */
    crypto_generichash_state hash; /* of it: BLAKE2b, faster than the one that guests have */
    struct buf gathered_bytes;
    struct gathered gathered[GATHERED_FILES];
    size_t n_gathered;
    bool is_gathering;  /* the last entry is a small file whose bytes come */
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
    /* The hash wants more than malloc gives. */
    struct tree_writer *writer = aligned_alloc(_Alignof(struct tree_writer), sizeof *writer);

    if (!writer)
        abort();
    *writer = (struct tree_writer){
        .store = tree_store_create(plan),
        .base = plan->base,
        .contents = {.max = 2 * CHUNK_MAX + TREE_XATTRS_MAX},
        .gathered_bytes = {.max = GATHERED_BYTES + GATHERED_MAX},
    };
    writer->is_exact = plan->base && tree_store_is_crowded(writer->store);
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
    buf_finish(&writer->gathered_bytes);
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

/* What waits is hashed and stored. */
static bool settle_files(struct tree_writer *writer, struct error *err)
{
    struct folder *folder = writer->top;
    struct tree_contents files[GATHERED_FILES];
    struct str texts[GATHERED_FILES];
    uint8_t digests[GATHERED_FILES][BLAKE2B_LEN];
    size_t n = writer->n_gathered;

    if (n == 0)
        return true;
    for (size_t i = 0; i < n; i++) {
        const struct gathered *file = &writer->gathered[i];
        texts[i] = (struct str){writer->gathered_bytes.bytes + file->at, file->len};
        files[i] = (struct tree_contents){.bytes = texts[i]};
    }
    chunk_digests(texts, n, digests);
    if (!tree_store_files(writer->store, files, n, &folder->arena, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct node_entry *entry = &folder->node.entries[writer->gathered[i].entry];
        memcpy(entry->digest, digests[i], BLAKE2B_LEN);
        entry->chunks = files[i].chunks;
        entry->n_chunks = files[i].n_chunks;
    }
    writer->n_gathered = 0;
    writer->gathered_bytes.len = 0;
    return true;
}

static bool close_folder(struct tree_writer *writer, struct error *err)
{
    struct folder *folder = writer->top;
    struct node_entry *entry = last_entry(folder->above);

    if (!settle_files(writer, err) || !tree_store_node(writer->store, &folder->node, err))
        return false;
    node_sum_up(&folder->node, entry);
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

static bool count(struct tree_writer *writer, uint64_t entries, uint64_t bytes, struct error *err)
{
    writer->n_entries += entries;
    writer->n_bytes += bytes;
    if (writer->n_entries > TREE_ENTRIES_MAX)
        return error_set(err, ERR_TOO_LARGE, "a tree holds at most %d entries", TREE_ENTRIES_MAX);
    return writer->n_bytes <= TREE_BYTES_MAX ||
           error_set(err, ERR_TOO_LARGE, "a tree holds at most 64 GiB");
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

static void note_group(struct tree_writer *writer, const struct node_entry *entry)
{
    /* The decoder numbers groups as they appear. */
    if (entry->link_group != writer->n_groups + 1)
        return;
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

/* --- what is the same as in the base --- */

static bool load_base(struct tree_writer *writer, struct folder *folder, struct error *err)
{
    struct base_folder *base = &folder->base;
    const struct node_chunk *chunks = writer->base->root;
    size_t n = writer->base->n_root;

    if (base->is_known)
        return true;
    base->is_known = base->is_there = true;
    if (folder->above) {
        if (!load_base(writer, folder->above, err))
            return false;
        const struct node_entry *entry =
            node_find(&folder->above->base.node, last_entry(folder->above)->name);
        base->is_there = entry && entry->kind == TREE_DIRECTORY;
        if (!base->is_there)
            return true;
        chunks = entry->chunks;
        n = entry->n_chunks;
    }
    return tree_reader_node(writer->base, chunks, n, &folder->arena, &base->node, err);
}

/* What it refers to is the arena's from then on. */
static struct node_entry *copy_entry(struct folder *folder, const struct node_entry *given)
{
    struct node_entry *entry = add_entry(folder);
    struct node_chunk *chunks =
        arena_array(&folder->arena, given->n_chunks + 1, sizeof *entry->chunks);

    *entry = *given;
    entry->name = arena_str(&folder->arena, given->name);
    entry->target = given->target.len ? arena_str(&folder->arena, given->target) : (struct str){0};
    entry->xattrs = given->xattrs.len ? arena_str(&folder->arena, given->xattrs) : (struct str){0};
    if (given->n_chunks > 0)
        memcpy(chunks, given->chunks, given->n_chunks * sizeof *chunks);
    entry->chunks = chunks;
    return entry;
}

static bool keep_folder(struct tree_writer *writer, const struct node_entry *given,
                        struct error *err);

/* Entry by entry: of a base that is folded, or that does not say what is in its directories. */
static bool keep_contents(struct tree_writer *writer, const struct node_entry *given,
                          struct error *err)
{
    struct node node;

    open_folder(writer);
    writer->depth++;
    if (writer->depth > TREE_DEPTH_MAX)
        return error_set(err, ERR_DAMAGED, "a stored tree is deeper than any");
    if (!tree_reader_node(writer->base, given->chunks, given->n_chunks, &writer->top->arena, &node,
                          err))
        return false;
    for (size_t i = 0; i < node.n; i++) {
        const struct node_entry *inside = &node.entries[i];
        if (!count(writer, 1, inside->size, err))
            return false;
        if (inside->kind == TREE_DIRECTORY) {
            if (!keep_folder(writer, copy_entry(writer->top, inside), err))
                return false;
            continue;
        }
        /* Whoever sees the files says that none of them has another name. */
        copy_entry(writer->top, inside)->link_group = 0;
        if (!tree_store_keep(writer->store, inside->chunks, inside->n_chunks, err))
            return false;
    }
    return close_folder(writer, err);
}

/* `given` is the last entry of the top. */
static bool keep_folder(struct tree_writer *writer, const struct node_entry *given,
                        struct error *err)
{
    if (!given->is_plain || writer->is_exact)
        return keep_contents(writer, given, err);
    return tree_store_keep_all(writer->store, err) &&
           count(writer, given->n_below, given->bytes_below, err);
}

static bool keep_file(struct tree_writer *writer, const struct tree_entry *given,
                      struct node_entry *entry, struct error *err)
{
    entry->link_group = given->link_group;
    if (given->is_linked)
        return link_entry(writer, entry, err);
    note_group(writer, entry);
    return count(writer, 0, entry->size, err) &&
           tree_store_keep(writer->store, entry->chunks, entry->n_chunks, err);
}

static bool keep_entry(struct tree_writer *writer, const struct tree_entry *given,
                       struct error *err)
{
    struct folder *folder = writer->top;
    const struct node_entry *before = NULL;
    int shown = given->path.len < 100 ? (int)given->path.len : 100;

    if (!writer->base)
        return error_set(err, ERR_INVALID, "there is nothing %.*s could be the same as", shown,
                         given->path.ptr);
    if (!load_base(writer, folder, err))
        return false;
    if (folder->base.is_there)
        before = node_find(&folder->base.node, name_of(given->path));
    if (!before || before->kind != given->kind)
        return error_set(err, ERR_INVALID, "%.*s was not there before", shown, given->path.ptr);
    struct node_entry *entry = copy_entry(folder, before);
    if (given->kind == TREE_DIRECTORY)
        return keep_folder(writer, entry, err);
    return given->kind != TREE_FILE || keep_file(writer, given, entry, err);
}

/* --- what comes --- */

bool tree_writer_entry(void *arg, const struct tree_entry *given, struct error *err)
{
    struct tree_writer *writer = arg;

    while (writer->depth > depth_of(given->path))
        if (!close_folder(writer, err))
            return false;
    if (!count(writer, 1, given->size, err))
        return false;
    if (given->kind == TREE_DIRECTORY && !settle_files(writer, err))
        return false;
    if (given->is_same)
        return keep_entry(writer, given, err);
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
    writer->is_gathering =
        given->kind == TREE_FILE && !given->link_group && given->size <= GATHERED_MAX;
    if (given->kind == TREE_FILE && !writer->is_gathering)
        crypto_generichash_init(&writer->hash, NULL, 0, BLAKE2B_LEN);
    if (given->kind == TREE_DIRECTORY) {
        open_folder(writer);
        writer->depth++;
    }
    return !given->is_linked || link_entry(writer, entry, err);
}

static void end_file(struct tree_writer *writer)
{
    struct node_entry *entry = last_entry(writer->top);

    crypto_generichash_final(&writer->hash, entry->digest, BLAKE2B_LEN);
    entry->chunks = tree_store_take(writer->store, &writer->top->arena, &entry->n_chunks);
    note_group(writer, entry);
}

static bool gather(struct tree_writer *writer, struct str bytes, bool is_last, struct error *err)
{
    size_t size = last_entry(writer->top)->size;

    if (bytes.len > 0 && !buf_append(&writer->gathered_bytes, bytes, err))
        return false;
    if (!is_last)
        return true;
    writer->gathered[writer->n_gathered++] = (struct gathered){
        .entry = writer->top->node.n - 1,
        .at = writer->gathered_bytes.len - size,
        .len = size,
    };
    return (writer->n_gathered < GATHERED_FILES && writer->gathered_bytes.len < GATHERED_BYTES) ||
           settle_files(writer, err);
}

bool tree_writer_bytes(void *arg, struct str bytes, bool is_last, struct error *err)
{
    struct tree_writer *writer = arg;

    if (writer->is_gathering)
        return gather(writer, bytes, is_last, err);
    crypto_generichash_update(&writer->hash, (const uint8_t *)bytes.ptr, bytes.len);
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
    if (is_last)
        end_file(writer);
    return true;
}

bool tree_writer_end(struct tree_writer *writer, struct tree_facts *facts, struct error *err)
{
    while (writer->depth > 0)
        if (!close_folder(writer, err))
            return false;
    if (!settle_files(writer, err))
        return false;
    *facts = (struct tree_facts){.n_entries = writer->n_entries, .n_bytes = writer->n_bytes};
    return tree_store_end(writer->store, &writer->top->node, facts, err);
}
