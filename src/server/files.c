#include "server/files.h"

#include <stdlib.h>

#include "base/own.h"
#include "base/time.h"
#include "server/caller.h"
#include "server/page.h"
#include "store/queries.h"

enum { NS_PER_MS = 1000000, ROOT_MODE = 0755 };

bool files_path(struct str raw, struct arena *arena, struct str *path, struct error *err)
{
    char *text = arena_alloc(arena, raw.len + 1);
    struct str rest = raw, part;
    size_t len = 0, depth = 0;

    if (raw.len > TREE_PATH_MAX)
        return error_set(err, ERR_INVALID, "a path has at most %d bytes", TREE_PATH_MAX);
    if (raw.len > 0 && memchr(raw.ptr, '\0', raw.len))
        return error_set(err, ERR_INVALID, "a path has no NUL");
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_equal(part, STR(".")))
            continue;
        if (str_equal(part, STR("..")))
            return error_set(err, ERR_INVALID, "a path leads nowhere by \"..\"");
        if (part.len > TREE_NAME_MAX || ++depth > TREE_DEPTH_MAX)
            return error_set(err, ERR_INVALID, "names have at most %d bytes, paths %d parts",
                             TREE_NAME_MAX, TREE_DEPTH_MAX);
        if (len > 0)
            text[len++] = '/';
        memcpy(text + len, part.ptr, part.len);
        len += part.len;
    }
    *path = (struct str){text, len};
    return true;
}

static bool read_source(struct call *call, struct files_query *query, struct error *err)
{
    struct str text = {0};
    bool found;

    if (!call_query(call, "source", &text, &found, err) ||
        !call_query_id(call, "version_id", query->version_id, err))
        return false;
    bool has_version = query->version_id[0] != '\0';
    query->source = has_version ? FILES_VERSION : FILES_CURRENT;
    if (!found || (str_equal(text, STR("version")) && has_version) ||
        (str_equal(text, STR("current")) && !has_version))
        return true;
    query->source = FILES_LIVE;
    return (str_equal(text, STR("live")) && !has_version) ||
           error_set(err, ERR_INVALID, "source is current or live, or version with a version_id");
}

bool files_query_read(struct call *call, struct files_query *query, struct error *err)
{
    struct str raw = {0};
    bool found;

    *query = (struct files_query){0};
    if (!call_id(call, 0, query->workspace_id, err)) {
        err->code = ERR_WORKSPACE_NOT_FOUND;
        return false;
    }
    return read_source(call, query, err) && call_query(call, "path", &raw, &found, err) &&
           files_path(raw, call->arena, &query->path, err);
}

static bool find_version(struct call *call, const struct files_query *query, const char **manifest,
                         struct files *files, struct error *err)
{
    const char *wanted = query->version_id;
    struct rows rows;
    AUTO_TX tx = NULL;

    if (!store_begin_read(server_of(call)->store, &tx, err) ||
        !STORE(tx, &files_version, call->arena, &rows, err, V_TEXT(call_environment(call)),
               V_TEXT(query->workspace_id), V_TEXT_OR_NULL(*wanted ? wanted : NULL)))
        return false;
    if (rows.n_rows == 0)
        return error_set(err, ERR_WORKSPACE_NOT_FOUND, "there is no workspace %s",
                         query->workspace_id);
    if (row_is_null(&rows, 0, FILES_VERSION_ID) && *wanted)
        return error_set(err, ERR_VERSION_NOT_FOUND, "the workspace has no version %s", wanted);
    if (row_is_null(&rows, 0, FILES_VERSION_ID))
        return error_set(err, ERR_NO_CURRENT_VERSION, "nothing was stored in the workspace yet");
    *manifest = row_text(&rows, 0, FILES_VERSION_MANIFEST_ID);
    snprintf(files->version_id, ID_TEXT, "%s", row_text(&rows, 0, FILES_VERSION_ID));
    files->root.mtime_ns = row_int(&rows, 0, FILES_VERSION_CREATED_MS) * NS_PER_MS;
    return true;
}

/* The root has no entry of its own in a tree. */
static void set_root(struct files *files)
{
    files->root.kind = TREE_DIRECTORY;
    files->root.mode = ROOT_MODE;
    files->root.chunks = files->reader.root;
    files->root.n_chunks = files->reader.n_root;
}

