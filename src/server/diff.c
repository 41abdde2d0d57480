#include "server/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/own.h"
#include "base/text_diff.h"

const char *diff_kind_name(enum diff_kind kind)
{
    switch (kind) {
    case DIFF_ADDED: return "added";
    case DIFF_MODIFIED: return "modified";
    case DIFF_DELETED: return "deleted";
    case DIFF_RENAMED: return "renamed";
    case DIFF_TYPE_CHANGED: return "type_changed";
    case DIFF_MODE_CHANGED: return "mode_changed";
    }
    abort();
}

static bool is_below(struct str path, struct str folder)
{
    return path.len > folder.len && path.ptr[folder.len] == '/' &&
           memcmp(path.ptr, folder.ptr, folder.len) == 0;
}

static bool is_wanted(const struct diff *diff, struct str path)
{
    return diff->within.len == 0 || str_equal(path, diff->within) || is_below(path, diff->within);
}

static bool note(struct diff *diff, enum diff_kind kind, struct str path,
                 const struct node_entry *before, const struct node_entry *after, struct error *err)
{
    if (!is_wanted(diff, path))
        return true;
    if (diff->n == DIFF_CHANGES_MAX)
        return error_set(err, ERR_TOO_LARGE, "more than %d paths differ: narrow it with path",
                         DIFF_CHANGES_MAX);
    if (diff->n == diff->room) {
        diff->room = diff->room ? 2 * diff->room : 64;
        diff->changes = alloc_more(diff->changes, diff->room * sizeof *diff->changes);
    }
    diff->changes[diff->n++] = (struct diff_change){kind, path, {0}, before, after};
    return true;
}

static bool is_folder(const struct node_entry *entry)
{
    return entry && entry->kind == TREE_DIRECTORY;
}

/* What a version marks as gone, or is laid over, is there without it, whatever it is. */
static bool is_there(const struct node_entry *entry, const struct node_entry *other)
{
    if (entry)
        return entry->kind != TREE_WHITEOUT;
    return other && (other->kind == TREE_WHITEOUT || other->is_cover);
}

static bool has_other_owner(const struct node_entry *a, const struct node_entry *b)
{
    return a->mode != b->mode || a->uid != b->uid || a->gid != b->gid;
}

static bool has_other_content(const struct node_entry *a, const struct node_entry *b)
{
    return !str_equal(a->target, b->target) || !str_equal(a->xattrs, b->xattrs) ||
           a->is_opaque != b->is_opaque ||
           (a->kind == TREE_FILE && memcmp(a->digest, b->digest, sizeof a->digest) != 0);
}

/* Of two that are both there. */
static bool compare_entries(struct diff *diff, struct str path, const struct node_entry *before,
                            const struct node_entry *after, struct error *err)
{
    if (before->kind != after->kind)
        return note(diff, DIFF_TYPE_CHANGED, path, before, after, err);
    if (has_other_content(before, after))
        return note(diff, DIFF_MODIFIED, path, before, after, err);
    return !has_other_owner(before, after) ||
           note(diff, DIFF_MODE_CHANGED, path, before, after, err);
}

static bool load(struct diff *diff, struct tree_reader *reader, const struct node_entry *entry,
                 struct node *node, struct error *err)
{
    *node = (struct node){0};
    if (!entry || entry->kind != TREE_DIRECTORY)
        return true;
    return tree_reader_node(reader, entry->chunks, entry->n_chunks, &diff->arena, node, err);
}

static bool walk(struct diff *diff, struct str path, const struct node *before,
                 const struct node *after, struct error *err);

/* Everything below a path, of which at least one side is a directory. */
static bool descend(struct diff *diff, struct str path, const struct node_entry *before,
                    const struct node_entry *after, struct error *err)
{
    struct node was, is;

    if (is_folder(before) && is_folder(after) &&
        memcmp(before->digest, after->digest, sizeof before->digest) == 0)
        return true;
    if (++diff->depth > TREE_DEPTH_MAX)
        return error_set(err, ERR_DAMAGED, "a stored tree is deeper than any workspace");
    bool fine = load(diff, diff->from, before, &was, err) &&
                load(diff, diff->to, after, &is, err) && walk(diff, path, &was, &is, err);
    diff->depth--;
    return fine;
}

