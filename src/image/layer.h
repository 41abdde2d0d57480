/* Layers as tar files: made from a folder or entry by entry, and put back into a folder.
 *
 * The same tree gives the same bytes: folders sorted by bytes, whole seconds, no
 * names of owners. What a layer hides of those below is a whiteout entry in the tar and an
 * overlayfs whiteout on disk.
 */
#pragma once

#include <zstd.h>

#include "image/tar_reader.h"
#include "image/view.h"

struct layer_writer {
    int fd; /* borrowed */
    bool is_compressed;
    ZSTD_CCtx *zstd;
    struct sha256 blob, diff;
    struct archive *tar;
    char *packed;
    int64_t size, entries; /* bytes of the blob, entries so far */
    struct error err;
    bool failed, is_dropped;
};

/* The writer must not move between init and finish. */
bool layer_writer_init(struct layer_writer *writer, int fd, bool is_compressed,
                       struct error *err) MUST_USE;
void layer_writer_finish(struct layer_writer *writer);

void layer_entry_free(struct archive_entry **entry);

/* Makes the entry a link to where the one on disk points. */
bool layer_entry_link(struct archive_entry *entry, int folder, const char *name,
                      struct error *err) MUST_USE;

/* One entry; a regular file's content is read from `content`, else -1. */
bool layer_writer_put(struct layer_writer *writer, struct archive_entry *entry, int content,
                      struct error *err) MUST_USE;

/* A folder as `copy` and `workdir` make it: root's, epoch time. */
bool layer_writer_folder(struct layer_writer *writer, const char *path, mode_t mode,
                         struct error *err) MUST_USE;

/* Ends the tar; fills digest, diff_id and size of *layer. */
bool layer_writer_end(struct layer_writer *writer, struct image_layer *layer,
                      struct error *err) MUST_USE;

enum layer_tree {
    LAYER_OF_OVERLAY, /* an overlayfs upper folder: markers become whiteout entries */
    LAYER_OF_ROOT,    /* a whole root: device nodes left out */
    LAYER_OF_PROJECT, /* archive_pack: owners and times zeroed, no links between files */
};

/* Writes every entry below the folder. Times after `newest` (seconds, 0: no limit) become it. */
bool layer_write_tree(struct layer_writer *writer, int folder, enum layer_tree kind, int64_t newest,
                      struct error *err) MUST_USE;

/* Unpacks one blob, checked against its digests, into an empty folder. */
bool layer_apply(const struct image_layer *layer, int blob, int folder, const struct view *below,
                 struct tar_budget *budget, struct error *err) MUST_USE;

/* The same tar in another coding, for tools that do not read zstd: `blob` is checked against the
 * layer's digests and written to `out`; *made differs from *layer in digest, size and coding only.
 * The same tar gives the same bytes. */
bool layer_recode(const struct image_layer *layer, int blob, enum layer_coding coding, int out,
                  struct image_layer *made, struct error *err) MUST_USE;
