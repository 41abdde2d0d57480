/* A folder's blocks: one block of entries, or a tree over blocks sorted by the hash of the names.
 */
#include <ext2fs/ext2fs.h>

#include "base/own.h"
#include "image/ext4_tree.h"

enum {
    HEAD = 8,       /* of an entry, before its name */
    DOTS = 12 + 12, /* "." and ".." */
    ROOT_ENTRIES = (EXT4_BLOCK - DOTS - sizeof(struct ext2_dx_root_info)) / 8,
    NODE_ENTRIES = (EXT4_BLOCK - HEAD) / 8,
};

struct hashed {
    const struct ext4_entry *entry;
    uint32_t hash, minor;
};

/* Blocks of entries in the order of their hashes, as the tree over them lists them. */
struct leaf {
    uint32_t hash;
    size_t first, n; /* of the hashed entries */
};

struct index {
    struct hashed *names;
    size_t n_names;
    struct leaf *leaves;
    size_t n_leaves, room;
};

static void index_finish(struct index *index)
{
    free(index->names);
    free(index->leaves);
}

static size_t entry_size(const char *name)
{
    return (HEAD + strlen(name) + 3) & ~(size_t)3;
}

static uint8_t type_of(uint16_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR: return EXT2_FT_DIR;
    case S_IFLNK: return EXT2_FT_SYMLINK;
    case S_IFIFO: return EXT2_FT_FIFO;
    default: return EXT2_FT_REG_FILE;
    }
}

static void put_entry(char *at, const char *name, uint32_t inode, uint8_t type, size_t size)
{
    struct ext2_dir_entry_2 *entry = (struct ext2_dir_entry_2 *)at;
    size_t len = strlen(name);

    entry->inode = inode;
    entry->rec_len = (uint16_t)size;
    entry->name_len = (uint8_t)len;
    entry->file_type = type;
    memcpy(entry->name, name, len);
}

/* `last` is the size of "..", which covers what follows it. */
static void put_dots(char *block, const struct ext4_node *folder, size_t last)
{
    const struct ext4_node *parent = folder->parent ? folder->parent : folder;

    put_entry(block, ".", folder->inode, EXT2_FT_DIR, 12);
    put_entry(block + 12, "..", parent->inode, EXT2_FT_DIR, last);
}

static bool write_small(struct ext4_out *out, const struct ext4_node *folder, struct error *err)
{
    char *block = ext4_out_room(out, EXT4_BLOCK, err);
    size_t at = DOTS;

    if (!block)
        return false;
    memset(block, 0, EXT4_BLOCK);
    put_dots(block, folder, folder->n_entries ? 12 : EXT4_BLOCK - 12);
    for (size_t i = 0; i < folder->n_entries; i++) {
        const struct ext4_entry *entry = &folder->entries[i];
        size_t size = i + 1 < folder->n_entries ? entry_size(entry->name) : EXT4_BLOCK - at;
        put_entry(block + at, entry->name, entry->node->inode, type_of(entry->node->mode), size);
        at += size;
    }
    ext4_out_add(out, EXT4_BLOCK);
    return true;
}

static int by_hash(const void *left, const void *right)
{
    const struct hashed *a = left, *b = right;

    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor < b->minor ? -1 : 1;
    return strcmp(a->entry->name, b->entry->name);
}

static bool hash_names(struct index *index, const struct ext4_node *folder, const uint32_t seed[4],
                       struct error *err)
{
    index->names = alloc(folder->n_entries * sizeof *index->names);
    index->n_names = folder->n_entries;
    for (size_t i = 0; i < folder->n_entries; i++) {
        struct hashed *name = &index->names[i];
        name->entry = &folder->entries[i];
        if (ext2fs_dirhash(EXT2_HASH_HALF_MD4_UNSIGNED, name->entry->name,
                           (int)strlen(name->entry->name), seed, &name->hash, &name->minor) != 0)
            return error_set(err, ERR_INTERNAL, "a name cannot be hashed");
    }
    qsort(index->names, index->n_names, sizeof *index->names, by_hash);
    return true;
}

/* Names of one hash in two blocks: the lowest bit tells a reader to go on to the next. */
static struct leaf *add_leaf(struct index *index, size_t first)
{
    const struct hashed *names = index->names;
    uint32_t hash = first ? names[first].hash : 0;

    if (first && names[first - 1].hash == hash)
        hash |= 1;
    if (index->n_leaves == index->room) {
        index->room = index->room ? index->room * 2 : 64;
        index->leaves = alloc_more(index->leaves, index->room * sizeof *index->leaves);
    }
    index->leaves[index->n_leaves] = (struct leaf){hash, first, 0};
    return &index->leaves[index->n_leaves++];
}