static bool is_empty_folder(struct diff *diff, struct tree_reader *reader,
                            const struct node_entry *entry, bool *is_empty, struct error *err)
{
    struct node node;

    *is_empty = false;
    if (!is_folder(entry))
        return true;
    if (!load(diff, reader, entry, &node, err))
        return false;
    *is_empty = node.n == 0;
    return true;
}

/* Of a directory that came or went only what is in it is told, if there is anything. */
static bool appear(struct diff *diff, enum diff_kind kind, struct str path,
                   const struct node_entry *before, const struct node_entry *after,
                   struct error *err)
{
    const struct node_entry *entry = kind == DIFF_ADDED ? after : before;
    bool is_empty;

    if (!is_empty_folder(diff, kind == DIFF_ADDED ? diff->to : diff->from, entry, &is_empty, err))
        return false;
    return (is_folder(entry) && !is_empty) || note(diff, kind, path, before, after, err);
}

static bool compare(struct diff *diff, struct str path, const struct node_entry *before,
                    const struct node_entry *after, struct error *err)
{
    bool was = is_there(before, after), is = is_there(after, before);
    bool fine = true;

    if (before && before->kind == TREE_WHITEOUT)
        before = NULL;
    if (after && after->kind == TREE_WHITEOUT)
        after = NULL;
    if (before && after)
        fine = compare_entries(diff, path, before, after, err);
    else if (was != is)
        fine = appear(diff, is ? DIFF_ADDED : DIFF_DELETED, path, before, after, err);
    else if (was && !is_folder(before) && !is_folder(after))
        fine = note(diff, DIFF_MODIFIED, path, before, after, err);
    return fine &&
           ((!is_folder(before) && !is_folder(after)) || descend(diff, path, before, after, err));
}

static int order(const struct node_entry *a, const struct node_entry *b)
{
    size_t common = a->name.len < b->name.len ? a->name.len : b->name.len;
    int by_bytes = memcmp(a->name.ptr, b->name.ptr, common);

    return by_bytes ? by_bytes : (a->name.len > b->name.len) - (a->name.len < b->name.len);
}

static struct str join(struct diff *diff, struct str folder, struct str name)
{
    return str_of(arena_printf(&diff->arena, "%.*s%s%.*s", (int)folder.len,
                               folder.ptr ? folder.ptr : "", folder.len ? "/" : "", (int)name.len,
                               name.ptr));
}

static bool walk(struct diff *diff, struct str path, const struct node *before,
                 const struct node *after, struct error *err)
{
    size_t i = 0, k = 0;

    while (i < before->n || k < after->n) {
        const struct node_entry *was = i < before->n ? &before->entries[i] : NULL;
        const struct node_entry *is = k < after->n ? &after->entries[k] : NULL;
        int side = !was ? 1 : !is ? -1 : order(was, is);
        const struct node_entry *named = side <= 0 ? was : is;

        if (!named)
            break;
        was = side <= 0 ? was : NULL;
        is = side >= 0 ? is : NULL;
        i += was != NULL;
        k += is != NULL;
        struct str at = join(diff, path, named->name);
        bool is_on_way = is_wanted(diff, at) || is_below(diff->within, at);
        if (is_on_way && !compare(diff, at, was, is, err))
            return false;
    }
    return true;
}

static bool may_be_renamed(const struct node_entry *entry)
{
    return entry && entry->kind == TREE_FILE && entry->size > 0;
}

static struct str digest_of(const struct node_entry *entry)
{
    return (struct str){(const char *)entry->digest, sizeof entry->digest};
}

