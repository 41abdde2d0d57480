/* What may be in an archive: the checks on one entry, before anything is written.
 *
 * An accepted path is relative, without "." and "..", without empty segments, within the
 * limits of a Linux path and no deeper than what can be removed again; the empty path is the root.
 * Nothing here touches the disk.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { TAR_PATH_MAX = 4095, TAR_PATH = TAR_PATH_MAX + 1, TAR_NAME_MAX = 255, TAR_DEPTH_MAX = 256 };

/* Writes the canonical path. ERR_ARCHIVE_INVALID names what is wrong. */
bool tar_path(struct str raw, char path[TAR_PATH], struct error *err) MUST_USE;

/* What a name means in a layer. */
enum tar_marker {
    TAR_PLAIN,
    TAR_WHITEOUT,    /* hides the name behind ".wh." */
    TAR_OPAQUE,      /* hides all of the folder it lies in */
    TAR_BOOKKEEPING, /* ".wh..wh.*" of older storage drivers: left out */
    TAR_BAD_MARKER,
};
enum tar_marker tar_marker(const char *path, const char **hidden);

/* Whether a symbolic link at `path` leads to a place inside the root, by text alone. */
bool tar_link_stays_inside(const char *path, struct str target);

/* How much is left to take of one archive, or of all layers of one image. */
struct tar_budget {
    int64_t bytes, entries;
};
enum { TAR_ENTRIES_MAX = 2000000 };
#define TAR_BYTES_MAX ((int64_t)32 << 30)

bool tar_spend(struct tar_budget *budget, int64_t bytes, struct error *err) MUST_USE;

/* Whether `out` bytes may come from `in` compressed ones. */
bool tar_ratio_is_sane(int64_t in, int64_t out);
