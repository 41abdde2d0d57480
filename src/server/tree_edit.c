#include "server/tree_edit.h"

#include <stdlib.h>

#include "base/own.h"
#include "server/files.h"
#include "server/tree_edit_state.h"

enum { FOLDER_MODE = 0755 };

static struct edit_folder *make_folder(struct tree_edit *edit, struct edit_folder *above,
                                       struct edit_item *self)
{
    struct edit_folder *folder = arena_alloc(&edit->arena, sizeof *folder);

    *folder = (struct edit_folder){.above = above, .self = self, .next = edit->all};
    edit->all = folder;
    return folder;
}

struct tree_edit *tree_edit_create(const struct tree_edit_plan *plan)
{
    struct tree_edit *edit = alloc(sizeof *edit);

    *edit = (struct tree_edit){
        .plan = *plan,
        .store = tree_store_create(&plan->store),
        .contents = {.max = 2 * (size_t)CHUNK_MAX},
        .n_entries = (int64_t)plan->n_entries,
        .n_bytes = (int64_t)plan->n_bytes,
    };
    return edit;
}

void tree_edit_destroy(struct tree_edit *edit)
{
    if (!edit)
        return;
    for (struct edit_folder *folder = edit->all; folder; folder = folder->next) {
        free(folder->items);
        map_finish(&folder->names);
    }
    tree_store_destroy(edit->store);
    buf_finish(&edit->contents);
    arena_finish(&edit->arena);
    free(edit);
}

static struct edit_item *add_item(struct tree_edit *edit, struct edit_folder *folder,
                                  const struct node_entry *entry)
{
    struct edit_item *item = arena_alloc(&edit->arena, sizeof *item);

    if (folder->n == folder->room) {
        folder->room = folder->room ? 2 * folder->room : 16;
        folder->items = alloc_more(folder->items, folder->room * sizeof *folder->items);
    }
    *item = (struct edit_item){.entry = *entry};
    folder->items[folder->n++] = item;
    map_put(&folder->names, entry->name, item);
    return item;
}

static bool fill_folder(struct tree_edit *edit, struct edit_folder *folder,
                        const struct node_chunk *chunks, size_t n, struct error *err)
{
    struct node node;

    if (!tree_reader_node(edit->plan.store.base, chunks, n, &edit->arena, &node, err))
        return false;
    for (size_t i = 0; i < node.n; i++)
        add_item(edit, folder, &node.entries[i]);
    return true;
}

bool edit_folder_load(struct tree_edit *edit, struct edit_item *item, struct edit_folder *above,
                      struct error *err)
{
    if (item->folder)
        return true;
    item->folder = make_folder(edit, above, item);
    return fill_folder(edit, item->folder, item->entry.chunks, item->entry.n_chunks, err);
}

static bool load_root(struct tree_edit *edit, struct error *err)
{
    const struct tree_reader *base = edit->plan.store.base;

    if (edit->root)
        return true;
    edit->root = make_folder(edit, NULL, NULL);
    return !base || fill_folder(edit, edit->root, base->root, base->n_root, err);
}

static void touch(struct edit_folder *folder)
{
    for (; folder && !folder->is_changed; folder = folder->above)
        folder->is_changed = true;
}

static struct edit_item *find_item(const struct edit_folder *folder, struct str name)
{
    return map_find(&folder->names, name);
}

static bool is_there(const struct edit_item *item)
{
    return item && item->entry.kind != TREE_WHITEOUT;
}

static void drop_item(struct tree_edit *edit, struct edit_folder *folder, struct edit_item *item)
{
    map_remove(&folder->names, item->entry.name);
    item->is_gone = true;
    edit->n_entries--;
    touch(folder);
}

/* Whose a new entry is. In the root, where no directory says it, those of its neighbours. */
static void take_owner(const struct edit_folder *folder, struct node_entry *entry)
{
    const struct edit_item *from = folder->self;

    for (size_t i = 0; i < folder->n && !from; i++)
        if (!folder->items[i]->is_gone && is_there(folder->items[i]))
            from = folder->items[i];
    entry->uid = from ? from->entry.uid : 0;
    entry->gid = from ? from->entry.gid : 0;
}

/* In the place of `old`, which may be NULL: what an image has there stays hidden. */
static struct edit_item *place_item(struct tree_edit *edit, struct edit_folder *folder,
                                    struct edit_item *old, const struct node_entry *entry)
{
    struct node_entry placed = *entry;

