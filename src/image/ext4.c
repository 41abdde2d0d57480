#include "image/ext4.h"

#include <fcntl.h>

#include "base/own.h"
#include "image/ext4_super.h"

enum { BYTES_PER_INODE = 16 * 1024 };

static bool write_folders(struct ext4_tree *tree, const struct ext4_identity *identity,
                          struct error *err)
{
    for (size_t i = 0; i < tree->n_nodes; i++)
        if (S_ISDIR(tree->nodes[i]->mode) &&
            !ext4_folder_write(&tree->out, tree->nodes[i], identity->hash_seed, err))
            return false;
    return ext4_out_flush(&tree->out, err);
}

static bool write_inodes(struct ext4_tree *tree, ext2_filsys fs, struct error *err)
{
    for (size_t i = 0; i < tree->n_nodes; i++)
        if (!ext4_put_inode(fs, tree->nodes[i], err))
            return false;
    return true;
}

/* Content first, straight to its place; then what describes it, when all sizes are known. */
static bool write_tree(struct ext4_tree *tree, int fd, int64_t size_bytes, struct str seed,
                       struct error *err)
{
    AUTO(ext4_super_finish) ext2_filsys fs = NULL;
    struct ext4_identity identity;
    struct ext4_shape shape;

    ext4_identity_of(seed, &identity);
    ext4_out_init(&tree->out, fd, EXT4_RESERVED);
    if (!ext4_tree_walk(tree, err) || !write_folders(tree, &identity, err))
        return false;
    uint32_t n_inodes = EXT4_FIRST_INODE + (uint32_t)tree->n_nodes;
    return ext4_shape_fit(ext4_out_block(&tree->out), (uint32_t)tree->n_attributed, n_inodes,
                          size_bytes, &shape, err) &&
           ext4_super_open(fd, &shape, &identity, &fs, err) && write_inodes(tree, fs, err) &&
           ext4_super_close(&fs, err);
}

bool ext4_write(const struct ext4_plan *plan, int fd, struct error *err)
{
    AUTO(ext4_tree_finish) struct ext4_tree tree = {0};
    bool is_written = view_open(plan->layers, plan->n_layers, &tree.view, err) &&
                      write_tree(&tree, fd, plan->size_bytes, plan->seed, err);

    view_finish(&tree.view);
    return is_written || error_wrap(err, "making a root drive");
}

bool ext4_write_tree(int folder, int fd, int64_t size_bytes, struct str seed, struct error *err)
{
    AUTO(ext4_tree_finish)
    struct ext4_tree tree = {
        .is_project = true, .view = {.layers = {folder}, .n = 1}
    };

    return write_tree(&tree, fd, size_bytes, seed, err) || error_wrap(err, "making a drive");
}

bool ext4_make_empty(int fd, int64_t size_bytes, struct error *err)
{
    struct ext4_node root = {.inode = EXT4_ROOT_INODE, .mode = S_IFDIR | 0755, .links = 2};
    AUTO(ext4_out_finish) struct ext4_out out = {0};
    AUTO(ext4_super_finish) ext2_filsys fs = NULL;
    struct ext4_identity identity;

    if (size_bytes < EXT4_SIZE_MIN || size_bytes > EXT4_SIZE_MAX)
        return error_set(err, ERR_INVALID, "an empty drive has 16 MiB to a terabyte");
    ext4_identity_of(STR("empty"), &identity);
    ext4_out_init(&out, fd, EXT4_RESERVED);
    struct ext4_shape shape = {
        .n_blocks = (uint32_t)(size_bytes / EXT4_BLOCK),
        .n_inodes = (uint32_t)(size_bytes / BYTES_PER_INODE),
        .tables = EXT4_RESERVED + 1,
        .content = 1,
    };
    return ext4_folder_write(&out, &root, identity.hash_seed, err) && ext4_out_flush(&out, err) &&
           ext4_super_open(fd, &shape, &identity, &fs, err) && ext4_put_inode(fs, &root, err) &&
           ext4_super_close(&fs, err);
}