/* A file that went and one that came with the same bytes are one that moved. */
static void find_renames(struct diff *diff)
{
    AUTO(map_finish) struct map gone = {0};
    size_t kept = 0;

    for (size_t i = diff->n; i-- > 0;) {
        struct diff_change *change = &diff->changes[i];
        if (change->kind == DIFF_DELETED && may_be_renamed(change->before))
            map_put(&gone, digest_of(change->before), change);
    }
    for (size_t i = 0; i < diff->n; i++) {
        struct diff_change *change = &diff->changes[i];
        if (change->kind != DIFF_ADDED || !may_be_renamed(change->after))
            continue;
        struct diff_change *origin = map_remove(&gone, digest_of(change->after));
        if (!origin)
            continue;
        change->kind = DIFF_RENAMED;
        change->path_before = origin->path;
        change->before = origin->before;
        origin->path = (struct str){0}; /* told with the new name */
    }
    for (size_t i = 0; i < diff->n; i++)
        if (diff->changes[i].path.len > 0)
            diff->changes[kept++] = diff->changes[i];
    diff->n = kept;
}

static bool load_root(struct diff *diff, struct tree_reader *reader, struct node *node,
                      struct error *err)
{
    *node = (struct node){0};
    return !reader ||
           tree_reader_node(reader, reader->root, reader->n_root, &diff->arena, node, err);
}

bool diff_find(struct diff *diff, struct error *err)
{
    struct node before, after;

    if (diff->from && diff->to && strcmp(diff->from->tree_digest, diff->to->tree_digest) == 0)
        return true;
    if (!load_root(diff, diff->from, &before, err) || !load_root(diff, diff->to, &after, err) ||
        !walk(diff, (struct str){0}, &before, &after, err))
        return false;
    find_renames(diff);
    return true;
}

void diff_finish(struct diff *diff)
{
    free(diff->changes);
    arena_finish(&diff->arena);
}

/* What a side of a change says; nothing where the file is not. */
static bool read_side(struct tree_reader *reader, const struct node_entry *entry, struct buf *text,
                      enum diff_text *result, struct error *err)
{
    *text = (struct buf){.max = TEXT_DIFF_MAX};
    if (!entry)
        return true;
    if (entry->size > TEXT_DIFF_MAX) {
        *result = DIFF_TOO_LARGE;
        return true;
    }
    if (!tree_reader_file(reader, entry, text, err))
        return false;
    if (!text_diff_takes(buf_str(text)))
        *result = DIFF_BINARY;
    return true;
}

static bool put_header(struct buf *out, const char *sign, const char *side, struct str path,
                       struct error *err)
{
    return buf_append(out, str_of(sign), err) && buf_append(out, str_of(side), err) &&
           buf_append(out, path, err) && buf_append(out, STR("\n"), err);
}

static bool put_headers(struct buf *out, const struct diff_change *change, struct error *err)
{
    const struct str none = STR("/dev/null");

    return put_header(out, "--- ", change->before ? "a/" : "", change->before ? change->path : none,
                      err) &&
           put_header(out, "+++ ", change->after ? "b/" : "", change->after ? change->path : none,
                      err);
}

bool diff_patch(struct diff *diff, const struct diff_change *change, struct buf *out,
                enum diff_text *result, struct error *err)
{
    AUTO(buf_finish) struct buf before = {0};
    AUTO(buf_finish) struct buf after = {0};
    bool is_file = (!change->before || change->before->kind == TREE_FILE) &&
                   (!change->after || change->after->kind == TREE_FILE) &&
                   (change->before || change->after);
    bool is_content =
        change->kind == DIFF_ADDED || change->kind == DIFF_MODIFIED || change->kind == DIFF_DELETED;

    *result = DIFF_NO_TEXT;
    if (!is_file || !is_content)
        return true;
    if (!read_side(diff->from, change->before, &before, result, err) ||
        !read_side(diff->to, change->after, &after, result, err))
        return false;
    if (*result != DIFF_NO_TEXT)
        return true;
    *result = DIFF_TEXT;
    return put_headers(out, change, err) && text_diff(buf_str(&before), buf_str(&after), out, err);
}
