/* Files of a workspace as its versions hold them, read from the store without a guest.
 *
 * A path is relative to the workspace, with or without slashes around it; links are shown and
 * never followed. What an image holds below a version is in none, and what a version marks as gone
 * is not there.
 */
#pragma once

#include "base/json.h"
#include "blob/tree_reader.h"
#include "server/context.h"

enum files_source { FILES_CURRENT, FILES_VERSION, FILES_LIVE };

/* What a request asks for. The path is canonical: without "." and empty parts; empty: the root. */
struct files_query {
    char workspace_id[ID_TEXT], version_id[ID_TEXT];
    enum files_source source;
    struct str path;
};

/* Reads ?path, ?source and ?version_id. */
bool files_query_read(struct call *call, struct files_query *query, struct error *err) MUST_USE;

/* The canonical form of a path, in the arena. ERR_INVALID for one that no workspace can have. */
bool files_path(struct str raw, struct arena *arena, struct str *path, struct error *err) MUST_USE;

/* An open version. It is made on the heap, because a stream keeps it after its request is over. */
struct files {
    struct object_backend backend;
    struct key_ring ring;
    struct tree_reader reader;
    struct arena arena; /* of the nodes that were read */
    struct node_entry root;
    char version_id[ID_TEXT];
};

/* ERR_WORKSPACE_NOT_FOUND, ERR_VERSION_NOT_FOUND, ERR_NO_CURRENT_VERSION. */
bool files_open_version(struct call *call, const struct files_query *query, struct files **files,
                        struct error *err) MUST_USE;
void files_close(struct files *files); /* accepts NULL */

static inline void files_release(struct files **files)
{
    files_close(*files);
}
#define AUTO_FILES AUTO(files_release) struct files *

/* What is at the path, for as long as the files are open. ERR_FILE_NOT_FOUND. */
bool files_find(struct files *files, struct str path, const struct node_entry **entry,
                struct error *err) MUST_USE;

/* The same, when it has to be of that kind: ERR_FILE_NOT_DIRECTORY or ERR_FILE_NOT_REGULAR. */
bool files_find_kind(struct files *files, struct str path, enum tree_kind kind,
                     const struct node_entry **entry, struct error *err) MUST_USE;

/* What a directory holds. */
bool files_node(struct files *files, const struct node_entry *entry, struct arena *arena,
                struct node *node, struct error *err) MUST_USE;

/* The entry of that name, or NULL. One that is marked as gone counts as none. */
const struct node_entry *files_child(const struct node *node, struct str name);

/* The last part of a path. */
struct str files_name(struct str path);

/* An entry as an object of the API. */
void files_write_entry(struct json_writer *json, const char *name, struct str path,
                       const struct node_entry *entry);

/* A query parameter that is 1 or 0, false when absent. */
bool files_flag_read(struct call *call, const char *name, bool *is_set, struct error *err) MUST_USE;
