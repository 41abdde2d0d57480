#include "blob/node.h"

#include <string.h>

#include "blob/bytes.h"

enum { FLAG_OPAQUE = 1, FLAG_COVER = 2, FLAG_PLAIN = 4, COUNT_LEN = 4 };

/* Where the fields of an entry's head are. A plain directory has what is below it, bytes and
 * entries, where a file has its size and group. */
enum {
    AT_NAME_LEN = 0,
    AT_KIND = 2,
    AT_FLAGS = 3,
    AT_MODE = 4,
    AT_UID = 8,
    AT_GID = 12,
    AT_MTIME = 16,
    AT_SIZE = 24,
    AT_GROUP = 32,
    AT_XATTRS_LEN = 40,
    AT_TARGET_LEN = 44,
    AT_CHUNKS = 48,
    HEAD_LEN = 52,
};

static struct str bytes_of(const uint8_t *bytes, size_t len)
{
    return (struct str){(const char *)bytes, len};
}

/* How many digests follow an entry of that kind. */
static size_t digests_of(enum tree_kind kind)
{
    if (kind == TREE_DIRECTORY)
        return 2;
    return kind == TREE_FILE ? 1 : 0;
}

static void head_of(const struct node_entry *entry, uint8_t head[HEAD_LEN])
{
    memset(head, 0, HEAD_LEN);
    head[AT_NAME_LEN] = (uint8_t)entry->name.len;
    head[AT_KIND] = (uint8_t)entry->kind;
    head[AT_FLAGS] =
        (uint8_t)((entry->is_opaque ? FLAG_OPAQUE : 0) | (entry->is_cover ? FLAG_COVER : 0) |
                  (entry->is_plain ? FLAG_PLAIN : 0));
    put_u32(head + AT_MODE, entry->mode);
    put_u32(head + AT_UID, entry->uid);
    put_u32(head + AT_GID, entry->gid);
    put_u64(head + AT_MTIME, (uint64_t)entry->mtime_ns);
    put_u64(head + AT_SIZE, entry->is_plain ? entry->bytes_below : entry->size);
    put_u64(head + AT_GROUP, entry->is_plain ? entry->n_below : entry->link_group);
    put_u32(head + AT_XATTRS_LEN, (uint32_t)entry->xattrs.len);
    put_u32(head + AT_TARGET_LEN, (uint32_t)entry->target.len);
    put_u32(head + AT_CHUNKS, (uint32_t)entry->n_chunks);
}

/* The head says all lengths, so no two nodes are the same bytes. How contents are cut is no part
 * of what they are. */
static void add_entry(struct blake2b *hash, const struct node_entry *entry, bool is_whole)
{
    struct node_entry shown = *entry;
    uint8_t head[HEAD_LEN];

    shown.n_chunks = 0;
    shown.is_cover = shown.is_plain = false;
    if (!is_whole) {
        shown.mtime_ns = 0;
        shown.link_group = 0;
    }
    head_of(&shown, head);
    blake2b_update(hash, bytes_of(head, sizeof head));
    blake2b_update(hash, entry->name);
    blake2b_update(hash, entry->target);
    blake2b_update(hash, entry->xattrs);
    if (entry->kind == TREE_FILE || (entry->kind == TREE_DIRECTORY && !is_whole))
        blake2b_update(hash, bytes_of(entry->digest, sizeof entry->digest));
    else if (entry->kind == TREE_DIRECTORY)
        blake2b_update(hash, bytes_of(entry->root, sizeof entry->root));
}

static void make_digests(const struct node *node, uint8_t tree[BLAKE2B_LEN],
                         uint8_t root[BLAKE2B_LEN])
{
    struct blake2b content, whole;

    blake2b_init(&content, STR("helmr tree"));
    blake2b_init(&whole, STR("helmr root"));
    for (size_t i = 0; i < node->n; i++) {
        add_entry(&content, &node->entries[i], false);
        add_entry(&whole, &node->entries[i], true);
    }
    blake2b_final(&content, tree);
    blake2b_final(&whole, root);
}

