/* multipart/form-data out of a spooled file, one part after the other, without copying it.
 *
 * Part headers are bounded; a part's body is given as an offset and a length into the file.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct multipart {
    int fd;
    uint64_t len, at;
    char boundary[80];
    bool over;
};

struct multipart_part {
    char name[64];
    char filename[256];
    uint64_t offset, len;
};

bool multipart_begin(struct multipart *parts, struct str content_type, int fd, uint64_t len,
                     struct error *err) MUST_USE;

/* *found false at the closing boundary. ERR_INVALID for anything malformed. */
bool multipart_next(struct multipart *parts, struct multipart_part *part, bool *found,
                    struct error *err) MUST_USE;
