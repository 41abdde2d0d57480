/* Tar archives that are equal whenever the names and bytes in them are: no owners and, unless an
 * entry says them, no times, and of the mode only whether a file may be executed. What does not
 * fit a header is a pax record.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum tar_kind { TAR_FILE, TAR_DIRECTORY, TAR_LINK };

struct tar_entry {
    enum tar_kind kind;
    struct str path;   /* relative; a directory's without a slash at the end */
    struct str target; /* of a link */
    uint64_t size;     /* of a file */
    bool is_executable;
    bool has_facts; /* these two count */
    unsigned mode;
    int64_t mtime_ns;
};

/* Where the bytes go. */
typedef bool tar_write(void *arg, struct str bytes, struct error *err);

/* The headers of one entry; a file's bytes and tar_pad follow. */
bool tar_header(const struct tar_entry *entry, tar_write *write, void *arg,
                struct error *err) MUST_USE;
bool tar_pad(uint64_t size, tar_write *write, void *arg, struct error *err) MUST_USE;
bool tar_end(tar_write *write, void *arg, struct error *err) MUST_USE;
