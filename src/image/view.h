/* What a stack of unpacked layers looks like merged, worked out without a mount.
 *
 * Whiteouts and opaque folders count as overlayfs counts them. Paths are relative to the image's
 * root, without leading slash; "" is the root.
 */
#pragma once

#include <sys/stat.h>

#include "image/disk.h"
#include "image/tar.h"

enum { VIEW_LAYERS_MAX = 128 };

/* Open folders, lowest first. */
struct view {
    int layers[VIEW_LAYERS_MAX];
    size_t n;
};

void view_finish(struct view *view);
bool view_open(const char *const *folders, size_t n, struct view *view, struct error *err) MUST_USE;

struct view_place {
    bool is_there;
    struct stat facts;
    size_t layer;                               /* where it comes from: the highest that has it */
    size_t folders[VIEW_LAYERS_MAX], n_folders; /* of a folder: all that it merges, highest first */
};

/* Looks without following symbolic links. A path below something that is no folder is absent, and
 * then *blocked (unless NULL) says so. */
bool view_look(const struct view *view, const char *path, struct view_place *place, bool *blocked,
               struct error *err) MUST_USE;

/* Follows every symbolic link inside the root. What does not exist stays as written. A path that
 * climbs over the root is refused with ERR_UNPROCESSABLE. `path` may be absolute. */
bool view_resolve(const struct view *view, const char *path, char resolved[TAR_PATH],
                  struct error *err) MUST_USE;

/* The names in a merged folder, sorted. */
bool view_list(const struct view *view, const char *path, const struct view_place *place,
               struct disk_names *names, struct error *err) MUST_USE;
