/* The new tree as a whole: what is below a directory is added up, changed directories are written,
 * and what is still needed of the base is found out.
 */
#include <stdlib.h>

#include "server/tree_edit_state.h"

/* Up to so many entries all of a tree is looked at, and what nothing needs any more is left
 * behind. */
enum { EXACT_MAX = 4096 };

static bool too_deep(struct error *err)
{
    return error_set(err, ERR_DAMAGED, "a stored tree is deeper than any workspace");
}

/* A way through all of a tree, of which some directories are in memory. */
struct walk {
    struct tree_edit *edit;
    bool (*visit)(struct walk *walk, const struct node_entry *entry, struct error *err);
    void *arg;
    size_t depth, path_len;
};

static bool walk_folder(struct walk *walk, const struct edit_folder *folder, struct error *err);

static bool walk_below(struct walk *walk, const struct node_entry *entry,
                       const struct edit_folder *folder, struct error *err);

static bool walk_entry(struct walk *walk, const struct node_entry *entry,
                       const struct edit_folder *folder, struct error *err)
{
    walk->depth++;
    walk->path_len += entry->name.len + 1;
    bool fine = walk->depth <= 2 * (size_t)TREE_DEPTH_MAX || too_deep(err);
    fine = fine && walk->visit(walk, entry, err) &&
           (entry->kind != TREE_DIRECTORY || walk_below(walk, entry, folder, err));
    walk->depth--;
    walk->path_len -= entry->name.len + 1;
    return fine;
}

static bool walk_stored(struct walk *walk, const struct node_entry *entry, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct tree_reader *base = walk->edit->plan.store.base;
    struct node node;

    if (!tree_reader_node(base, entry->chunks, entry->n_chunks, &arena, &node, err))
        return false;
    for (size_t i = 0; i < node.n; i++)
        if (!walk_entry(walk, &node.entries[i], NULL, err))
            return false;
    return true;
}

static bool walk_below(struct walk *walk, const struct node_entry *entry,
                       const struct edit_folder *folder, struct error *err)
{
    return folder ? walk_folder(walk, folder, err) : walk_stored(walk, entry, err);
}

static bool walk_folder(struct walk *walk, const struct edit_folder *folder, struct error *err)
{
    for (size_t i = 0; i < folder->n; i++) {
        const struct edit_item *item = folder->items[i];

        if (!item->is_gone && !walk_entry(walk, &item->entry, item->folder, err))
            return false;
    }
    return true;
}

static bool add_up(struct walk *walk, const struct node_entry *entry, struct error *err)
{
    struct edit_sum *sum = walk->arg;

    (void)err;
    sum->n_entries++;
    sum->n_bytes += entry->kind == TREE_FILE ? entry->size : 0;
    sum->has_links |= entry->link_group != 0;
    if (walk->depth > sum->depth)
        sum->depth = walk->depth;
    if (walk->path_len > sum->path_len)
        sum->path_len = walk->path_len;
    return true;
}

bool edit_sum(struct tree_edit *edit, const struct edit_item *item, struct edit_sum *sum,
              struct error *err)
{
    struct walk walk = {.edit = edit, .visit = add_up, .arg = sum};
    const struct node_entry *entry = &item->entry;

    *sum = (struct edit_sum){
        .n_bytes = entry->kind == TREE_FILE ? entry->size : 0,
        .has_links = entry->link_group != 0,
    };
    return entry->kind != TREE_DIRECTORY || walk_below(&walk, entry, item->folder, err);
}

/* What is needed of the base, and how much there is. */
struct census {
    struct map groups; /* of files with several names, which count once */
    int64_t n_entries, n_bytes;
};

static bool count(struct walk *walk, const struct node_entry *entry, struct error *err)
{
    struct census *census = walk->arg;
    struct str group = {(const char *)&entry->link_group, sizeof entry->link_group};
    bool is_again = entry->link_group && map_put(&census->groups, group, census);

    census->n_entries++;
    if (entry->kind == TREE_FILE && !is_again)
        census->n_bytes += (int64_t)entry->size;
    return tree_store_keep(walk->edit->store, entry->chunks, entry->n_chunks, err);
}

static bool take_census(struct tree_edit *edit, struct error *err)
{
    struct census census = {0};
    struct walk walk = {.edit = edit, .visit = count, .arg = &census};

    bool fine = walk_folder(&walk, edit->root, err);
    map_finish(&census.groups);
    edit->n_entries = census.n_entries;
    edit->n_bytes = census.n_bytes;
    return fine;
}

static int by_name(const void *a, const void *b)
{
    const struct node_entry *x = a, *y = b;
    size_t common = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.ptr, y->name.ptr, common);

    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static struct node node_of(struct tree_edit *edit, const struct edit_folder *folder)
{
    struct node node = {arena_array(&edit->arena, folder->n + 1, sizeof *node.entries), 0};

    for (size_t i = 0; i < folder->n; i++)
        if (!folder->items[i]->is_gone)
            node.entries[node.n++] = folder->items[i]->entry;
    qsort(node.entries, node.n, sizeof *node.entries, by_name);
    return node;
}

/* From the bottom up, because a directory names the nodes of those in it. */
static bool write_changed(struct tree_edit *edit, struct edit_folder *folder, struct error *err)
{
    for (size_t i = 0; i < folder->n; i++) {
        struct edit_item *item = folder->items[i];

        if (item->is_gone || !item->folder || !item->folder->is_changed)
            continue;
        if (!write_changed(edit, item->folder, err))
            return false;
        struct node node = node_of(edit, item->folder);
        if (!tree_store_node(edit->store, &node, err))
            return false;
        node_sum_up(&node, &item->entry);
        item->entry.chunks = tree_store_take(edit->store, &edit->arena, &item->entry.n_chunks);
    }
    return true;
}

static bool find_needed(struct tree_edit *edit, struct error *err)
{
    if (!edit->plan.store.base)
        return !edit->must_count || take_census(edit, err);
    bool is_exact =
        edit->must_count || edit->n_entries <= EXACT_MAX || tree_store_is_crowded(edit->store);
    return is_exact ? take_census(edit, err) : tree_store_keep_all(edit->store, err);
}

bool tree_edit_end(struct tree_edit *edit, struct tree_facts *facts, struct error *err)
{
    if (!write_changed(edit, edit->root, err) || !find_needed(edit, err))
        return false;
    if (edit->n_entries > TREE_ENTRIES_MAX)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE, "a workspace has at most %d entries",
                         TREE_ENTRIES_MAX);
    if (edit->n_bytes > (int64_t)TREE_BYTES_MAX)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE, "a workspace has at most 64 GiB");
    *facts = (struct tree_facts){
        .n_entries = (uint64_t)edit->n_entries,
        .n_bytes = (uint64_t)edit->n_bytes,
    };
    const struct node root = node_of(edit, edit->root);
    return tree_store_end(edit->store, &root, facts, err);
}
