#include "image/ext4_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/own.h"
#include "image/aside.h"
#include "image/ext4_attributes.h"

enum { LINKS_MAX = 65000, TEXT_MAX = EXT4_MAP - 1 };

#define FILE_MAX   ((int64_t)1 << 40)
#define BLOCKS_MAX ((uint32_t)1 << 28)

/* A name in one of the folders that are merged. */
struct found {
    const char *name;
    uint8_t rank; /* which of them, 0 is the highest */
    uint8_t type;
};

/* A merged folder while it is read: the descriptors of all its layers. */
struct merge {
    struct ext4_tree *tree;
    struct ext4_node *folder;
    char path[TAR_PATH];
    int fds[VIEW_LAYERS_MAX];
    size_t n_fds;
    struct found *found;
    size_t n, room;
    struct ext4_node **deeper; /* its folders */
    size_t n_deeper;
    struct arena names;
};

static void merge_finish(struct merge *merge)
{
    for (size_t i = 0; i < merge->n_fds; i++)
        close(merge->fds[i]);
    free(merge->found);
    free(merge->deeper);
    arena_finish(&merge->names);
}

void ext4_tree_finish(struct ext4_tree *tree)
{
    ext4_out_finish(&tree->out);
    map_finish(&tree->links);
    free(tree->nodes);
    arena_finish(&tree->arena);
}

static void close_folder(DIR **folder)
{
    if (*folder)
        (void)closedir(*folder);
}

static bool path_of(const struct ext4_node *folder, char path[TAR_PATH], struct error *err)
{
    size_t at = TAR_PATH_MAX;

    path[at] = '\0';
    for (; folder->parent; folder = folder->parent) {
        size_t len = strlen(folder->name), slash = path[at] != '\0';
        if (len + slash > at)
            return error_set(err, ERR_TOO_LARGE, "%.128s lies too deep to be kept", folder->name);
        if (slash)
            path[--at] = '/';
        at -= len;
        memcpy(path + at, folder->name, len);
    }
    memmove(path, path + at, TAR_PATH - at);
    return true;
}

static struct ext4_node *add_node(struct ext4_tree *tree, const struct stat *facts)
{
    struct ext4_node *node = arena_alloc(&tree->arena, sizeof *node);
    bool is_open = S_ISDIR(facts->st_mode) || (facts->st_mode & 0111);
    mode_t plain = S_ISLNK(facts->st_mode) ? 0777 : is_open ? 0755 : 0644;

    node->inode = tree->n_nodes ? EXT4_FIRST_INODE - 1 + (uint32_t)tree->n_nodes : EXT4_ROOT_INODE;
    node->mode = (uint16_t)facts->st_mode;
    node->links = S_ISDIR(facts->st_mode) ? 2 : 0;
    if (tree->is_project) {
        node->mode = (uint16_t)((facts->st_mode & S_IFMT) | plain);
    } else {
        node->uid = facts->st_uid;
        node->gid = facts->st_gid;
        node->modified = facts->st_mtim;
    }
    if (tree->n_nodes == tree->room) {
        tree->room = tree->room ? tree->room * 2 : 1024;
        tree->nodes = alloc_more(tree->nodes, tree->room * sizeof(struct ext4_node *));
    }
    tree->nodes[tree->n_nodes++] = node;
    return node;
}

static bool add_attributes(struct ext4_tree *tree, struct ext4_node *node, int fd,
                           struct error *err)
{
    if (tree->is_project)
        return true;
    if (!ext4_attributes_read(fd, &tree->arena, &node->attributes, &node->n_attributes, err))
        return false;
    tree->n_attributed += node->n_attributes > 0;
    return true;
}

static bool has_room(const struct ext4_tree *tree, struct error *err)
{
    if (tree->n_nodes >= TAR_ENTRIES_MAX)
        return error_set(err, ERR_TOO_LARGE, "there are over %d files", TAR_ENTRIES_MAX);
    return ext4_out_block(&tree->out) < BLOCKS_MAX ||
           error_set(err, ERR_TOO_LARGE, "the files take over a terabyte");
}

/* A file with several names in one layer is one file. *is_new: to be filled. */
static struct ext4_node *find_node(struct merge *merge, uint8_t rank, const struct stat *facts,
                                   bool *is_new)
{
    struct ext4_tree *tree = merge->tree;
    char key[80];
    int len = snprintf(key, sizeof key, "%d:%ju:%ju", (int)merge->folder->merged[rank],
                       (uintmax_t)facts->st_dev, (uintmax_t)facts->st_ino);
    struct str name = {key, (size_t)len};

    *is_new = true;
    if (facts->st_nlink < 2 || tree->is_project)
        return add_node(tree, facts);
    struct ext4_node *node = map_find(&tree->links, name);
    *is_new = !node;
    if (!node) {
        node = add_node(tree, facts);
        (void)map_put(&tree->links, name, node);
    }
    return node;
}

