/* A tree of files as one stream of bytes: what a guest captured, read by a host that does not
 * trust it.
 *
 *     "HLMRTR01" {header[48], path, target, xattrs, contents}… header of kind 0
 *
 * Paths are relative, without empty, "." or ".." parts. Entries are in order (tree_path_order):
 * a directory comes before what is in it, and every parent but the root has its own entry.
 *
 * A difference, "HLMRTR02", is told to somebody who has an earlier tree: an entry that is the same
 * as in that one (is_same) has its kind and path, its link group, and nothing else; a directory
 * that is the same is so with everything in it.
 *
 * Memory follows the bytes that came; the verdict is the same however input is cut.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum {
    TREE_MAGIC_LEN = 8,
    TREE_HEADER_LEN = 48,
    TREE_PATH_MAX = 4096,
    TREE_NAME_MAX = 255,
    TREE_DEPTH_MAX = 128,
    TREE_TARGET_MAX = 4096,
    TREE_XATTRS_MAX = 65536, /* of one entry, encoded */
    TREE_ENTRIES_MAX = 1000000,
};

/* Contents of all files together. */
#define TREE_BYTES_MAX (UINT64_C(64) << 30)

enum tree_kind {
    TREE_FILE = 1,
    TREE_DIRECTORY = 2,
    TREE_SYMLINK = 3,
    TREE_FIFO = 4,
    TREE_WHITEOUT = 5 /* the path is gone; only its name counts */
};

struct tree_entry {
    enum tree_kind kind;
    struct str path;
    uint32_t mode; /* the permission bits, 07777 */
    uint32_t uid, gid;
    int64_t mtime_ns;
    uint64_t size;       /* of a file's contents; 0 for everything else */
    struct str target;   /* of a symlink */
    struct str xattrs;   /* encoded; see tree_xattr_next */
    uint64_t link_group; /* of files with more than one name: from 1 on; 0: none */
    bool is_linked;      /* the contents came with an earlier entry of the group; size is 0 */
    bool is_opaque;      /* a directory that hides what is below it */
    bool is_same;        /* as in the tree that this one differs from */
    bool is_cover;       /* there is something at this path without it, too; no whiteout says so */
};

/* Called for every entry; what it holds is borrowed until the next call of tree_decode. */
typedef bool tree_on_entry(void *arg, const struct tree_entry *entry, struct error *err);

/* The contents of the last entry, if it is a file and not linked: at least once, also when it is
 * empty, and the last time with is_last. */
typedef bool tree_on_bytes(void *arg, struct str bytes, bool is_last, struct error *err);

struct tree_decoder {
    tree_on_entry *on_entry;
    tree_on_bytes *on_bytes;
    void *arg;
    struct buf pending; /* the start of an entry that is not whole yet */
    struct buf last;    /* path of the last entry */
    size_t folder_len;  /* of `last`: the innermost directory that is known */
    uint64_t contents;  /* bytes of the last file that are still to come */
    uint64_t n_entries, n_bytes, n_groups;
    bool takes_differences; /* set after tree_decoder_init */
    bool is_difference;
    bool has_magic, has_failed, is_complete;
};

void tree_decoder_init(struct tree_decoder *decoder, tree_on_entry *on_entry,
                       tree_on_bytes *on_bytes, void *arg);
void tree_decoder_finish(struct tree_decoder *decoder);

/* Takes all of `bytes`. An error is final, also one of a callback. */
bool tree_decode(struct tree_decoder *decoder, struct str bytes, struct error *err) MUST_USE;

/* Whether the tree has ended; ERR_INVALID when the stream ended before. */
bool tree_decode_end(const struct tree_decoder *decoder, struct error *err) MUST_USE;

/* The other way: the magic, then entries in order, each followed by `size` bytes of contents that
 * the caller adds, then the end. An entry is held to what the decoder checks, but for its order. */
bool tree_encode_start(struct buf *out, struct error *err) MUST_USE;
bool tree_encode_start_difference(struct buf *out, struct error *err) MUST_USE;
bool tree_encode_entry(struct buf *out, const struct tree_entry *entry, struct error *err) MUST_USE;
bool tree_encode_finish(struct buf *out, struct error *err) MUST_USE;

/* Less than, equal to or greater than 0: part by part, bytes as unsigned numbers. */
int tree_path_order(struct str a, struct str b);

/* Names are user.* or security.capability, in ascending order. */
bool tree_xattr_append(struct buf *out, struct str name, struct str value,
                       struct error *err) MUST_USE;

/* Cuts one off the front of *xattrs; false at the end. Only for those of a checked entry. */
bool tree_xattr_next(struct str *xattrs, struct str *name, struct str *value);
