/* Property: whatever the names of a folder are, each is found where its hash leads, once, and
 * nothing else is there. Read back by a reader that is not the library's and not the kernel's. */
#include <ext2fs/ext2fs.h>
#include <sys/mman.h>

#include "base/own.h"
#include "image/ext4_tree.h"

enum { FIRST = 100, NAMES_MAX = 60000, NAME = 256 };

struct names {
    struct ext4_entry *entries;
    struct ext4_node *nodes;
    char *texts;
    size_t n;
};

/* Each piece of input is a length, how often it is repeated under other numbers, and bytes. Only
 * the highest numbers mean often, so that most inputs are quick. */
static size_t repeats(uint8_t byte)
{
    return byte < 250 ? 1 + (size_t)byte / 16 : ((size_t)byte - 249) * 340;
}

static size_t count_names(const uint8_t *data, size_t size)
{
    size_t n = 0;

    for (size_t at = 0; at + 2 < size; at += 2 + data[at] % 250)
        n += repeats(data[at + 1]);
    return n < NAMES_MAX ? n : NAMES_MAX;
}

static void put_name(struct names *names, size_t number, const uint8_t *bytes, size_t len)
{
    char *text = names->texts + names->n * NAME;
    size_t end = number ? (size_t)snprintf(text, NAME, "%zu", number) : 0;

    len = len < NAME - 1 - end ? len : NAME - 1 - end;
    memcpy(text + end, bytes, len);
    for (size_t i = 0; i < len; i++)
        if (text[end + i] == '\0' || text[end + i] == '/')
            text[end + i] = '_';
    end += len;
    text[end] = '\0';
    names->n += end > 0;
}

static void read_names(struct names *names, size_t max, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at + 2 < size && names->n < max; at += 2 + data[at] % 250) {
        size_t len = data[at] % 250, left = size - at - 2;
        for (size_t i = 0; i < repeats(data[at + 1]) && names->n < max; i++)
            put_name(names, i, data + at + 2, len < left ? len : left);
    }
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void sort_names(struct names *names)
{
    AUTO_FREE char **sorted = alloc((names->n + 1) * sizeof(char *));
    size_t kept = 0;

    for (size_t i = 0; i < names->n; i++)
        sorted[i] = names->texts + i * NAME;
    qsort(sorted, names->n, sizeof(char *), by_text);
    for (size_t i = 0; i < names->n; i++) {
        if (kept && strcmp(names->entries[kept - 1].name, sorted[i]) == 0)
            continue;
        names->nodes[kept] =
            (struct ext4_node){.inode = FIRST + (uint32_t)kept, .mode = S_IFREG | 0644};
        names->entries[kept] = (struct ext4_entry){sorted[i], &names->nodes[kept]};
        kept++;
    }
    names->n = kept;
}

/* The inode of a name in one block, or 0; every entry must lie in it. */
static uint32_t look_in_block(const char *block, const char *name, size_t *n_entries)
{
    uint32_t found = 0;

    for (size_t at = 0; at < EXT4_BLOCK;) {
        const struct ext2_dir_entry_2 *entry = (const struct ext2_dir_entry_2 *)(block + at);
        if (entry->rec_len < 8 || entry->rec_len % 4 || at + entry->rec_len > EXT4_BLOCK ||
            (size_t)entry->name_len + 8 > entry->rec_len)
            abort();
        *n_entries += entry->inode != 0;
        if (strlen(name) == entry->name_len && memcmp(name, entry->name, entry->name_len) == 0)
            found = entry->inode;
        at += entry->rec_len;
    }
    return found;
}

/* The leaves in the order of the tree, each with the lowest hash in it. */
struct leaves {
    struct ext2_dx_entry *entries;
    size_t n;
};

/* One list of the tree; its first hash is known to who led here. */
static void read_list(const char *blocks, size_t at, uint32_t first, int levels,
                      struct leaves *leaves)
{
    const struct ext2_dx_countlimit *counts = (const struct ext2_dx_countlimit *)(blocks + at);
    const struct ext2_dx_entry *entries = (const struct ext2_dx_entry *)(blocks + at);