static void fill_leaves(struct index *index)
{
    size_t used = 0;
    struct leaf *leaf = NULL;

    for (size_t i = 0; i < index->n_names; i++) {
        size_t size = entry_size(index->names[i].entry->name);
        if (!leaf || used + size > EXT4_BLOCK) {
            leaf = add_leaf(index, i);
            used = 0;
        }
        leaf->n++;
        used += size;
    }
}

static bool write_leaf(struct ext4_out *out, const struct index *index, const struct leaf *leaf,
                       struct error *err)
{
    char *block = ext4_out_room(out, EXT4_BLOCK, err);
    size_t at = 0;

    if (!block)
        return false;
    memset(block, 0, EXT4_BLOCK);
    for (size_t i = 0; i < leaf->n; i++) {
        const struct ext4_entry *entry = index->names[leaf->first + i].entry;
        size_t size = i + 1 < leaf->n ? entry_size(entry->name) : EXT4_BLOCK - at;
        put_entry(block + at, entry->name, entry->node->inode, type_of(entry->node->mode), size);
        at += size;
    }
    ext4_out_add(out, EXT4_BLOCK);
    return true;
}

/* A list of every `step`th leaf, from one of them on; the place of the first hash has the numbers
 * of entries. */
static void put_list(char *at, size_t limit, const struct leaf *leaves, size_t n, size_t step,
                     size_t block)
{
    struct ext2_dx_entry *entries = (struct ext2_dx_entry *)at;
    struct ext2_dx_countlimit *counts = (struct ext2_dx_countlimit *)at;

    for (size_t i = 0; i < n; i++)
        entries[i] = (struct ext2_dx_entry){leaves[i * step].hash, (uint32_t)(block + i)};
    *counts = (struct ext2_dx_countlimit){(uint16_t)limit, (uint16_t)n};
}

static bool write_root(struct ext4_out *out, const struct ext4_node *folder,
                       const struct index *index, size_t n_nodes, struct error *err)
{
    struct ext2_dx_root_info info = {
        .hash_version = EXT2_HASH_HALF_MD4,
        .info_length = sizeof info,
        .indirect_levels = n_nodes > 0,
    };
    char *block = ext4_out_room(out, EXT4_BLOCK, err);

    if (!block)
        return false;
    memset(block, 0, EXT4_BLOCK);
    put_dots(block, folder, EXT4_BLOCK - 12);
    memcpy(block + DOTS, &info, sizeof info);
    put_list(block + DOTS + sizeof info, ROOT_ENTRIES, index->leaves,
             n_nodes ? n_nodes : index->n_leaves, n_nodes ? NODE_ENTRIES : 1, 1);
    ext4_out_add(out, EXT4_BLOCK);
    return true;
}

static bool write_node(struct ext4_out *out, const struct index *index, size_t at, size_t n_nodes,
                       struct error *err)
{
    size_t first = at * NODE_ENTRIES, left = index->n_leaves - first;
    char *block = ext4_out_room(out, EXT4_BLOCK, err);

    if (!block)
        return false;
    memset(block, 0, EXT4_BLOCK);
    ((struct ext2_dir_entry_2 *)block)->rec_len = EXT4_BLOCK;
    put_list(block + HEAD, NODE_ENTRIES, index->leaves + first,
             left < NODE_ENTRIES ? left : NODE_ENTRIES, 1, 1 + n_nodes + first);
    ext4_out_add(out, EXT4_BLOCK);
    return true;
}

static bool write_indexed(struct ext4_out *out, const struct ext4_node *folder,
                          const uint32_t seed[4], struct error *err)
{
    AUTO(index_finish) struct index index = {0};

    if (!hash_names(&index, folder, seed, err))
        return false;
    fill_leaves(&index);
    size_t n_nodes =
        index.n_leaves > ROOT_ENTRIES ? (index.n_leaves + NODE_ENTRIES - 1) / NODE_ENTRIES : 0;
    if (n_nodes > ROOT_ENTRIES)
        return error_set(err, ERR_TOO_LARGE, "a folder has too many names");
    if (!write_root(out, folder, &index, n_nodes, err))
        return false;
    for (size_t i = 0; i < n_nodes; i++)
        if (!write_node(out, &index, i, n_nodes, err))
            return false;
    for (size_t i = 0; i < index.n_leaves; i++)
        if (!write_leaf(out, &index, &index.leaves[i], err))
            return false;
    return true;
}

bool ext4_folder_write(struct ext4_out *out, struct ext4_node *folder, const uint32_t seed[4],
                       struct error *err)
{
    uint32_t block = ext4_out_block(out);
    size_t size = DOTS;

    for (size_t i = 0; i < folder->n_entries; i++)
        size += entry_size(folder->entries[i].name);
    folder->is_indexed = size > EXT4_BLOCK;
    if (folder->is_indexed ? !write_indexed(out, folder, seed, err)
                           : !write_small(out, folder, err))
        return false;
    folder->size = (int64_t)(ext4_out_block(out) - block) * EXT4_BLOCK;
    return ext4_out_map(out, block, &folder->map, err);
}