    placed.name = arena_str(&edit->arena, entry->name);
    placed.is_cover = old && (old->entry.kind == TREE_WHITEOUT || old->entry.is_cover);
    placed.is_opaque = placed.kind == TREE_DIRECTORY && (placed.is_opaque || placed.is_cover);
    if (old)
        drop_item(edit, folder, old);
    edit->n_entries++;
    touch(folder);
    return add_item(edit, folder, &placed);
}

static struct edit_item *make_directory(struct tree_edit *edit, struct edit_folder *folder,
                                        struct edit_item *old, struct str name)
{
    struct node_entry entry = {
        .name = name,
        .kind = TREE_DIRECTORY,
        .mode = FOLDER_MODE,
        .mtime_ns = edit->plan.now_ns,
    };

    take_owner(folder, &entry);
    struct edit_item *item = place_item(edit, folder, old, &entry);
    item->folder = make_folder(edit, folder, item);
    item->folder->is_changed = true;
    return item;
}

/* The directory a path is in, and its name there. Without `makes` a missing one is *folder NULL. */
static bool find_folder(struct tree_edit *edit, struct str path, bool makes,
                        struct edit_folder **folder, struct str *name, struct error *err)
{
    struct str rest = path, part, next;

    if (!load_root(edit, err))
        return false;
    *folder = edit->root;
    if (!str_split(&rest, '/', &part) || part.len == 0)
        return error_set(err, ERR_INVALID, "the workspace itself cannot be replaced");
    for (; str_split(&rest, '/', &next); part = next) {
        struct edit_item *item = find_item(*folder, part);

        if (!is_there(item) && !makes) {
            *folder = NULL;
            return true;
        }
        if (!is_there(item))
            item = make_directory(edit, *folder, item, part);
        if (item->entry.kind != TREE_DIRECTORY)
            return error_set(err, ERR_FILE_NOT_DIRECTORY, "%.*s in %.*s is no directory",
                             (int)part.len, part.ptr, (int)path.len, path.ptr);
        if (!edit_folder_load(edit, item, *folder, err))
            return false;
        *folder = item->folder;
    }
    *name = part;
    return true;
}

static bool is_empty(const struct edit_folder *folder)
{
    for (size_t i = 0; i < folder->n; i++)
        if (!folder->items[i]->is_gone && is_there(folder->items[i]))
            return false;
    return true;
}

/* Takes the bytes of an item and everything below it out of the counts. */
static bool forget_item(struct tree_edit *edit, struct edit_item *item, struct error *err)
{
    struct edit_sum sum = {item->entry.n_below, item->entry.bytes_below, 0, 0, false};
    bool is_summed = item->entry.kind == TREE_DIRECTORY && !item->folder && item->entry.is_plain;

    if (!is_summed && !edit_sum(edit, item, &sum, err))
        return false;
    edit->n_entries -= (int64_t)sum.n_entries;
    edit->n_bytes -= (int64_t)sum.n_bytes;
    edit->must_count |= sum.has_links;
    return true;
}

/* Whether an entry of that kind may take the place of what is there. */
static bool make_way(struct tree_edit *edit, struct edit_folder *folder, struct edit_item *old,
                     enum tree_kind kind, int how, struct error *err)
{
    if (!is_there(old))
        return true;
    int len = (int)old->entry.name.len;
    const char *name = old->entry.name.ptr;
    if (old->entry.kind == TREE_DIRECTORY) {
        if (!edit_folder_load(edit, old, folder, err))
            return false;
        if (!is_empty(old->folder) || !(how & EDIT_REPLACES_ANY))
            return error_set(err, ERR_FILE_NOT_REGULAR, "%.*s is a directory", len, name);
    } else if (old->entry.kind != kind && !(how & EDIT_REPLACES_ANY)) {
        return kind == TREE_DIRECTORY
                   ? error_set(err, ERR_FILE_NOT_DIRECTORY, "%.*s is no directory", len, name)
                   : error_set(err, ERR_FILE_NOT_REGULAR, "%.*s is no regular file", len, name);
    }
    return forget_item(edit, old, err);
}

/* A directory that is there is changed, not replaced. */
static void change_directory(struct edit_folder *folder, struct edit_item *item,
                             const struct node_entry *entry, int how)
{
    struct node_entry *old = &item->entry;

    if (!(how & EDIT_MODE_OF_PLACE))
        old->mode = entry->mode;
    if (!(how & EDIT_OWNER_OF_PLACE)) {
        old->uid = entry->uid;
        old->gid = entry->gid;
        old->mtime_ns = entry->mtime_ns;
        old->xattrs = entry->xattrs;
    }
    touch(folder);
}

