/* Ext4 file systems for machines, written into a file without root and without a mount.
 *
 * Equal input gives equal bytes, on every host: entries are sorted, holes are found by content, and
 * all times come from the files. What is written has no journal; a reader of the whole file finds
 * nothing that e2fsck would change. The file must be empty; nothing is synced.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* Part of the name of whatever is kept: raised when the same input gives other bytes. */
#define EXT4_WRITER "helmr ext4 1"

struct ext4_plan {
    const char *const *layers; /* unpacked layers as image_unpack makes them, lowest first */
    size_t n_layers;
    int64_t size_bytes; /* of the file; 0: as needed */
    struct str seed;    /* says which content it is: identity and hash order come from it */
};

/* The layers merged as overlayfs would: whiteouts and opaque folders applied, devices left out. */
bool ext4_write(const struct ext4_plan *plan, int fd, struct error *err) MUST_USE;

/* One folder as a project's archive has it: root's, modes 0755 and 0644, time zero, no links
 * between files. size_bytes 0: as needed. */
bool ext4_write_tree(int folder, int fd, int64_t size_bytes, struct str seed,
                     struct error *err) MUST_USE;

/* An empty one to write on. Of its size only a few blocks are really there. */
bool ext4_make_empty(int fd, int64_t size_bytes, struct error *err) MUST_USE;