void node_sum_up(const struct node *node, struct node_entry *entry)
{
    make_digests(node, entry->digest, entry->root);
    entry->is_plain = true;
    entry->n_below = entry->bytes_below = 0;
    for (size_t i = 0; i < node->n; i++) {
        const struct node_entry *inside = &node->entries[i];
        bool is_folder = inside->kind == TREE_DIRECTORY;

        entry->is_plain =
            entry->is_plain && !inside->link_group && (!is_folder || inside->is_plain);
        entry->n_below += 1 + (is_folder ? inside->n_below : 0);
        entry->bytes_below += is_folder ? inside->bytes_below : inside->size;
    }
}

static int order_names(struct str a, struct str b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

    return order ? order : (a.len > b.len) - (a.len < b.len);
}

const struct node_entry *node_find(const struct node *node, struct str name)
{
    size_t from = 0, to = node->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = order_names(node->entries[middle].name, name);
        if (order == 0)
            return &node->entries[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

bool node_chunks_encode(const struct node_chunk *chunks, size_t n, struct buf *out,
                        struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t bytes[NODE_CHUNK_LEN];
        memcpy(bytes, chunks[i].id, CHUNK_ID_LEN);
        put_u32(bytes + CHUNK_ID_LEN, chunks[i].len);
        if (!buf_append(out, bytes_of(bytes, sizeof bytes), err))
            return false;
    }
    return true;
}

static bool encode_entry(const struct node_entry *entry, struct buf *out, struct error *err)
{
    uint8_t head[HEAD_LEN];
    size_t n_digests = digests_of(entry->kind);

    if (entry->name.len > TREE_NAME_MAX || entry->n_chunks > NODE_BYTES_MAX / NODE_CHUNK_LEN)
        return error_set(err, ERR_TOO_LARGE, "an entry of a tree is too large");
    head_of(entry, head);
    return buf_append(out, bytes_of(head, sizeof head), err) && buf_append(out, entry->name, err) &&
           (!entry->target.len || buf_append(out, entry->target, err)) &&
           (!entry->xattrs.len || buf_append(out, entry->xattrs, err)) &&
           (n_digests < 1 || buf_append(out, bytes_of(entry->digest, BLAKE2B_LEN), err)) &&
           (n_digests < 2 || buf_append(out, bytes_of(entry->root, BLAKE2B_LEN), err)) &&
           node_chunks_encode(entry->chunks, entry->n_chunks, out, err);
}

bool node_encode(const struct node *node, struct buf *out, struct error *err)
{
    uint8_t count[COUNT_LEN];

    put_u32(count, (uint32_t)node->n);
    if (!buf_append(out, bytes_of(count, sizeof count), err))
        return false;
    for (size_t i = 0; i < node->n; i++)
        if (!encode_entry(&node->entries[i], out, err))
            return false;
    return true;
}

static bool damaged(struct error *err)
{
    error_set(err, ERR_DAMAGED, "a directory of a stored tree is damaged");
    return false;
}

static bool take(struct str *rest, size_t len, struct str *piece, struct error *err)
{
    if (rest->len < len || !rest->ptr)
        return damaged(err);
    *piece = (struct str){rest->ptr, len};
    rest->ptr += len;
    rest->len -= len;
    return true;
}

bool node_chunks_decode(struct str bytes, struct arena *arena, const struct node_chunk **chunks,
                        size_t *n, struct error *err)
{
    size_t count = bytes.len / NODE_CHUNK_LEN;

    if (bytes.len % NODE_CHUNK_LEN != 0 || !bytes.ptr)
        return damaged(err);
    struct node_chunk *list = arena_array(arena, count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *at = (const uint8_t *)bytes.ptr + i * NODE_CHUNK_LEN;
        memcpy(list[i].id, at, CHUNK_ID_LEN);
        list[i].len = get_u32(at + CHUNK_ID_LEN);
        if (list[i].len == 0 || list[i].len > CHUNK_MAX)
            return damaged(err);
    }
    *chunks = list;
    *n = count;
    return true;
}

static bool name_is_fine(struct str name)
{
    return name.len > 0 && !memchr(name.ptr, '\0', name.len) && !memchr(name.ptr, '/', name.len) &&
           !str_equal(name, STR(".")) && !str_equal(name, STR(".."));
}

static bool entry_is_sound(const struct node_entry *entry)
{
    uint64_t len = 0;

    for (size_t i = 0; i < entry->n_chunks; i++)
        len += entry->chunks[i].len;
    if (entry->kind < TREE_FILE || entry->kind > TREE_WHITEOUT || !name_is_fine(entry->name) ||
        entry->mode & ~07777u)
        return false;
    if (entry->is_plain && (entry->kind != TREE_DIRECTORY || entry->n_below > TREE_ENTRIES_MAX ||
                            entry->bytes_below > TREE_BYTES_MAX))
        return false;
    if (entry->kind == TREE_FILE)
        return len == entry->size && entry->target.len == 0 && !entry->is_opaque;
    if (entry->size || entry->link_group || (entry->is_opaque && entry->kind != TREE_DIRECTORY))
        return false;
    return (entry->kind == TREE_DIRECTORY) == (len > 0) &&
           (entry->kind == TREE_SYMLINK) == (entry->target.len > 0);
}

static bool decode_parts(const uint8_t *head, struct str *rest, struct arena *arena,
                         struct node_entry *entry, struct error *err)
{
    size_t n_digests = digests_of(entry->kind), n_chunks = get_u32(head + AT_CHUNKS);
    struct str digests = {0}, chunks = {0};

    if (!take(rest, head[AT_NAME_LEN], &entry->name, err) ||
        !take(rest, get_u32(head + AT_TARGET_LEN), &entry->target, err) ||
        !take(rest, get_u32(head + AT_XATTRS_LEN), &entry->xattrs, err) ||
        !take(rest, n_digests * BLAKE2B_LEN, &digests, err) ||
        !take(rest, n_chunks * NODE_CHUNK_LEN, &chunks, err) ||
        !node_chunks_decode(chunks, arena, &entry->chunks, &entry->n_chunks, err))
        return false;
    if (n_digests > 0)
        memcpy(entry->digest, digests.ptr, BLAKE2B_LEN);
    if (n_digests > 1)
        memcpy(entry->root, digests.ptr + BLAKE2B_LEN, BLAKE2B_LEN);
    return entry_is_sound(entry) || damaged(err);
}

static bool decode_entry(struct str *rest, struct arena *arena, struct node_entry *entry,
                         struct error *err)
{
    struct str piece = {0};

    if (!take(rest, HEAD_LEN, &piece, err))
        return false;
    const uint8_t *head = (const uint8_t *)piece.ptr;
    if (head[AT_NAME_LEN + 1] || head[AT_FLAGS] & ~(FLAG_OPAQUE | FLAG_COVER | FLAG_PLAIN))
        return damaged(err);
    bool is_plain = head[AT_FLAGS] & FLAG_PLAIN;
    uint64_t size = get_u64(head + AT_SIZE), group = get_u64(head + AT_GROUP);
    *entry = (struct node_entry){
        .kind = (enum tree_kind)head[AT_KIND],
        .mode = get_u32(head + AT_MODE),
        .uid = get_u32(head + AT_UID),
        .gid = get_u32(head + AT_GID),
        .mtime_ns = (int64_t)get_u64(head + AT_MTIME),
        .size = is_plain ? 0 : size,
        .link_group = is_plain ? 0 : group,
        .is_plain = is_plain,
        .bytes_below = is_plain ? size : 0,
        .n_below = is_plain ? group : 0,
        .is_opaque = head[AT_FLAGS] & FLAG_OPAQUE,
        .is_cover = head[AT_FLAGS] & FLAG_COVER,
    };
    return decode_parts(head, rest, arena, entry, err);
}

bool node_decode(struct str bytes, struct arena *arena, struct node *node, struct error *err)
{
    struct str rest = bytes, piece = {0};

    if (!bytes.ptr || !take(&rest, COUNT_LEN, &piece, err))
        return damaged(err);
    size_t n = get_u32((const uint8_t *)piece.ptr);
    if (n > rest.len / HEAD_LEN)
        return damaged(err);
    struct node_entry *entries = arena_array(arena, n + 1, sizeof *entries);
    for (size_t i = 0; i < n; i++) {
        if (!decode_entry(&rest, arena, &entries[i], err))
            return false;
        if (i > 0 && order_names(entries[i - 1].name, entries[i].name) >= 0)
            return damaged(err);
    }
    if (rest.len > 0)
        return damaged(err);
    *node = (struct node){entries, n};
    return true;
}