static bool put_entry(struct merge *merge, const char *name, struct ext4_node *node,
                      struct error *err)
{
    struct ext4_node *folder = merge->folder;

    folder->entries[folder->n_entries++] =
        (struct ext4_entry){arena_text(&merge->tree->arena, str_of(name)), node};
    if (S_ISDIR(node->mode)) {
        folder->links++;
        return true;
    }
    return ++node->links <= LINKS_MAX ||
           error_set(err, ERR_TOO_LARGE, "a file has over %d names", LINKS_MAX);
}

static bool put_target(struct ext4_tree *tree, struct ext4_node *node, int folder, const char *name,
                       struct error *err)
{
    char *room = ext4_out_room(&tree->out, EXT4_BLOCK, err);
    ssize_t len = room ? aside_readlink(folder, name, room, EXT4_BLOCK) : 0;

    if (!room)
        return false;
    if (len < 0)
        return error_errno(err, "read the link");
    if (len == 0 || len == EXT4_BLOCK)
        return error_set(err, ERR_TOO_LARGE, "its target is empty or too long");
    node->size = len;
    node->is_text = len <= TEXT_MAX;
    if (node->is_text) {
        memcpy(node->map.root, room, (size_t)len);
        return true;
    }
    uint32_t block = ext4_out_block(&tree->out);
    ext4_out_add(&tree->out, (size_t)len);
    return ext4_out_map(&tree->out, block, &node->map, err);
}

/* A symbolic link or a fifo. */
static bool put_other(struct merge *merge, const struct found *found, struct error *err)
{
    int folder = merge->fds[found->rank];
    struct stat facts;
    bool is_new;

    if (aside_statat(folder, found->name, &facts) != 0)
        return error_errno(err, "look");
    struct ext4_node *node = find_node(merge, found->rank, &facts, &is_new);
    if (!put_entry(merge, found->name, node, err))
        return false;
    return !is_new || !S_ISLNK(facts.st_mode) ||
           put_target(merge->tree, node, folder, found->name, err);
}