    if (counts->count == 0 || counts->count > counts->limit ||
        at % EXT4_BLOCK + (size_t)8 * counts->limit != EXT4_BLOCK)
        abort();
    for (size_t i = 0; i < counts->count; i++) {
        uint32_t hash = i ? entries[i].hash : first;
        if (levels)
            read_list(blocks, (size_t)entries[i].block * EXT4_BLOCK + 8, hash, levels - 1, leaves);
        else
            leaves->entries[leaves->n++] = (struct ext2_dx_entry){hash, entries[i].block};
    }
}

/* As a kernel looks: in the last leaf whose hash is not above, and on as long as the next one says
 * that it goes on with the same. */
static bool is_found(const char *blocks, const struct leaves *leaves, const uint32_t seed[4],
                     const struct ext4_entry *entry)
{
    uint32_t hash = 0, minor = 0;
    size_t at = 0, end = leaves->n;

    if (ext2fs_dirhash(EXT2_HASH_HALF_MD4_UNSIGNED, entry->name, (int)strlen(entry->name), seed,
                       &hash, &minor) != 0)
        abort();
    while (end - at > 1) {
        size_t middle = at + (end - at) / 2;
        *(leaves->entries[middle].hash <= hash ? &at : &end) = middle;
    }
    for (size_t i = at; i == at || (i < leaves->n && leaves->entries[i].hash == (hash | 1)); i++) {
        const char *block = blocks + (size_t)leaves->entries[i].block * EXT4_BLOCK;
        if (look_in_block(block, entry->name, &(size_t){0}) == entry->node->inode)
            return true;
    }
    return false;
}

static void check_indexed(const char *blocks, const struct ext4_node *folder,
                          const uint32_t seed[4])
{
    const struct ext2_dx_root_info *info = (const struct ext2_dx_root_info *)(blocks + 24);
    AUTO_FREE struct ext2_dx_entry *entries =
        alloc((size_t)(folder->size / EXT4_BLOCK) * sizeof *entries);
    struct leaves leaves = {entries, 0};

    read_list(blocks, 32, 0, info->indirect_levels, &leaves);
    for (size_t i = 1; i < leaves.n; i++)
        if (leaves.entries[i - 1].hash > leaves.entries[i].hash)
            abort();
    for (size_t i = 0; i < folder->n_entries; i++)
        if (!is_found(blocks, &leaves, seed, &folder->entries[i]))
            abort();
}

static void check(int fd, const struct ext4_node *folder, const uint32_t seed[4])
{
    size_t len = (size_t)folder->size, n_entries = 0;
    char *blocks = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);

    if (blocks == MAP_FAILED)
        abort();
    if (folder->is_indexed)
        check_indexed(blocks, folder, seed);
    for (size_t i = 0; !folder->is_indexed && i < folder->n_entries; i++)
        if (look_in_block(blocks, folder->entries[i].name, &(size_t){0}) !=
            folder->entries[i].node->inode)
            abort();
    /* To who does not know of hashes it is a plain list of as many. */
    for (size_t at = 0; at < len; at += EXT4_BLOCK)
        (void)look_in_block(blocks + at, "", &n_entries);
    if (n_entries != folder->n_entries + 2)
        abort();
    (void)munmap(blocks, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t seed[4] = {1, 2, 3, 4};
    size_t max = count_names(data, size);
    AUTO_FREE struct ext4_entry *entries = alloc((max + 1) * sizeof *entries);
    AUTO_FREE struct ext4_node *nodes = alloc((max + 1) * sizeof *nodes);
    AUTO_FREE char *texts = alloc((max + 1) * NAME);
    AUTO(ext4_out_finish) struct ext4_out out = {0};
    AUTO_FD int fd = memfd_create("folder", MFD_CLOEXEC);
    struct names names = {entries, nodes, texts, 0};
    struct ext4_node folder = {.inode = EXT4_ROOT_INODE, .mode = S_IFDIR | 0755};
    struct error err;

    read_names(&names, max, data, size);
    sort_names(&names);
    folder.entries = names.entries;
    folder.n_entries = names.n;
    ext4_out_init(&out, fd, 0);
    if (!ext4_folder_write(&out, &folder, seed, &err) || !ext4_out_flush(&out, &err))
        abort();
    check(fd, &folder, seed);
    return 0;
}
