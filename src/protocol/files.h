/* Entries of a directory as FILES_RESULT carries them: facts of each, one after the other.
 *
 *     {u8 type, u32 mode, u64 size, u64 mtime_ns, u16 name length, u16 target length, name, target}
 *
 * A host believes nothing of it: what was taken is of a known type, with a name that a directory
 * could hold.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum { FILES_NAME_MAX = 255, FILES_TARGET_MAX = 4096, FILES_DATA_MAX = 262144 };

enum files_op { FILES_LIST = 1, FILES_STAT = 2, FILES_READ = 3 };

enum files_type { FILES_FILE = 1, FILES_DIRECTORY = 2, FILES_SYMLINK = 3, FILES_OTHER = 4 };

struct files_entry {
    enum files_type type;
    uint32_t mode; /* the permission bits, 07777 */
    uint64_t size;
    int64_t mtime_ns;
    struct str name, target; /* target: of a symlink. The workspace itself has no name */
};

bool files_entry_append(struct buf *out, const struct files_entry *entry,
                        struct error *err) MUST_USE;

/* Cuts one off the front of *rest, which borrows; ERR_INVALID for what no agent writes. Not at the
 * end. */
bool files_entry_take(struct str *rest, struct files_entry *entry, struct error *err) MUST_USE;
