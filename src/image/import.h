/* Folders as layers, for imports and for the local base images. */
#pragma once

#include "image/store.h"

/* A whole root as one layer; times after `newest` seconds become it (0: no limit). */
bool import_folder(struct image_store *store, const char *folder, int64_t newest,
                   struct image_layer *layer, struct error *err) MUST_USE;