bool files_open_version(struct call *call, const struct files_query *query, struct files **files,
                        struct error *err)
{
    struct server *server = server_of(call);
    AUTO_FILES made = alloc(sizeof *made);
    const char *manifest;

    *made = (struct files){.backend = object_backend_of(server->blobs)};
    if (!find_version(call, query, &manifest, made, err) ||
        !keys_ring(&server->keys, &made->ring, err) ||
        !tree_reader_init(&made->reader, &made->backend, &made->ring.keys, manifest, err))
        return false;
    set_root(made);
    *files = TAKE(made);
    return true;
}

void files_close(struct files *files)
{
    if (!files)
        return;
    tree_reader_finish(&files->reader);
    key_ring_finish(&files->ring);
    arena_finish(&files->arena);
    free(files);
}

bool files_node(struct files *files, const struct node_entry *entry, struct arena *arena,
                struct node *node, struct error *err)
{
    return tree_reader_node(&files->reader, entry->chunks, entry->n_chunks, arena, node, err);
}

const struct node_entry *files_child(const struct node *node, struct str name)
{
    const struct node_entry *entry = node_find(node, name);

    return entry && entry->kind != TREE_WHITEOUT ? entry : NULL;
}

static bool not_found(struct str path, struct error *err)
{
    return error_set(err, ERR_FILE_NOT_FOUND, "there is no %.*s", (int)path.len, path.ptr);
}

bool files_find(struct files *files, struct str path, const struct node_entry **entry,
                struct error *err)
{
    const struct node_entry *at = &files->root;
    struct str rest = path.len > 0 ? path : (struct str){0}, part;

    while (str_split(&rest, '/', &part)) {
        struct node node;

        if (at->kind == TREE_SYMLINK)
            return error_set(err, ERR_FILE_NOT_FOUND,
                             "%.*s leads through a symbolic link, which is not followed",
                             (int)path.len, path.ptr);
        if (at->kind != TREE_DIRECTORY)
            return not_found(path, err);
        if (!files_node(files, at, &files->arena, &node, err))
            return false;
        at = files_child(&node, part);
        if (!at)
            return not_found(path, err);
    }
    *entry = at;
    return true;
}

bool files_find_kind(struct files *files, struct str path, enum tree_kind kind,
                     const struct node_entry **entry, struct error *err)
{
    if (!files_find(files, path, entry, err))
        return false;
    if ((*entry)->kind == kind)
        return true;
    return kind == TREE_DIRECTORY ? error_set(err, ERR_FILE_NOT_DIRECTORY, "%.*s is no directory",
                                              (int)path.len, path.ptr)
                                  : error_set(err, ERR_FILE_NOT_REGULAR, "%.*s is no regular file",
                                              (int)path.len, path.ptr);
}

struct str files_name(struct str path)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;

    if (!slash)
        return path;
    return (struct str){slash + 1, (size_t)(path.ptr + path.len - slash - 1)};
}

static const char *type_of(enum tree_kind kind)
{
    switch (kind) {
    case TREE_FILE: return "file";
    case TREE_DIRECTORY: return "directory";
    case TREE_SYMLINK: return "symlink";
    case TREE_FIFO:
    case TREE_WHITEOUT: break;
    }
    return "other";
}

/* Down, also before 1970. */
static int64_t to_ms(int64_t ns)
{
    return ns / NS_PER_MS - (ns % NS_PER_MS < 0);
}

void files_write_entry(struct json_writer *json, const char *name, struct str path,
                       const struct node_entry *entry)
{
    bool is_link = entry->kind == TREE_SYMLINK;

    json_open(json, name);
    json_text(json, "name", files_name(path));
    json_text(json, "path", path);
    json_string(json, "type", type_of(entry->kind));
    json_int(json, "size_bytes", (int64_t)(is_link ? entry->target.len : entry->size));
    json_int(json, "mode", entry->mode);
    json_time(json, "mtime", to_ms(entry->mtime_ns));
    if (is_link)
        json_text(json, "target", entry->target);
    json_close(json);
}

bool files_flag_read(struct call *call, const char *name, bool *is_set, struct error *err)
{
    struct str text = {0};
    bool found = false;

    if (!call_query(call, name, &text, &found, err))
        return false;
    *is_set = found && (str_equal(text, STR("1")) || str_equal(text, STR("true")));
    return !found || *is_set || str_equal(text, STR("0")) || str_equal(text, STR("false")) ||
           error_set(err, ERR_INVALID, "%s must be 1 or 0", name);
}