static struct node_entry entry_from(struct tree_edit *edit, const struct tree_entry *given,
                                    struct str name)
{
    return (struct node_entry){
        .name = name,
        .kind = given->kind,
        .mode = given->mode,
        .uid = given->uid,
        .gid = given->gid,
        .mtime_ns = given->mtime_ns,
        .target = given->target.len ? arena_str(&edit->arena, given->target) : (struct str){0},
        .xattrs = given->xattrs.len ? arena_str(&edit->arena, given->xattrs) : (struct str){0},
    };
}

bool tree_edit_put(struct tree_edit *edit, const struct tree_entry *given, int how,
                   struct error *err)
{
    struct edit_folder *folder;
    struct str name;

    if (!find_folder(edit, given->path, true, &folder, &name, err))
        return false;
    struct edit_item *old = find_item(folder, name);
    struct node_entry entry = entry_from(edit, given, name);
    bool is_folder = given->kind == TREE_DIRECTORY;

    if (is_folder && is_there(old) && old->entry.kind == TREE_DIRECTORY) {
        change_directory(folder, old, &entry, how);
        return true;
    }
    bool replaces = is_there(old) && old->entry.kind == given->kind;
    if ((how & EDIT_MODE_OF_PLACE) && replaces)
        entry.mode = old->entry.mode;
    if (how & EDIT_OWNER_OF_PLACE)
        take_owner(folder, &entry);
    if ((how & EDIT_OWNER_OF_PLACE) && replaces) {
        entry.uid = old->entry.uid;
        entry.gid = old->entry.gid;
    }
    if (!make_way(edit, folder, old, given->kind, how, err))
        return false;
    struct edit_item *item = place_item(edit, folder, old, &entry);
    if (is_folder) {
        item->folder = make_folder(edit, folder, item);
        item->folder->is_changed = true;
    }
    if (given->kind == TREE_FILE) {
        edit->file = item;
        blake2b_init(&edit->hash, (struct str){0});
    }
    return true;
}

bool tree_edit_bytes(struct tree_edit *edit, struct str bytes, bool is_last, struct error *err)
{
    struct node_entry *entry = &edit->file->entry;

    blake2b_update(&edit->hash, bytes);
    entry->size += bytes.len;
    edit->n_bytes += (int64_t)bytes.len;
    if (edit->n_bytes > (int64_t)TREE_BYTES_MAX && !edit->must_count)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE, "a workspace has at most 64 GiB");
    do {
        struct str piece = {bytes.ptr, bytes.len < CHUNK_MAX ? bytes.len : CHUNK_MAX};
        bool is_end = is_last && piece.len == bytes.len;

        if (piece.len > 0 && !buf_append(&edit->contents, piece, err))
            return false;
        struct str rest = buf_str(&edit->contents);
        if (!tree_store_cut(edit->store, &rest, is_end, err))
            return false;
        buf_consume(&edit->contents, edit->contents.len - rest.len);
        bytes = (struct str){bytes.ptr + piece.len, bytes.len - piece.len};
    } while (bytes.len > 0);
    if (!is_last)
        return true;
    blake2b_final(&edit->hash, entry->digest);
    entry->chunks = tree_store_take(edit->store, &edit->arena, &entry->n_chunks);
    return true;
}

bool tree_edit_find(struct tree_edit *edit, struct str path, const struct node_entry **entry,
                    struct error *err)
{
    struct edit_folder *folder;
    struct str name;

    *entry = NULL;
    if (!find_folder(edit, path, false, &folder, &name, err))
        return false;
    struct edit_item *item = folder ? find_item(folder, name) : NULL;
    if (is_there(item))
        *entry = &item->entry;
    return true;
}

/* Numbers of groups are their own names' hashes: no two files of a tree get the same, and nothing
 * else of it has to be read to know that. */
static uint64_t group_of(struct str path)
{
    uint8_t hash[BLAKE2B_LEN];
    uint64_t number;
    struct blake2b state;

    blake2b_init(&state, STR("helmr link"));
    blake2b_update(&state, path);
    blake2b_final(&state, hash);
    memcpy(&number, hash, sizeof number);
    return number | UINT64_C(1) << 63;
}

