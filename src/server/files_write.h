/* Changes of a workspace's files without a guest: a new version, made from the current one and
 * published as the current one, or nothing at all.
 *
 * There is one writer: while a run or a program writes, a change is refused. Of two changes at the
 * same time the later one is made again from what the first has left.
 */
#pragma once

#include "server/context.h"
#include "server/tree_edit.h"

/* Bytes of one file in one request or answer. */
#define FILES_CONTENT_MAX MIB(64)

/* Bytes of an archive: all a tree may hold, and its headers. */
#define FILES_ARCHIVE_MAX ((size_t)72 << 30)

/* What a request does to the tree. It may be done again, to another tree. */
typedef bool files_apply(struct tree_edit *edit, void *arg, struct error *err);

struct files_change {
    char workspace_id[ID_TEXT];
    files_apply *apply;
    void *arg;
    char version_id[ID_TEXT]; /* then current; the one before when nothing changed; or empty */
    bool is_parked;           /* a mount is on its way out: the call is made again */
};

/* With is_parked the response says so, and the handler returns. */
bool files_change_make(struct call *call, struct files_change *change, struct response *res,
                       struct error *err) MUST_USE;

/* PUT files/archive: entries of a tar at or below a directory. */
struct files_upload {
    int fd; /* read from its beginning */
    uint64_t len;
    struct str path;        /* of the directory */
    bool takes_place_owner; /* instead of the owners that the archive has */
    int64_t now_ns;
};
bool files_upload_apply(struct tree_edit *edit, void *upload, struct error *err);
