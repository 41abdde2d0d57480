/* Headers of a tar archive, one entry at a time: ustar, with pax records for what does not fit it.
 *
 * The same entry gives the same bytes: no names of owners, and a pax record only where a number or
 * name needs one.
 */
#pragma once

#include "blob/node.h"

enum { TAR_BLOCK = 512 };

/* As large as the headers of one entry can become. */
enum { TAR_HEADERS_MAX = 2 * TREE_PATH_MAX + 4 * TREE_XATTRS_MAX };

/* `path` stands in for the entry's name. With `link` it is another name of that path, which came
 * before; else a file's contents and tar_pad follow. */
bool tar_header_put(const struct node_entry *entry, struct str path, struct str link,
                    struct buf *out, struct error *err) MUST_USE;

/* Zeros up to a whole block after `size` bytes. */
bool tar_pad_put(uint64_t size, struct buf *out, struct error *err) MUST_USE;

/* Two blocks of zeros. */
bool tar_end_put(struct buf *out, struct error *err) MUST_USE;