bool tree_edit_link(struct tree_edit *edit, struct str path, struct str target, struct error *err)
{
    struct edit_folder *folder;
    struct str name;

    if (!find_folder(edit, target, false, &folder, &name, err))
        return false;
    struct edit_item *first = folder ? find_item(folder, name) : NULL;
    if (!is_there(first) || first->entry.kind != TREE_FILE)
        return error_set(err, ERR_ARCHIVE_INVALID, "%.*s is a link to no file", (int)path.len,
                         path.ptr);
    if (str_equal(path, target))
        return true;
    if (first->entry.link_group == 0) {
        first->entry.link_group = group_of(target);
        touch(folder);
    }
    if (!find_folder(edit, path, true, &folder, &name, err))
        return false;
    struct edit_item *old = find_item(folder, name);
    struct node_entry entry = first->entry;
    entry.name = name;
    if (!make_way(edit, folder, old, TREE_FILE, EDIT_REPLACES_ANY, err))
        return false;
    place_item(edit, folder, old, &entry);
    return true;
}

/* A mark stays where an image has something, too. */
static void take_away(struct tree_edit *edit, struct edit_folder *folder, struct edit_item *item)
{
    const struct node_entry mark = {.name = item->entry.name, .kind = TREE_WHITEOUT};
    bool is_cover = item->entry.is_cover;

    drop_item(edit, folder, item);
    if (is_cover) {
        add_item(edit, folder, &mark);
        edit->n_entries++;
    }
}

static bool find_there(struct tree_edit *edit, struct str path, struct edit_folder **folder,
                       struct edit_item **item, struct error *err)
{
    struct str name = {0};

    if (!find_folder(edit, path, false, folder, &name, err))
        return false;
    *item = *folder ? find_item(*folder, name) : NULL;
    if (is_there(*item))
        return true;
    error_set(err, ERR_FILE_NOT_FOUND, "there is no %.*s", (int)path.len, path.ptr);
    return false;
}

bool tree_edit_remove(struct tree_edit *edit, struct str path, bool is_recursive, struct error *err)
{
    struct edit_folder *folder;
    struct edit_item *item;

    if (!find_there(edit, path, &folder, &item, err))
        return false;
    if (item->entry.kind == TREE_DIRECTORY && !is_recursive) {
        if (!edit_folder_load(edit, item, folder, err))
            return false;
        if (!is_empty(item->folder))
            return error_set(err, ERR_CONFLICT, "%.*s is a directory that is not empty",
                             (int)path.len, path.ptr);
    }
    if (!forget_item(edit, item, err))
        return false;
    take_away(edit, folder, item);
    return true;
}

static bool is_below(struct str path, struct str folder)
{
    return path.len > folder.len && path.ptr[folder.len] == '/' &&
           memcmp(path.ptr, folder.ptr, folder.len) == 0;
}

static size_t depth_of(struct str path)
{
    size_t depth = 1;

    for (size_t i = 0; i < path.len; i++)
        depth += path.ptr[i] == '/';
    return depth;
}

/* A directory may be moved to where what is in it would lie too deep. */
static bool check_depth(struct tree_edit *edit, const struct edit_item *item, struct str to,
                        struct error *err)
{
    struct edit_sum sum;

    if (!edit_sum(edit, item, &sum, err))
        return false;
    return (depth_of(to) + sum.depth <= TREE_DEPTH_MAX && to.len + sum.path_len < TREE_PATH_MAX) ||
           error_set(err, ERR_INVALID, "what is in it would have a path that is too long");
}

bool tree_edit_move(struct tree_edit *edit, struct str from, struct str to, struct error *err)
{
    struct edit_folder *source, *folder;
    struct edit_item *item;
    struct str name;

    if (!find_there(edit, from, &source, &item, err))
        return false;
    if (str_equal(from, to))
        return true;
    if (is_below(to, from))
        return error_set(err, ERR_INVALID, "a directory cannot be moved into itself");
    if (!check_depth(edit, item, to, err) || !find_folder(edit, to, true, &folder, &name, err))
        return false;
    struct edit_item *old = find_item(folder, name);
    bool is_folder = item->entry.kind == TREE_DIRECTORY;
    if (is_folder && is_there(old) && old->entry.kind != TREE_DIRECTORY)
        return error_set(err, ERR_FILE_NOT_DIRECTORY, "%.*s is no directory", (int)to.len, to.ptr);
    if (!make_way(edit, folder, old, item->entry.kind, is_folder ? EDIT_REPLACES_ANY : 0, err))
        return false;
    struct node_entry entry = item->entry;
    entry.name = name;
    struct edit_item *placed = place_item(edit, folder, old, &entry);
    placed->folder = item->folder;
    if (placed->folder) {
        placed->folder->above = folder;
        placed->folder->self = placed;
    }
    take_away(edit, source, item);
    return true;
}

bool tree_edit_has_changes(const struct tree_edit *edit)
{
    return edit->root && edit->root->is_changed;
}
