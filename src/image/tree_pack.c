/* Folders of a project, for a machine: the second half of image/tree_folder.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own.h"
#include "image/disk.h"
#include "image/tar.h"
#include "image/tree_folder.h"

enum { CONTENT_PIECE = 64 * 1024 };

struct packed {
    const char *path;   /* in the tree */
    const char *inside; /* in its part */
    int folder;
    struct stat facts;
};

struct tree_pack {
    struct arena arena;
    struct packed *entries;
    size_t n, room, next;
    int file; /* whose contents are sent, or -1 */
    int64_t left;
    bool has_started;
};

void tree_pack_destroy(struct tree_pack *pack)
{
    if (!pack)
        return;
    auto_close(&pack->file);
    free(pack->entries);
    arena_finish(&pack->arena);
    free(pack);
}

static bool add_folder(struct tree_pack *pack, const struct tree_part *part, const char *inside,
                       int depth, struct error *err);

static bool add_entry(struct tree_pack *pack, const struct tree_part *part, const char *inside,
                      const struct stat *facts, struct error *err)
{
    if (pack->n == TAR_ENTRIES_MAX)
        return error_set(err, ERR_TOO_LARGE, "there are over %d files", TAR_ENTRIES_MAX);
    if (pack->n == pack->room) {
        pack->room = pack->room ? pack->room * 2 : 256;
        pack->entries = alloc_more(pack->entries, pack->room * sizeof *pack->entries);
    }
    pack->entries[pack->n++] = (struct packed){
        .path = arena_printf(&pack->arena, "%s%s%s", part->name, *inside ? "/" : "", inside),
        .inside = inside,
        .folder = part->folder,
        .facts = *facts,
    };
    return true;
}

static bool add_names(struct tree_pack *pack, const struct tree_part *part, const char *inside,
                      int folder, int depth, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct stat facts;

    if (!disk_list(folder, TAR_ENTRIES_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        const char *path =
            arena_printf(&pack->arena, "%s%s%s", inside, *inside ? "/" : "", names.names[i]);
        if (fstatat(folder, names.names[i], &facts, AT_SYMLINK_NOFOLLOW) != 0)
            return error_errno(err, "look at %s", path);
        if (S_ISDIR(facts.st_mode) ? !add_folder(pack, part, path, depth + 1, err)
                                   : (S_ISREG(facts.st_mode) || S_ISLNK(facts.st_mode)) &&
                                         !add_entry(pack, part, path, &facts, err))
            return false;
    }
    return true;
}

static bool add_folder(struct tree_pack *pack, const struct tree_part *part, const char *inside,
                       int depth, struct error *err)
{
    AUTO_FD int folder = disk_open(part->folder, inside, O_RDONLY | O_DIRECTORY);
    struct stat facts;

    if (folder < 0 || fstat(folder, &facts) != 0)
        return error_errno(err, "open %s", inside);
    if (depth >= TREE_DEPTH_MAX)
        return error_set(err, ERR_TOO_LARGE, "%.128s lies too deep", inside);
    return add_entry(pack, part, inside, &facts, err) &&
           add_names(pack, part, inside, folder, depth, err);
}

bool tree_pack_create(const struct tree_part *parts, size_t n, struct tree_pack **pack,
                      struct error *err)
{
    struct tree_pack *made = alloc(sizeof *made);

    *made = (struct tree_pack){.file = -1};
    for (size_t i = 0; i < n; i++) {
        if (!add_folder(made, &parts[i], "", 1, err)) {
            tree_pack_destroy(made);
            return false;
        }
    }
    *pack = made;
    return true;
}

static bool read_target(const struct packed *from, char target[TREE_TARGET_MAX], struct str *text,
                        struct error *err)
{
    const char *name;
    AUTO_FD int folder = disk_open_parent(from->folder, from->inside, &name);
    ssize_t len = folder >= 0 ? readlinkat(folder, name, target, TREE_TARGET_MAX) : -1;

    if (len < 0)
        return error_errno(err, "read the link %s", from->path);
    *text = (struct str){target, (size_t)len};
    return true;
}

static bool put_entry(struct tree_pack *pack, struct buf *out, struct error *err)
{
    const struct packed *from = &pack->entries[pack->next++];
    const mode_t kind = from->facts.st_mode;
    const bool is_open = S_ISDIR(kind) || (kind & 0111);
    char target[TREE_TARGET_MAX];
    struct tree_entry entry = {
        .kind = S_ISDIR(kind)   ? TREE_DIRECTORY
                : S_ISLNK(kind) ? TREE_SYMLINK
                                : TREE_FILE,
        .path = str_of(from->path),
        .mode = S_ISLNK(kind) ? 0777
                : is_open     ? 0755
                              : 0644,
    };

    if (S_ISLNK(kind) && !read_target(from, target, &entry.target, err))
        return false;
    if (S_ISREG(kind)) {
        entry.size = (uint64_t)from->facts.st_size;
        pack->file = disk_open(from->folder, from->inside, O_RDONLY);
        pack->left = from->facts.st_size;
        if (pack->file < 0)
            return error_errno(err, "open %s", from->path);
    }
    return tree_encode_entry(out, &entry, err);
}

static bool put_contents(struct tree_pack *pack, struct buf *out, struct error *err)
{
    char bytes[CONTENT_PIECE];
    const size_t most = pack->left < CONTENT_PIECE ? (size_t)pack->left : CONTENT_PIECE;
    ssize_t got = most ? read(pack->file, bytes, most) : 0;

    if (got < 0)
        return error_errno(err, "read a file of the project");
    if (got == 0 && most > 0)
        return error_set(err, ERR_CONFLICT, "a file of the project became shorter");
    pack->left -= got;
    if (pack->left == 0)
        close(take_fd(&pack->file));
    return buf_append(out, (struct str){bytes, (size_t)got}, err);
}

bool tree_pack_step(struct tree_pack *pack, struct buf *out, bool *is_last, struct error *err)
{
    *is_last = false;
    if (!pack->has_started) {
        pack->has_started = true;
        return tree_encode_start(out, err);
    }
    if (pack->file >= 0)
        return put_contents(pack, out, err);
    if (pack->next < pack->n)
        return put_entry(pack, out, err);
    *is_last = true;
    return tree_encode_finish(out, err);
}
