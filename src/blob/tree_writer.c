#include "blob/tree_writer.h"

#include <string.h>

#include "base/encode.h"
#include "base/own.h"
#include "blob/bytes.h"

enum { LOOSE_HEAD = NODE_CHUNK_LEN };

/* A list that grows. */
struct chunks {
    struct node_chunk *items;
    size_t n, room;
};

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
    struct tree_plan plan;
    struct chunk_key key;
    struct chunker chunker;
    struct seal_writer seal;
    struct pack_writer pack;
    int pack_fd; /* -1: there is no pack under way */
    struct map known;
    struct buf loose; /* chunks while there are few */
    struct folder *top;
    size_t depth; /* of the top; the root has 0 */
    struct buf contents;
    struct blake2b hash;
    struct chunks chunks; /* of the file or node under way */
    struct arena arena;   /* of the groups */
    struct group *groups;
    size_t n_groups, groups_room;
    struct tree_object *objects;
    size_t n_objects, objects_room;
    uint64_t n_entries, n_bytes;
};

static struct str bytes_of(const uint8_t *bytes, size_t len)
{
    return (struct str){(const char *)bytes, len};
}

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
        .plan = *plan,
        .pack_fd = -1,
        .loose = {.max = MANIFEST_LOOSE_MAX},
        .contents = {.max = 2 * CHUNK_MAX + TREE_XATTRS_MAX},
    };
    chunk_key_init(&writer->key, &plan->keys->keys[0]);
    chunker_init(&writer->chunker, &writer->key, chunk_sizes_file);
    open_folder(writer);
    return writer;
}

void tree_writer_destroy(struct tree_writer *writer)
{
    if (!writer)
        return;
    while (writer->top)
        drop_folder(writer);
    pack_writer_finish(&writer->pack);
    if (writer->pack_fd >= 0)
        close(writer->pack_fd);
    seal_writer_finish(&writer->seal);
    chunk_key_finish(&writer->key);
    map_finish(&writer->known);
    buf_finish(&writer->loose);
    buf_finish(&writer->contents);
    arena_finish(&writer->arena);
    free(writer->chunks.items);
    free(writer->groups);
    free(writer->objects);
    free(writer);
}

static bool hand_over(struct tree_writer *writer, int fd, const struct seal_facts *facts,
                      struct error *err)
{
    struct tree_object object = {.size = facts->size};
    const struct object_backend *backend = writer->plan.backend;

    if (!backend->put(backend->arg, facts, fd, err))
        return false;
    if (writer->n_objects == writer->objects_room) {
        writer->objects_room = writer->objects_room ? 2 * writer->objects_room : 4;
        writer->objects =
            alloc_more(writer->objects, writer->objects_room * sizeof *writer->objects);
    }
    memcpy(object.digest, facts->digest, sizeof object.digest);
    writer->objects[writer->n_objects++] = object;
    return true;
}

static bool end_pack(struct tree_writer *writer, struct error *err)
{
    struct seal_facts facts;

    if (writer->pack_fd < 0)
        return true;
    bool fine = pack_writer_end(&writer->pack, &facts, err);
    AUTO_FD int fd = take_fd(&writer->pack_fd);
    return fine && hand_over(writer, fd, &facts, err);
}

static bool begin_pack(struct tree_writer *writer, struct error *err)
{
    struct seal_plan plan = {writer->plan.keys, SEAL_PACK};

    return object_draft(writer->plan.backend, &writer->pack_fd, err) &&
           pack_writer_begin(&writer->pack, &writer->seal, &plan, seal_sink_fd(&writer->pack_fd),
                             err);
}

static bool pack_chunk(struct tree_writer *writer, const struct node_chunk *chunk, struct str bytes,
                       struct error *err)
{
    if (writer->pack_fd >= 0 && pack_writer_is_full(&writer->pack) && !end_pack(writer, err))
        return false;
    return (writer->pack_fd >= 0 || begin_pack(writer, err)) &&
           pack_writer_add(&writer->pack, chunk->id, bytes, err);
}

static bool keep_loose(struct tree_writer *writer, const struct node_chunk *chunk, struct str bytes,
                       struct error *err)
{
    return node_chunks_encode(chunk, 1, &writer->loose, err) &&
           buf_append(&writer->loose, bytes, err);
}

/* There are too many by now. */
static bool pack_loose(struct tree_writer *writer, struct error *err)
{
    struct str rest = buf_str(&writer->loose);

    while (rest.len > 0) {
        struct node_chunk chunk;

        memcpy(chunk.id, rest.ptr, CHUNK_ID_LEN);
        chunk.len = get_u32((const uint8_t *)rest.ptr + CHUNK_ID_LEN);
        if (!pack_chunk(writer, &chunk, (struct str){rest.ptr + LOOSE_HEAD, chunk.len}, err))
            return false;
        rest = (struct str){rest.ptr + LOOSE_HEAD + chunk.len, rest.len - LOOSE_HEAD - chunk.len};
    }
    buf_finish(&writer->loose);
    return true;
}

static bool store_chunk(struct tree_writer *writer, const struct node_chunk *chunk,
                        struct str bytes, struct error *err)
{
    if (map_put(&writer->known, bytes_of(chunk->id, CHUNK_ID_LEN), writer))
        return true;
    bool has_packs = writer->pack_fd >= 0 || writer->n_objects > 0;
    if (!has_packs && writer->loose.len + LOOSE_HEAD + bytes.len <= MANIFEST_LOOSE_MAX)
        return keep_loose(writer, chunk, bytes, err);
    return (has_packs || pack_loose(writer, err)) && pack_chunk(writer, chunk, bytes, err);
}

