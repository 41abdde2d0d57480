#include "blob/tree_store.h"

#include <string.h>

#include "base/encode.h"
#include "base/map.h"
#include "base/own.h"
#include "blob/shipping.h"

enum {
    LEVEL = 1, /* of zstd: more takes more time than everything else together */
    LOOSE_HEAD = NODE_CHUNK_LEN,
    NODE_RECORD = 64 << 10, /* raw bytes: directories are read one by one */
    NODES_LOOSE = 64 << 10, /* as many stay in the manifest even of a tree that has packs */
    IDS_AT_ONCE = 16,
};

/* A list that grows. */
struct chunks {
    struct node_chunk *items;
    size_t n, room;
};

/* A pack of the base. */
struct base_pack {
    bool is_needed;
    struct chunks live; /* of a small one: what is needed of it */
};

struct tree_store {
    struct tree_plan plan;
    struct chunk_key key;
    struct chunker chunker;
    struct parcel *files, *nodes; /* that are being filled, or NULL */
    struct shipping *shipping;    /* NULL: nothing is put beside */
    struct map known;
    struct buf loose;     /* chunks while there are few */
    struct chunks chunks; /* that were cut and not taken yet */
    struct base_pack *base;
    size_t n_base;
    bool keeps_all;
    bool is_packing; /* there are too many chunks for the manifest */
    struct tree_object *objects;
    size_t n_objects, objects_room;
    uint64_t bytes_new;
};

static struct str bytes_of(const uint8_t *bytes, size_t len)
{
    return (struct str){(const char *)bytes, len};
}

static void add_chunk(struct chunks *list, const struct node_chunk *chunk)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 16;
        list->items = alloc_more(list->items, list->room * sizeof *list->items);
    }
    list->items[list->n++] = *chunk;
}

struct tree_store *tree_store_create(const struct tree_plan *plan)
{
    struct tree_store *store = alloc(sizeof *store);

    *store = (struct tree_store){
        .plan = *plan,
        .shipping = plan->beside ? shipping_create(plan->beside) : NULL,
        .loose = {.max = MANIFEST_LOOSE_MAX},
    };
    chunk_key_init(&store->key, &plan->keys->keys[0]);
    chunker_init(&store->chunker, &store->key, chunk_sizes_file);
    if (plan->base) {
        store->n_base = plan->base->manifest.n_packs;
        store->base = alloc((store->n_base + 1) * sizeof *store->base);
        memset(store->base, 0, (store->n_base + 1) * sizeof *store->base);
    }
    return store;
}

void tree_store_destroy(struct tree_store *store)
{
    if (!store)
        return;
    shipping_destroy(store->shipping);
    parcel_destroy(store->files);
    parcel_destroy(store->nodes);
    chunk_key_finish(&store->key);
    map_finish(&store->known);
    buf_finish(&store->loose);
    free(store->chunks.items);
    for (size_t i = 0; i < store->n_base; i++)
        free(store->base[i].live.items);
    free(store->base);
    free(store->objects);
    free(store);
}

static void add_object(struct tree_store *store, const char *digest, uint64_t size)
{
    struct tree_object object = {.size = size};

    if (store->n_objects == store->objects_room) {
        store->objects_room = store->objects_room ? 2 * store->objects_room : 4;
        store->objects = alloc_more(store->objects, store->objects_room * sizeof *store->objects);
    }
    memcpy(object.digest, digest, sizeof object.digest);
    store->objects[store->n_objects++] = object;
}

static void note_object(struct tree_store *store, const struct seal_facts *facts)
{
    add_object(store, facts->digest, facts->size);
    store->bytes_new += facts->size;
}

static bool end_pack(struct tree_store *store, struct parcel **filled, struct error *err)
{
    struct parcel *parcel = TAKE(*filled);
    struct seal_facts facts;

    if (!parcel)
        return true;
    bool fine = parcel_put(parcel, store->plan.backend, &facts, err);
    parcel_destroy(parcel);
    if (fine)
        note_object(store, &facts);
    return fine;
}

static bool begin_pack(struct tree_store *store, struct parcel **filled, struct error *err)
{
    struct seal_plan plan = {store->plan.keys, SEAL_PACK, .level = LEVEL};
    struct parcel *parcel = *filled = parcel_create();

    parcel->pack.record_max = filled == &store->nodes ? NODE_RECORD : 0;
    return object_draft(store->plan.backend, &parcel->fd, err) &&
           pack_writer_begin(&parcel->pack, &parcel->seal, &plan, seal_sink_fd(&parcel->fd), err);
}