/* Or what stands for a link or a fifo (image/aside.h). */
static bool put_file(struct merge *merge, const struct found *found, struct error *err)
{
    struct ext4_tree *tree = merge->tree;
    AUTO_FD int fd = openat(merge->fds[found->rank], found->name,
                            O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat facts;
    bool is_new;

    if (fd < 0 || aside_stat(fd, &facts) != 0)
        return error_errno(err, "open");
    if (S_ISLNK(facts.st_mode) || S_ISFIFO(facts.st_mode))
        return merge->tree->is_project || put_other(merge, found, err);
    if (!S_ISREG(facts.st_mode) || facts.st_size > FILE_MAX)
        return error_set(err, ERR_TOO_LARGE, "it is no file, or over a terabyte");
    struct ext4_node *node = find_node(merge, found->rank, &facts, &is_new);
    if (!put_entry(merge, found->name, node, err))
        return false;
    node->size = facts.st_size;
    return !is_new || (add_attributes(tree, node, fd, err) &&
                       ext4_out_file(&tree->out, fd, facts.st_size, &node->map, err));
}

/* The highest folder says what it is, those below add to it as far as they are not hidden. */
static bool put_folder(struct merge *merge, const struct found *found, size_t n, struct error *err)
{
    struct ext4_tree *tree = merge->tree;
    uint8_t *merged = arena_alloc(&tree->arena, n), n_merged = 0;
    struct ext4_node *node = NULL;
    struct stat facts;

    for (size_t i = 0; i < n && found[i].type == DT_DIR; i++) {
        AUTO_FD int fd = openat(merge->fds[found[i].rank], found->name,
                                O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || aside_stat(fd, &facts) != 0)
            return error_errno(err, "open");
        if (!node) {
            node = add_node(tree, &facts);
            if (!add_attributes(tree, node, fd, err))
                return false;
        }
        merged[n_merged++] = merge->folder->merged[found[i].rank];
        if (i + 1 < n && aside_is_opaque(fd))
            break;
    }
    if (!put_entry(merge, found->name, node, err))
        return false;
    node->parent = merge->folder;
    node->name = merge->folder->entries[merge->folder->n_entries - 1].name;
    node->merged = merged;
    node->n_merged = n_merged;
    node->depth = merge->folder->depth + 1;
    merge->deeper[merge->n_deeper++] = node;
    return node->depth <= TAR_DEPTH_MAX || error_set(err, ERR_TOO_LARGE, "it lies too deep");
}

/* All that the layers have under one name, highest first: the first decides. */
static bool put_name(struct merge *merge, const struct found *found, size_t n, struct error *err)
{
    switch (found->type) {
    case DT_DIR: return put_folder(merge, found, n, err);
    case DT_REG: return put_file(merge, found, err);
    case DT_LNK: return put_other(merge, found, err);
    case DT_FIFO: return merge->tree->is_project || put_other(merge, found, err);
    default: return true; /* a whiteout has hidden the rest; sockets and devices stay behind */
    }
}

static bool add_found(struct merge *merge, const struct dirent *entry, uint8_t rank,
                      struct error *err)
{
    uint8_t type = entry->d_type;
    struct stat facts;

    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return true;
    if (merge->n >= TAR_ENTRIES_MAX)
        return error_set(err, ERR_TOO_LARGE, "a folder has over %d names", TAR_ENTRIES_MAX);
    if (type == DT_UNKNOWN) {
        if (fstatat(merge->fds[rank], entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
            return error_errno(err, "look at %s", entry->d_name);
        type = IFTODT(facts.st_mode);
    }
    if (merge->n == merge->room) {
        merge->room = merge->room ? merge->room * 2 : 256;
        merge->found = alloc_more(merge->found, merge->room * sizeof *merge->found);
    }
    merge->found[merge->n++] =
        (struct found){arena_text(&merge->names, str_of(entry->d_name)), rank, type};
    return true;
}

static bool list(struct merge *merge, uint8_t rank, struct error *err)
{
    int copy = openat(merge->fds[rank], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO(close_folder) DIR *folder = copy < 0 ? NULL : fdopendir(copy);

    if (!folder) {
        (void)error_errno(err, "open");
        if (copy >= 0)
            close(copy);
        return false;
    }
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry)
            return errno == 0 || error_errno(err, "list");
        if (!add_found(merge, entry, rank, err))
            return false;
    }
}

static int by_name_and_rank(const void *left, const void *right)
{
    const struct found *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    return order ? order : a->rank - b->rank;
}

static bool merge_open(struct merge *merge, struct error *err)
{
    const struct ext4_node *folder = merge->folder;

    if (!path_of(folder, merge->path, err))
        return false;
    for (size_t i = 0; i < folder->n_merged; i++) {
        int fd = disk_open(merge->tree->view.layers[folder->merged[i]], merge->path,
                           O_RDONLY | O_DIRECTORY);
        if (fd < 0)
            return error_errno(err, "open %.200s", merge->path);
        merge->fds[merge->n_fds++] = fd;
        if (!list(merge, (uint8_t)i, err))
            return error_wrap(err, "%.200s", merge->path);
    }
    if (merge->n)
        qsort(merge->found, merge->n, sizeof *merge->found, by_name_and_rank);
    return true;
}

static bool put_all(struct merge *merge, struct error *err)
{
    merge->folder->entries =
        arena_array(&merge->tree->arena, merge->n + 1, sizeof *merge->folder->entries);
    merge->deeper = alloc((merge->n + 1) * sizeof(struct ext4_node *));
    for (size_t i = 0, next; i < merge->n; i = next) {
        for (next = i + 1; next < merge->n; next++)
            if (strcmp(merge->found[i].name, merge->found[next].name) != 0)
                break;
        if (!has_room(merge->tree, err) || !put_name(merge, merge->found + i, next - i, err))
            return error_wrap(err, "%.200s/%.128s", merge->path, merge->found[i].name);
    }
    return true;
}

static bool add_root(struct ext4_tree *tree, struct error *err)
{
    const struct view *view = &tree->view;
    uint8_t *merged = arena_alloc(&tree->arena, view->n + 1);
    int highest = view->layers[view->n - 1];
    struct stat facts;

    if (aside_stat(highest, &facts) != 0)
        return error_errno(err, "look at a layer");
    for (size_t i = 0; i < view->n; i++)
        merged[i] = (uint8_t)(view->n - 1 - i);
    struct ext4_node *root = add_node(tree, &facts);
    root->merged = merged;
    root->n_merged = view->n;
    return add_attributes(tree, root, highest, err);
}

/* Folders yet to be read, the next one last. */
struct stack {
    struct ext4_node **folders;
    size_t n, room;
};

static void stack_finish(struct stack *stack)
{
    free(stack->folders);
}

static void push(struct stack *stack, struct ext4_node *const *folders, size_t n)
{
    if (stack->n + n > stack->room) {
        stack->room = 2 * (stack->n + n);
        stack->folders = alloc_more(stack->folders, stack->room * sizeof(struct ext4_node *));
    }
    while (n-- > 0)
        stack->folders[stack->n++] = folders[n];
}

bool ext4_tree_walk(struct ext4_tree *tree, struct error *err)
{
    AUTO(stack_finish) struct stack stack = {0};

    if (tree->view.n == 0)
        return error_set(err, ERR_INVALID, "a file system needs at least one layer");
    if (!add_root(tree, err))
        return false;
    push(&stack, tree->nodes, 1);
    while (stack.n > 0) {
        AUTO(merge_finish)
        struct merge merge = {.tree = tree, .folder = stack.folders[--stack.n]};
        if (!merge_open(&merge, err) || !put_all(&merge, err))
            return false;
        push(&stack, merge.deeper, merge.n_deeper);
    }
    return true;
}
