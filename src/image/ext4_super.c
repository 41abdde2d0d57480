#include "image/ext4_super.h"

#include <errno.h>
#include <et/com_err.h>
#include <fcntl.h>

#include "base/own.h"
#include "base/sha256.h"

enum {
    GROUP = 8 * EXT4_BLOCK, /* blocks, and at most as many inodes */
    INODE = 256,
    INODES_IN_BLOCK = EXT4_BLOCK / INODE,
    STAMP = 1, /* the time of writing: 0 would be the clock's */
};

bool ext4_fail(struct error *err, long code, const char *what)
{
    if (code > 0 && code < 4096) {
        errno = (int)code;
        return error_errno(err, "%s", what);
    }
    initialize_ext2_error_table();
    return error_set(err, ERR_INTERNAL, "%s: %s", what, error_message(code));
}

void ext4_identity_of(struct str seed, struct ext4_identity *identity)
{
    AUTO(sha256_finish) struct sha256 hash;
    char hex[SHA256_HEX];
    uint8_t bytes[32];

    sha256_init(&hash);
    sha256_update(&hash, STR(EXT4_WRITER));
    sha256_update(&hash, seed);
    sha256_take(&hash, hex);
    for (size_t i = 0; i < sizeof bytes; i++) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    memcpy(identity->uuid, bytes, sizeof identity->uuid);
    /* Version 8, variant 1: made by a rule of one's own. */
    identity->uuid[6] = (uint8_t)((identity->uuid[6] & 0x0f) | 0x80);
    identity->uuid[8] = (uint8_t)((identity->uuid[8] & 0x3f) | 0x80);
    memcpy(identity->hash_seed, bytes + 16, sizeof identity->hash_seed);
}

static uint32_t whole(uint64_t n, uint32_t unit)
{
    return (uint32_t)((n + unit - 1) / unit);
}

/* Whole groups: the end of the file is a hole, and costs nothing. */
bool ext4_shape_fit(uint32_t end, uint32_t spare, uint32_t n_inodes, int64_t size_bytes,
                    struct ext4_shape *shape, struct error *err)
{
    uint32_t groups = whole(n_inodes, GROUP - INODES_IN_BLOCK);
    uint64_t needed;

    if (size_bytes > EXT4_SIZE_MAX)
        return error_set(err, ERR_TOO_LARGE, "a file system would take over a terabyte");
    for (;; groups++) {
        uint32_t table = whole(whole(n_inodes, groups), INODES_IN_BLOCK);
        needed = (uint64_t)end + spare + (uint64_t)groups * (2 + table);
        if (needed <= (uint64_t)groups * GROUP)
            break;
    }
    *shape = (struct ext4_shape){groups * GROUP, n_inodes, end, end - EXT4_RESERVED};
    if ((int64_t)shape->n_blocks * EXT4_BLOCK > EXT4_SIZE_MAX)
        return error_set(err, ERR_TOO_LARGE, "a file system would take over a terabyte");
    if (size_bytes == 0)
        return true;
    if (size_bytes < (int64_t)shape->n_blocks * EXT4_BLOCK)
        return error_set(err, ERR_TOO_LARGE, "%lld bytes do not fit into %lld",
                         (long long)shape->n_blocks * EXT4_BLOCK, (long long)size_bytes);
    shape->n_blocks = (uint32_t)(size_bytes / EXT4_BLOCK);
    return true;
}

static void fill_parameters(struct ext2_super_block *super, const struct ext4_shape *shape)
{
    super->s_rev_level = EXT2_DYNAMIC_REV;
    super->s_log_block_size = 2;
    super->s_log_cluster_size = 2;
    super->s_inode_size = INODE;
    super->s_blocks_count = shape->n_blocks;
    super->s_inodes_count = shape->n_inodes;
    super->s_log_groups_per_flex = 4;
    ext2fs_set_feature_xattr(super);
    ext2fs_set_feature_dir_index(super);
    ext2fs_set_feature_sparse_super2(super);
    ext2fs_set_feature_filetype(super);
    ext2fs_set_feature_extents(super);
    ext2fs_set_feature_flex_bg(super);
    ext2fs_set_feature_large_file(super);
    ext2fs_set_feature_dir_nlink(super);
    ext2fs_set_feature_extra_isize(super);
    /* Groups nobody used yet need no bitmaps on the disk. */
    ext2fs_set_feature_gdt_csum(super);
}

static void fill_super(ext2_filsys fs, const struct ext4_identity *identity)
{
    struct ext2_super_block *super = fs->super;

    fs->now = STAMP;
    super->s_mkfs_time = super->s_lastcheck = super->s_wtime = STAMP;
    super->s_backup_bgs[0] = super->s_backup_bgs[1] = 0;
    super->s_max_mnt_count = -1;
    super->s_def_hash_version = EXT2_HASH_HALF_MD4;
    super->s_flags |= EXT2_FLAGS_UNSIGNED_HASH;
    super->s_min_extra_isize = super->s_want_extra_isize =
        sizeof(struct ext2_inode_large) - EXT2_GOOD_OLD_INODE_SIZE;
    memcpy(super->s_uuid, identity->uuid, sizeof super->s_uuid);
    memcpy(super->s_hash_seed, identity->hash_seed, sizeof super->s_hash_seed);
}

/* Block bitmaps, inode bitmaps, inode tables. The file is new: the tables are zero already. */
static void place_tables(ext2_filsys fs, uint32_t first)
{
    uint32_t n = fs->group_desc_count, table = fs->inode_blocks_per_group;

    for (uint32_t i = 0; i < n; i++) {
        ext2fs_block_bitmap_loc_set(fs, i, first + i);
        ext2fs_inode_bitmap_loc_set(fs, i, first + n + i);
        ext2fs_inode_table_loc_set(fs, i, first + 2 * n + i * table);
        ext2fs_bg_flags_set(fs, i, EXT2_BG_INODE_ZEROED);
        ext2fs_group_desc_csum_set(fs, i);
    }
    ext2fs_block_alloc_stats_range(fs, first, n * (2 + table), +1);
}