/* A full one makes room for the next. */
static bool change_pack(struct tree_store *store, struct parcel **filled, struct error *err)
{
    return store->shipping ? shipping_give(store->shipping, TAKE(*filled), err)
                           : end_pack(store, filled, err);
}

static bool pack_chunk(struct tree_store *store, struct parcel **filled,
                       const struct node_chunk *chunk, struct str bytes, struct error *err)
{
    if (*filled && pack_writer_is_full(&(*filled)->pack) && !change_pack(store, filled, err))
        return false;
    return (*filled || begin_pack(store, filled, err)) &&
           pack_writer_add(&(*filled)->pack, chunk->id, bytes, err);
}

/* Those that were put beside. */
static bool await_packs(struct tree_store *store, struct error *err)
{
    const struct seal_facts *facts;
    size_t n;

    if (!store->shipping)
        return true;
    if (!shipping_end(store->shipping, &facts, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        note_object(store, &facts[i]);
    shipping_destroy(TAKE(store->shipping));
    return true;
}

static bool keep_loose(struct tree_store *store, const struct node_chunk *chunk, struct str bytes,
                       struct error *err)
{
    return node_chunks_encode(chunk, 1, &store->loose, err) &&
           buf_append(&store->loose, bytes, err);
}

/* There are too many by now. */
static bool pack_loose(struct tree_store *store, struct error *err)
{
    struct str rest = buf_str(&store->loose), bytes;

    store->is_packing = true;
    for (struct node_chunk chunk; tree_loose_next(&rest, &chunk, &bytes);)
        if (!pack_chunk(store, &store->files, &chunk, bytes, err))
            return false;
    buf_finish(&store->loose);
    return true;
}

static bool put_chunk(struct tree_store *store, struct parcel **filled,
                      const struct node_chunk *chunk, struct str bytes, struct error *err)
{
    size_t len = store->loose.len + LOOSE_HEAD + bytes.len;
    size_t most = store->is_packing ? NODES_LOOSE : MANIFEST_LOOSE_MAX;

    if (map_put(&store->known, bytes_of(chunk->id, CHUNK_ID_LEN), store))
        return true;
    if ((!store->is_packing || filled == &store->nodes) && len <= most)
        return keep_loose(store, chunk, bytes, err);
    return (store->is_packing || pack_loose(store, err)) &&
           pack_chunk(store, filled, chunk, bytes, err);
}

/* What the base has in its manifest goes into this one. */
static bool keep_one(struct tree_store *store, const struct node_chunk *chunk, bool *found,
                     struct error *err)
{
    struct tree_reader *base = store->plan.base;
    struct str bytes;
    size_t pack;

    if (!tree_reader_locate(base, chunk, &pack, found, err) || !*found)
        return !*found;
    if (pack == TREE_LOOSE)
        return tree_reader_chunk(base, chunk, &bytes, err) &&
               put_chunk(store, &store->nodes, chunk, bytes, err);
    struct base_pack *known = &store->base[pack];
    known->is_needed = true;
    map_put(&store->known, bytes_of(chunk->id, CHUNK_ID_LEN), store);
    if (tree_reader_pack_size(base, pack) < TREE_PACK_SMALL)
        add_chunk(&known->live, chunk);
    return true;
}

bool tree_store_keep(struct tree_store *store, const struct node_chunk *chunks, size_t n,
                     struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        bool found;

        if (map_find(&store->known, bytes_of(chunks[i].id, CHUNK_ID_LEN)))
            continue;
        if (!keep_one(store, &chunks[i], &found, err))
            return false;
        if (!found)
            return error_set(err, ERR_DAMAGED, "a stored tree is damaged: a chunk is nowhere");
    }
    return true;
}

bool tree_store_keep_all(struct tree_store *store, struct error *err)
{
    struct str rest = store->plan.base->manifest.loose, bytes;

    if (store->keeps_all)
        return true;
    store->keeps_all = true;
    for (size_t i = 0; i < store->n_base; i++)
        store->base[i].is_needed = true;
    for (struct node_chunk chunk; tree_loose_next(&rest, &chunk, &bytes);)
        if (!put_chunk(store, &store->nodes, &chunk, bytes, err))
            return false;
    return rest.len == 0 ||
           error_set(err, ERR_DAMAGED, "a stored tree is damaged: its manifest is cut");
}

/* How many packs there were when all of them were known to be needed. */
static size_t packs_then(const struct tree_store *store)
{
    const struct manifest_fact *fact =
        store->plan.base ? manifest_fact_find(&store->plan.base->manifest, STR("packs")) : NULL;
    size_t n = 0;

    for (size_t i = 0; fact && i < fact->value.len && n < MANIFEST_PACKS_MAX; i++)
        n = n * 10 + (size_t)(fact->value.ptr[i] - '0') % 10;
    return n;
}

bool tree_store_is_crowded(const struct tree_store *store)
{
    size_t n = store->n_base + store->n_objects + (store->files != NULL) + (store->nodes != NULL);

    return n > TREE_PACKS_MAX && n > packs_then(store) + TREE_PACKS_MORE;
}

static bool store_chunk(struct tree_store *store, struct parcel **filled,
                        const struct node_chunk *chunk, struct str bytes, struct error *err)
{
    bool found = map_find(&store->known, bytes_of(chunk->id, CHUNK_ID_LEN));

    if (!found && store->plan.base && !keep_one(store, chunk, &found, err))
        return false;
    return found || put_chunk(store, filled, chunk, bytes, err);
}

static size_t cut_some(const struct tree_store *store, struct str *bytes, bool is_last,
                       struct str pieces[IDS_AT_ONCE])
{
    size_t n = 0;

    while (n < IDS_AT_ONCE && (bytes->len >= CHUNK_MAX || (is_last && bytes->len > 0))) {
        pieces[n] = (struct str){bytes->ptr, chunker_cut(&store->chunker, *bytes)};
        *bytes = (struct str){bytes->ptr + pieces[n].len, bytes->len - pieces[n].len};
        n++;
    }
    return n;
}

/* Into the list that tree_store_take empties. */
static bool store_cut(struct tree_store *store, struct parcel **filled, const struct str *pieces,
                      size_t n, struct error *err)
{
    uint8_t(*ids)[CHUNK_ID_LEN] = alloc((n + 1) * CHUNK_ID_LEN);
    bool fine = true;

    chunk_ids(&store->key, pieces, n, ids);
    for (size_t i = 0; i < n && fine; i++) {
        struct node_chunk chunk = {.len = (uint32_t)pieces[i].len};
        memcpy(chunk.id, ids[i], CHUNK_ID_LEN);
        fine = store_chunk(store, filled, &chunk, pieces[i], err);
        add_chunk(&store->chunks, &chunk);
    }
    free(ids);
    return fine;
}

static bool cut_into(struct tree_store *store, struct parcel **filled, struct str *bytes,
                     bool is_last, struct error *err)
{
    struct str pieces[IDS_AT_ONCE];

    for (size_t n; (n = cut_some(store, bytes, is_last, pieces)) > 0;)
        if (!store_cut(store, filled, pieces, n, err))
            return false;
    return true;
}

bool tree_store_cut(struct tree_store *store, struct str *bytes, bool is_last, struct error *err)
{
    return cut_into(store, &store->files, bytes, is_last, err);
}

bool tree_store_files(struct tree_store *store, struct tree_contents *files, size_t n,
                      struct arena *arena, struct error *err)
{
    AUTO_FREE struct str *pieces = NULL;
    size_t n_pieces = 0, room = 0;

    for (size_t i = 0; i < n; i++) {
        struct str rest = files[i].bytes;
        for (files[i].n_chunks = 0; rest.len > 0; files[i].n_chunks++) {
            if (n_pieces == room) {
                room = room ? 2 * room : 2 * n;
                pieces = alloc_more(pieces, room * sizeof *pieces);
            }
            struct str piece = {rest.ptr, chunker_cut(&store->chunker, rest)};
            pieces[n_pieces++] = piece;
            rest = (struct str){rest.ptr + piece.len, rest.len - piece.len};
        }
    }
    if (!store_cut(store, &store->files, pieces, n_pieces, err))
        return false;
    size_t n_all, at = 0;
    struct node_chunk *all = tree_store_take(store, arena, &n_all);
    for (size_t i = 0; i < n; i++) {
        files[i].chunks = all + at;
        at += files[i].n_chunks;
    }
    return true;
}

bool tree_store_node(struct tree_store *store, const struct node *node, struct error *err)
{
    AUTO(buf_finish) struct buf bytes = {.max = NODE_BYTES_MAX};

    if (!node_encode(node, &bytes, err))
        return false;
    struct str rest = buf_str(&bytes);
    return cut_into(store, &store->nodes, &rest, true, err);
}

struct node_chunk *tree_store_take(struct tree_store *store, struct arena *arena, size_t *n)
{
    *n = store->chunks.n;
    struct node_chunk *copy = arena_array(arena, *n + 1, sizeof *copy);
    if (*n > 0)
        memcpy(copy, store->chunks.items, *n * sizeof *copy);
    store->chunks.n = 0;
    return copy;
}

/* Moves what is needed of a small pack into one of ours. */
static bool move_pack(struct tree_store *store, struct base_pack *pack, struct error *err)
{
    for (size_t i = 0; i < pack->live.n; i++) {
        struct str bytes;

        if (!tree_reader_chunk(store->plan.base, &pack->live.items[i], &bytes, err) ||
            !pack_chunk(store, &store->files, &pack->live.items[i], bytes, err))
            return false;
    }
    pack->is_needed = false;
    return true;
}

/* Only when it is known what is needed. */
static bool fold(struct tree_store *store, struct error *err)
{
    size_t n = store->n_objects + (store->files != NULL) + (store->nodes != NULL);

    for (size_t i = 0; i < store->n_base; i++)
        n += store->base[i].is_needed;
    if (n <= TREE_PACKS_MAX || store->keeps_all)
        return true;
    for (size_t i = 0; i < store->n_base; i++)
        if (store->base[i].live.n > 0 && !move_pack(store, &store->base[i], err))
            return false;
    return true;
}

static void list_base(struct tree_store *store)
{
    for (size_t i = 0; i < store->n_base; i++)
        if (store->base[i].is_needed)
            add_object(store, store->plan.base->manifest.packs[i], 0);
}

static bool write_manifest(struct tree_store *store, struct str root, struct tree_facts *facts,
                           struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    char(*packs)[SHA256_HEX] = arena_array(&arena, store->n_objects + 1, SHA256_HEX);
    const char *n_packs =
        arena_printf(&arena, "%zu", store->keeps_all ? packs_then(store) : store->n_objects);
    const struct manifest_fact texts[] = {
        {STR("packs"),       str_of(n_packs)           },
        {STR("tree_digest"), str_of(facts->tree_digest)},
        {STR("root_digest"), str_of(facts->root_digest)},
    };
    struct manifest manifest = {
        .kind = STR(TREE_MANIFEST_KIND),
        .packs = (const char(*)[SHA256_HEX])packs,
        .n_packs = store->n_objects,
        .facts = texts,
        .n_facts = COUNT_OF(texts),
        .root = root,
        .loose = buf_str(&store->loose),
    };
    const struct object_backend *backend = store->plan.backend;
    AUTO(seal_writer_finish) struct seal_writer seal = {0};
    struct seal_facts sealed;
    AUTO_FD int fd = -1;

    for (size_t i = 0; i < store->n_objects; i++)
        memcpy(packs[i], store->objects[i].digest, SHA256_HEX);
    if (!object_draft(backend, &fd, err) ||
        !manifest_write(&manifest, &seal, store->plan.keys, seal_sink_fd(&fd), &sealed, err) ||
        !backend->put(backend->arg, &sealed, fd, err))
        return false;
    note_object(store, &sealed);
    memcpy(facts->manifest, sealed.digest, sizeof facts->manifest);
    return true;
}

bool tree_store_end(struct tree_store *store, const struct node *root, struct tree_facts *facts,
                    struct error *err)
{
    AUTO(buf_finish) struct buf chunks = {.max = MANIFEST_ROOT_MAX};
    struct node_entry sum = {0};

    if (!tree_store_node(store, root, err) || !await_packs(store, err) || !fold(store, err) ||
        !end_pack(store, &store->files, err) || !end_pack(store, &store->nodes, err) ||
        !node_chunks_encode(store->chunks.items, store->chunks.n, &chunks, err))
        return false;
    node_sum_up(root, &sum);
    hex_encode(bytes_of(sum.digest, BLAKE2B_LEN), facts->tree_digest);
    hex_encode(bytes_of(sum.root, BLAKE2B_LEN), facts->root_digest);
    facts->n_new = store->n_objects + 1;
    list_base(store);
    if (!write_manifest(store, buf_str(&chunks), facts, err))
        return false;
    facts->objects = store->objects;
    facts->n_objects = store->n_objects;
    facts->bytes_new = store->bytes_new;
    return true;
}
