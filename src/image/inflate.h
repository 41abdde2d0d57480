/* The tar inside a blob, ahead of who reads it: read, decompressed, bounded and hashed on both
 * sides of the compression, by a thread of its own when there is enough to do.
 *
 * Whatever comes out was counted against its limit first. Behind a compressed stream nothing may
 * follow.
 */
#pragma once

#include "image/digest.h"

enum tar_coding { TAR_ONLY, TAR_MAY_BE_COMPRESSED };

struct inflate;

/* The descriptor is borrowed and read from where it stands. */
bool inflate_start(int fd, enum tar_coding coding, int64_t max_bytes, struct inflate **inflate,
                   struct error *err) MUST_USE;

/* The next piece, good until the next call; len 0 at the end. */
bool inflate_next(struct inflate *inflate, struct str *piece, struct error *err) MUST_USE;

/* What was read; to be asked after the end. */
void inflate_digests(struct inflate *inflate, char blob[DIGEST_TEXT], char diff[DIGEST_TEXT]);

/* May come at any time. */
void inflate_stop(struct inflate *inflate);
