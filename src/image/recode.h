/* An image with its layers in another coding, for tools that read no zstd. */
#pragma once

#include "image/store.h"

/* The image whose layers are the same tars in `coding`; *made is its digest, the same one when
 * nothing had to change. It has no reference: it stays as long as the caller's image_work. */
bool image_recode(struct image_store *store, const char *digest, enum layer_coding coding,
                  char made[DIGEST_TEXT], struct error *err) MUST_USE;
