/* Puts the entries of an archive below an empty folder.
 *
 * Each entry is placed by our own checks with openat2, never through a symbolic link; nothing is
 * written outside the folder whatever the archive says. Of two entries for one place the last
 * counts in a layer; a project must not have them.
 */
#pragma once

#include "image/tar_reader.h"
#include "image/view.h"

enum extract_kind {
    EXTRACT_LAYER, /* owners, modes, attributes, links, fifos; whiteouts as overlayfs wants them */
    EXTRACT_PROJECT, /* plain files, folders and symbolic links that stay inside, nothing else */
};

struct extract_spec {
    enum extract_kind kind;
    int root;                 /* the folder, borrowed */
    const struct view *below; /* the layers below, or NULL */
    struct tar_budget *budget;
};

bool extract_archive(const struct extract_spec *spec, struct tar_reader *reader,
                     struct error *err) MUST_USE;

/* Attributes a layer carries: user.* and file capabilities. */
bool extract_keeps_attribute(const char *name);

/* The mark of a folder that hides everything below it. */
#define OVERLAY_OPAQUE "trusted.overlay.opaque"