static void take_reserved_inodes(ext2_filsys fs)
{
    for (uint32_t i = 1; i < EXT4_FIRST_INODE; i++)
        if (i != EXT4_ROOT_INODE)
            ext2fs_inode_alloc_stats2(fs, i, +1, 0);
}

bool ext4_super_open(int fd, const struct ext4_shape *shape, const struct ext4_identity *identity,
                     ext2_filsys *fs, struct error *err)
{
    struct ext2_super_block parameters = {0};
    char name[16];
    /* The library closes what it is given. */
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (copy < 0 || ftruncate(fd, (off_t)shape->n_blocks * EXT4_BLOCK) != 0)
        return error_errno(err, "prepare a file system");
    (void)snprintf(name, sizeof name, "%d", copy);
    fill_parameters(&parameters, shape);
    long code = ext2fs_initialize(name, EXT2_FLAG_64BITS | EXT2_FLAG_SOFTSUPP_FEATURES, &parameters,
                                  unixfd_io_manager, fs);
    if (code) {
        *fs = NULL;
        return ext4_fail(err, code, "lay out a file system");
    }
    fill_super(*fs, identity);
    place_tables(*fs, shape->tables);
    if (shape->content)
        ext2fs_block_alloc_stats_range(*fs, EXT4_RESERVED, shape->content, +1);
    take_reserved_inodes(*fs);
    return true;
}

void ext4_super_finish(ext2_filsys *fs)
{
    if (*fs)
        ext2fs_free(*fs);
}

bool ext4_super_close(ext2_filsys *fs, struct error *err)
{
    long code = ext2fs_close2(*fs, EXT2_FLAG_FLUSH_NO_SYNC);

    if (!code)
        *fs = NULL;
    return !code || ext4_fail(err, code, "write a file system");
}

/* Seconds from 1901 to 2446; what lies outside becomes the nearest. */
static void put_time(struct timespec time, uint32_t *seconds, uint32_t *extra)
{
    const int64_t least = INT32_MIN, most = 3 * ((int64_t)1 << 32) + INT32_MAX;
    int64_t at = time.tv_sec < least ? least : time.tv_sec > most ? most : time.tv_sec;

    *seconds = (uint32_t)at;
    *extra = (uint32_t)(((at - (int32_t)at) >> 32) & 3) | (uint32_t)time.tv_nsec << 2;
}

static void fill_inode(struct ext2_inode_large *inode, const struct ext4_node *node)
{
    uint32_t sectors = node->map.n_blocks * (EXT4_BLOCK / 512), seconds, extra;

    put_time(node->modified, &seconds, &extra);
    inode->i_mode = node->mode;
    inode->i_uid = (uint16_t)node->uid;
    inode->osd2.linux2.l_i_uid_high = (uint16_t)(node->uid >> 16);
    inode->i_gid = (uint16_t)node->gid;
    inode->osd2.linux2.l_i_gid_high = (uint16_t)(node->gid >> 16);
    inode->i_size = (uint32_t)node->size;
    inode->i_size_high = (uint32_t)(node->size >> 32);
    inode->i_blocks = sectors;
    inode->i_atime = inode->i_ctime = inode->i_mtime = inode->i_crtime = seconds;
    inode->i_atime_extra = inode->i_ctime_extra = inode->i_mtime_extra = inode->i_crtime_extra =
        extra;
    inode->i_extra_isize = sizeof *inode - EXT2_GOOD_OLD_INODE_SIZE;
    /* Over the limit a folder's links are not counted. */
    inode->i_links_count = node->links > 65000 ? 1 : (uint16_t)node->links;
    bool has_extents =
        S_ISREG(node->mode) || S_ISDIR(node->mode) || (S_ISLNK(node->mode) && !node->is_text);
    if (has_extents)
        inode->i_flags |= EXT4_EXTENTS_FL;
    if (node->is_indexed)
        inode->i_flags |= EXT2_INDEX_FL;
    memcpy(inode->i_block, node->map.root, sizeof node->map.root);
}

static void close_attributes(struct ext2_xattr_handle **handle)
{
    if (*handle)
        (void)ext2fs_xattrs_close(handle);
}

static bool put_attributes(ext2_filsys fs, const struct ext4_node *node, struct error *err)
{
    AUTO(close_attributes) struct ext2_xattr_handle *handle = NULL;
    long code = ext2fs_xattrs_open(fs, node->inode, &handle);

    for (size_t i = 0; !code && i < node->n_attributes; i++) {
        const struct ext4_attribute *attribute = &node->attributes[i];
        code =
            ext2fs_xattr_set(handle, attribute->name, attribute->value.ptr, attribute->value.len);
    }
    if (code == EXT2_ET_EA_NO_SPACE)
        return error_set(err, ERR_TOO_LARGE, "extended attributes of a file take over %d bytes",
                         EXT4_BLOCK);
    return !code || ext4_fail(err, code, "write extended attributes");
}

bool ext4_put_inode(ext2_filsys fs, const struct ext4_node *node, struct error *err)
{
    struct ext2_inode_large inode = {0};

    fill_inode(&inode, node);
    ext2fs_inode_alloc_stats2(fs, node->inode, +1, S_ISDIR(node->mode));
    long code = ext2fs_write_inode_full(fs, node->inode, (struct ext2_inode *)&inode, sizeof inode);
    if (code)
        return ext4_fail(err, code, "write an inode");
    return !node->n_attributes || put_attributes(fs, node, err);
}
