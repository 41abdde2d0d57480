/* Lists everything of a project that goes into its archive, sorted by path. */
#pragma once

#include "base/arena.h"
#include "cli/tar.h"
#include "cli/upload.h"

struct walk {
    struct tar_entry *entries;
    size_t n, room;
    uint64_t bytes;
    struct arena arena; /* of paths and targets */
};

/* ERR_INVALID names the file that cannot be archived and what to do about it. */
bool walk_collect(int root_fd, const struct upload_request *request, struct walk *walk,
                  struct error *err) MUST_USE;
void walk_finish(struct walk *walk);
