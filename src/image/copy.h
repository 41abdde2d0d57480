/* Copy steps: new entries for an image, placed in its merged view and written as one layer.
 *
 * Destinations follow the image's symbolic links inside its root only. Everything is root's.
 */
#pragma once

#include "image/layer.h"
#include "image/source.h"

struct copy {
    const struct view *view; /* the image so far */
    struct layer_writer *writer;
    struct arena *arena;
    const char *workdir;
    char last_made[TAR_PATH]; /* the newest folder written: its parents need no second look */
};

bool copy_source(struct copy *copy, const struct source *source, const char *dest,
                 struct error *err) MUST_USE;

/* A file or folder of another image; a folder's content goes into dest. */
bool copy_image(struct copy *copy, const struct view *from, const char *path, const char *dest,
                struct error *err) MUST_USE;

/* Makes the folder with its parents where absent; `path` may be relative to the workdir. */
bool copy_folder(struct copy *copy, const char *path, struct error *err) MUST_USE;