/* Cuts chunks off the front, and leaves what may yet become a longer one unless that is all. */
static bool cut_chunks(struct tree_writer *writer, struct str *bytes, bool is_last,
                       struct error *err)
{
    struct chunks *list = &writer->chunks;

    while (bytes->len >= CHUNK_MAX || (is_last && bytes->len > 0)) {
        struct str piece = {bytes->ptr, chunker_cut(&writer->chunker, *bytes)};
        struct node_chunk chunk = {.len = (uint32_t)piece.len};

        chunk_id(&writer->key, piece, chunk.id);
        if (!store_chunk(writer, &chunk, piece, err))
            return false;
        if (list->n == list->room) {
            list->room = list->room ? 2 * list->room : 16;
            list->items = alloc_more(list->items, list->room * sizeof *list->items);
        }
        list->items[list->n++] = chunk;
        *bytes = (struct str){bytes->ptr + piece.len, bytes->len - piece.len};
    }
    return true;
}

/* The list so far, for whom it was made. */
static struct node_chunk *take_chunks(struct tree_writer *writer, struct arena *arena, size_t *n)
{
    *n = writer->chunks.n;
    struct node_chunk *copy = arena_array(arena, *n + 1, sizeof *copy);
    if (*n > 0)
        memcpy(copy, writer->chunks.items, *n * sizeof *copy);
    writer->chunks.n = 0;
    return copy;
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

static bool write_node(struct tree_writer *writer, const struct node *node, struct error *err)
{
    AUTO(buf_finish) struct buf bytes = {.max = NODE_BYTES_MAX};

    if (!node_encode(node, &bytes, err))
        return false;
    struct str rest = buf_str(&bytes);
    return cut_chunks(writer, &rest, true, err);
}

static bool close_folder(struct tree_writer *writer, struct error *err)
{
    struct folder *folder = writer->top;
    struct node_entry *entry = last_entry(folder->above);

    if (!write_node(writer, &folder->node, err))
        return false;
    node_digests(&folder->node, entry->digest, entry->root);
    entry->chunks = take_chunks(writer, &folder->above->arena, &entry->n_chunks);
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
    entry->chunks = take_chunks(writer, &writer->top->arena, &entry->n_chunks);
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
        if (!cut_chunks(writer, &rest, is_end, err))
            return false;
        buf_consume(&writer->contents, writer->contents.len - rest.len);
        bytes = (struct str){bytes.ptr + piece.len, bytes.len - piece.len};
    } while (bytes.len > 0);
    return !is_last || end_file(writer);
}

static bool write_manifest(struct tree_writer *writer, struct str root, struct tree_facts *facts,
                           struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    char(*packs)[SHA256_HEX] = arena_array(&arena, writer->n_objects + 1, SHA256_HEX);
    const struct manifest_fact texts[] = {
        {STR("tree_digest"), str_of(facts->tree_digest)},
        {STR("root_digest"), str_of(facts->root_digest)},
    };
    struct manifest manifest = {
        .kind = STR(TREE_MANIFEST_KIND),
        .packs = (const char(*)[SHA256_HEX])packs,
        .n_packs = writer->n_objects,
        .facts = texts,
        .n_facts = COUNT_OF(texts),
        .root = root,
        .loose = buf_str(&writer->loose),
    };
    struct seal_facts sealed;
    AUTO_FD int fd = -1;

    for (size_t i = 0; i < writer->n_objects; i++)
        memcpy(packs[i], writer->objects[i].digest, SHA256_HEX);
    if (!object_draft(writer->plan.backend, &fd, err) ||
        !manifest_write(&manifest, &writer->seal, writer->plan.keys, seal_sink_fd(&fd), &sealed,
                        err) ||
        !hand_over(writer, fd, &sealed, err))
        return false;
    memcpy(facts->manifest, sealed.digest, sizeof facts->manifest);
    return true;
}

static void digest_text(const uint8_t digest[BLAKE2B_LEN], char text[SHA256_HEX])
{
    hex_encode(bytes_of(digest, BLAKE2B_LEN), text);
}

bool tree_writer_end(struct tree_writer *writer, struct tree_facts *facts, struct error *err)
{
    AUTO(buf_finish) struct buf root = {.max = MANIFEST_ROOT_MAX};
    uint8_t tree_digest[BLAKE2B_LEN], root_digest[BLAKE2B_LEN];

    while (writer->depth > 0)
        if (!close_folder(writer, err))
            return false;
    if (!write_node(writer, &writer->top->node, err) || !end_pack(writer, err) ||
        !node_chunks_encode(writer->chunks.items, writer->chunks.n, &root, err))
        return false;
    node_digests(&writer->top->node, tree_digest, root_digest);
    *facts = (struct tree_facts){.n_entries = writer->n_entries, .n_bytes = writer->n_bytes};
    digest_text(tree_digest, facts->tree_digest);
    digest_text(root_digest, facts->root_digest);
    if (!write_manifest(writer, buf_str(&root), facts, err))
        return false;
    facts->objects = writer->objects;
    facts->n_objects = writer->n_objects;
    return true;
}
