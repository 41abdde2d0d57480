/* The little TOML our own files are made of: `key = "value"` lines, comments, nothing else.
 *
 * Keys are bare or quoted and appear once; what is not understood is an error that names the
 * line, so that a file edited by hand is never half believed.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"

enum { TOML_PAIRS_MAX = 256, TOML_BYTES_MAX = 64 * 1024 };

struct toml_pair {
    struct str key, value;
};

/* The pairs live in the arena, in the order written. ERR_INVALID names the line. */
bool toml_parse(struct str text, struct arena *arena, struct toml_pair **pairs, size_t *n,
                struct error *err) MUST_USE;

/* One line that toml_parse reads back. */
bool toml_append(struct buf *out, const struct toml_pair *pair, struct error *err) MUST_USE;
