#include "image/ext4_out.h"

#include <errno.h>
#include <ext2fs/ext2fs.h>
#include <ext2fs/ext3_extents.h>

#include "base/own.h"

enum {
    BUFFER = 4 * 1024 * 1024,
    IN_INODE = (EXT4_MAP - sizeof(struct ext3_extent_header)) / sizeof(struct ext3_extent),
    IN_BLOCK = (EXT4_BLOCK - sizeof(struct ext3_extent_header)) / sizeof(struct ext3_extent),
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tables are written as they are on disk");
_Static_assert(sizeof(struct ext3_extent) == sizeof(struct ext3_extent_idx), "one tree, one step");

void ext4_out_init(struct ext4_out *out, int fd, uint32_t first_block)
{
    *out = (struct ext4_out){
        .fd = fd,
        .buffer = alloc(BUFFER),
        .offset = (int64_t)first_block * EXT4_BLOCK,
    };
}

void ext4_out_finish(struct ext4_out *out)
{
    free(out->buffer);
    free(out->runs);
}

uint32_t ext4_out_block(const struct ext4_out *out)
{
    return (uint32_t)((out->offset + (int64_t)out->used) / EXT4_BLOCK);
}

bool ext4_out_flush(struct ext4_out *out, struct error *err)
{
    for (size_t done = 0; done < out->used;) {
        ssize_t n =
            pwrite(out->fd, out->buffer + done, out->used - done, out->offset + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "write a file system");
        done += (size_t)n;
    }
    out->offset += (int64_t)out->used;
    out->used = 0;
    return true;
}

char *ext4_out_room(struct ext4_out *out, size_t len, struct error *err)
{
    if (out->used + len > BUFFER && !ext4_out_flush(out, err))
        return NULL;
    return out->buffer + out->used;
}

void ext4_out_add(struct ext4_out *out, size_t len)
{
    size_t over = len % EXT4_BLOCK, rest = over ? EXT4_BLOCK - over : 0;

    memset(out->buffer + out->used + len, 0, rest);
    out->used += len + rest;
}

static void add_run(struct ext4_out *out, uint32_t at, uint32_t block, uint32_t n)
{
    struct ext4_run *last = out->n_runs ? &out->runs[out->n_runs - 1] : NULL;

    if (last && last->at + last->n == at && last->block + last->n == block &&
        last->n + n <= EXT_INIT_MAX_LEN) {
        last->n += n;
        return;
    }
    if (!out->runs || out->n_runs == out->room) {
        out->room = out->room ? out->room * 2 : 64;
        out->runs = alloc_more(out->runs, out->room * sizeof *out->runs);
    }
    out->runs[out->n_runs++] = (struct ext4_run){at, block, n};
}

/* One node of the tree: leaves list runs of content, the others list blocks of nodes. */
static void fill_node(uint8_t *node, size_t max, const struct ext4_run *runs, size_t n, int depth)
{
    struct ext3_extent_header *header = (struct ext3_extent_header *)node;
    struct ext3_extent *extents = (struct ext3_extent *)(header + 1);
    struct ext3_extent_idx *nodes = (struct ext3_extent_idx *)(header + 1);

    *header = (struct ext3_extent_header){
        .eh_magic = EXT3_EXT_MAGIC,
        .eh_entries = (uint16_t)n,
        .eh_max = (uint16_t)max,
        .eh_depth = (uint16_t)depth,
    };
    for (size_t i = 0; i < n; i++)
        if (depth == 0)
            extents[i] = (struct ext3_extent){.ee_block = runs[i].at,
                                              .ee_len = (uint16_t)runs[i].n,
                                              .ee_start = runs[i].block};
        else
            nodes[i] = (struct ext3_extent_idx){.ei_block = runs[i].at, .ei_leaf = runs[i].block};
}

/* Writes one level of the tree; its nodes become the runs that the next level lists. */
static bool put_level(struct ext4_out *out, int depth, struct error *err)
{
    size_t n_nodes = 0;

    for (size_t i = 0; i < out->n_runs; i += IN_BLOCK) {
        size_t n = out->n_runs - i < IN_BLOCK ? out->n_runs - i : IN_BLOCK;
        char *node = ext4_out_room(out, EXT4_BLOCK, err);
        if (!node)
            return false;
        memset(node, 0, EXT4_BLOCK);
        fill_node((uint8_t *)node, IN_BLOCK, out->runs + i, n, depth);
        out->runs[n_nodes++] = (struct ext4_run){out->runs[i].at, ext4_out_block(out), 1};
        ext4_out_add(out, EXT4_BLOCK);
    }
    out->n_runs = n_nodes;
    return true;
}

/* The tree over the runs so far; they are forgotten. */
static bool put_tree(struct ext4_out *out, struct ext4_map *map, struct error *err)
{
    int depth = 0;

    *map = (struct ext4_map){0};
    for (size_t i = 0; i < out->n_runs; i++)
        map->n_blocks += out->runs[i].n;
    for (; out->n_runs > IN_INODE; depth++) {
        if (!put_level(out, depth, err))
            return false;
        map->n_blocks += (uint32_t)out->n_runs;
    }
    fill_node(map->root, IN_INODE, out->runs, out->n_runs, depth);
    out->n_runs = 0;
    return true;
}

bool ext4_out_map(struct ext4_out *out, uint32_t block, struct ext4_map *map, struct error *err)
{
    uint32_t n = ext4_out_block(out) - block;

    for (uint32_t at = 0; at < n;) {
        uint32_t some = n - at < EXT_INIT_MAX_LEN ? n - at : EXT_INIT_MAX_LEN;
        add_run(out, at, block + at, some);
        at += some;
    }
    return put_tree(out, map, err);
}

static bool is_zero(const char *bytes, size_t len)
{
    return bytes[0] == '\0' && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/* To where the next data may be: what the file's own file system knows to be a hole is not read. It
 * does not decide what is one here, for another host's may know less. */
static int64_t skip_hole(int file, int64_t at, int64_t size)
{
    off_t data = size >= EXT4_HOLE ? lseek(file, at, SEEK_DATA) : at;

    if (data < 0)
        return errno == ENXIO ? size - size % EXT4_HOLE : at;
    int64_t aligned = data - data % EXT4_HOLE;
    return aligned > at ? aligned : at;
}

static bool read_piece(int file, char *bytes, size_t len, int64_t at, struct error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pread(file, bytes + done, len - done, at + (int64_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read");
        if (n == 0)
            return error_set(err, ERR_INTERNAL, "a file became shorter while it was read");
        done += (size_t)n;
    }
    return true;
}

bool ext4_out_file(struct ext4_out *out, int file, int64_t size, struct ext4_map *map,
                   struct error *err)
{
    for (int64_t at = skip_hole(file, 0, size); at < size;) {
        size_t len = size - at < EXT4_HOLE ? (size_t)(size - at) : EXT4_HOLE;
        char *room = ext4_out_room(out, EXT4_HOLE, err);
        if (!room || !read_piece(file, room, len, at, err))
            return false;
        if (len == EXT4_HOLE && is_zero(room, len)) {
            at = skip_hole(file, at + EXT4_HOLE, size);
            continue;
        }
        uint32_t block = ext4_out_block(out);
        ext4_out_add(out, len);
        add_run(out, (uint32_t)(at / EXT4_BLOCK), block, ext4_out_block(out) - block);
        at += (int64_t)len;
    }
    return put_tree(out, map, err);
}
