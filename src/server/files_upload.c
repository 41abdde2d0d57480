/* A tar that is laid into a tree, entry by entry.
 *
 * Names stay below the directory, devices are refused, links between files lead to files that are
 * there, and nothing is written through a symbolic link. What a link points to is text that nobody
 * here follows. The limits are those of a tree.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "image/tar_reader.h"
#include "server/files.h"
#include "server/files_write.h"

/* HOLES_MAX: bytes that an archive says are zero without having them. */
enum { XATTRS_MAX = 256, NS_PER_S = 1000000000 };
#define HOLES_MAX (INT64_C(1) << 30)

struct unpacking {
    struct tree_edit *edit;
    const struct files_upload *upload;
    struct tar_reader reader;
    struct arena arena; /* of one entry */
    int64_t n_entries, holes;
};

static bool refuse(const char *path, const char *why, struct error *err)
{
    return error_set(err, ERR_ARCHIVE_INVALID, "%.150s %s", path, why);
}

/* The path in the workspace of one in the archive; empty for the directory itself. */
static bool path_of(struct unpacking *unpacking, const char *raw, struct str *path,
                    struct error *err)
{
    struct str folder = unpacking->upload->path;
    char text[TAR_PATH];

    *path = (struct str){0};
    if (!raw)
        return error_set(err, ERR_ARCHIVE_INVALID, "an entry has no name");
    if (!tar_path(str_of(raw), text, err))
        return false;
    if (!*text)
        return true;
    const char *whole = arena_printf(&unpacking->arena, "%.*s%s%s", (int)folder.len,
                                     folder.len ? folder.ptr : "", folder.len ? "/" : "", text);
    if (files_path(str_of(whole), &unpacking->arena, path, err))
        return true;
    err->code = ERR_ARCHIVE_INVALID;
    return false;
}

struct xattr {
    struct str name, value;
};

static int by_name(const void *a, const void *b)
{
    const struct xattr *x = a, *y = b;
    size_t common = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.ptr, y->name.ptr, common);

    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

/* Those that a workspace keeps; the others belong to the machine the archive was made on. */
static bool read_xattrs(struct unpacking *unpacking, struct archive_entry *entry,
                        struct str *xattrs, struct error *err)
{
    AUTO(buf_finish) struct buf out = {.max = TREE_XATTRS_MAX};
    struct xattr list[XATTRS_MAX] = {0};
    const char *name;
    const void *value;
    size_t size, n = 0;

    archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
        if (strncmp(name, "user.", 5) != 0 && strcmp(name, "security.capability") != 0)
            continue;
        if (n == XATTRS_MAX)
            return refuse(archive_entry_pathname(entry), "has too many attributes", err);
        list[n++] = (struct xattr){
            str_of(name), {value, size}
        };
    }
    qsort(list, n, sizeof *list, by_name);
    for (size_t i = 0; i < n; i++)
        if (!tree_xattr_append(&out, list[i].name, list[i].value, err)) {
            err->code = ERR_ARCHIVE_INVALID;
            return false;
        }
    *xattrs = n > 0 ? arena_str(&unpacking->arena, buf_str(&out)) : (struct str){0};
    return true;
}

static int64_t time_of(struct archive_entry *entry)
{
    const int64_t most = INT64_MAX / NS_PER_S - 1;
    int64_t seconds = archive_entry_mtime(entry);

    if (seconds > most || seconds < -most)
        return 0;
    return seconds * NS_PER_S + archive_entry_mtime_nsec(entry);
}

static bool kind_of(struct archive_entry *entry, enum tree_kind *kind, struct error *err)
{
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG: *kind = TREE_FILE; return true;
    case AE_IFDIR: *kind = TREE_DIRECTORY; return true;
    case AE_IFLNK: *kind = TREE_SYMLINK; return true;
    case AE_IFIFO: *kind = TREE_FIFO; return true;
    default: break;
    }
    return refuse(archive_entry_pathname(entry), "is no file, directory, link or pipe", err);
}

static bool read_facts(struct unpacking *unpacking, struct archive_entry *entry,
                       struct tree_entry *facts, struct error *err)
{
    int64_t uid = archive_entry_uid(entry), gid = archive_entry_gid(entry);
    const char *target = archive_entry_symlink(entry);

    if (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX)
        return refuse(archive_entry_pathname(entry), "has an owner that no file can have", err);
    facts->mode = (uint32_t)archive_entry_perm(entry) & 07777;
    facts->uid = (uint32_t)uid;
    facts->gid = (uint32_t)gid;
    facts->mtime_ns = time_of(entry);
    if (facts->kind != TREE_SYMLINK)
        return read_xattrs(unpacking, entry, &facts->xattrs, err);
    facts->mode = 0777;
    if (!target || !*target || strlen(target) > TREE_TARGET_MAX)
        return refuse(archive_entry_pathname(entry), "is a link to nowhere", err);
    facts->target = arena_str(&unpacking->arena, str_of(target));
    return true;
}

static bool put_zeros(struct unpacking *unpacking, int64_t len, struct error *err)
{
    static const char zeros[64 * 1024];

    unpacking->holes += len;
    if (unpacking->holes > HOLES_MAX)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE, "the archive's files have too many holes");
    while (len > 0) {
        size_t step = len < (int64_t)sizeof zeros ? (size_t)len : sizeof zeros;

        if (!tree_edit_bytes(unpacking->edit, (struct str){zeros, step}, false, err))
            return false;
        len -= (int64_t)step;
    }
    return true;
}

static bool put_contents(struct unpacking *unpacking, int64_t size, struct error *err)
{
    int64_t at = 0, offset;
    struct str bytes;

    for (;;) {
        if (!tar_reader_data(&unpacking->reader, &bytes, &offset, err))
            return false;
        if (bytes.len == 0)
            break;
        if (offset < at || (offset > at && !put_zeros(unpacking, offset - at, err)))
            return offset >= at ? false
                                : error_set(err, ERR_ARCHIVE_INVALID, "the archive is damaged");
        if (!tree_edit_bytes(unpacking->edit, bytes, false, err))
            return false;
        at = offset + (int64_t)bytes.len;
    }
    return (at >= size || put_zeros(unpacking, size - at, err)) &&
           tree_edit_bytes(unpacking->edit, (struct str){0}, true, err);
}

static bool put_link(struct unpacking *unpacking, struct str path, const char *raw,
                     struct error *err)
{
    struct str target;

    return path_of(unpacking, raw, &target, err) &&
           (target.len > 0 || refuse(raw, "is no file to link to", err)) &&
           tree_edit_link(unpacking->edit, path, target, err);
}

static bool put_entry(struct unpacking *unpacking, struct archive_entry *entry, struct error *err)
{
    int how = EDIT_REPLACES_ANY | (unpacking->upload->takes_place_owner ? EDIT_OWNER_OF_PLACE : 0);
    const char *link = archive_entry_hardlink(entry);
    struct tree_entry facts = {.kind = TREE_FILE};

    if (++unpacking->n_entries > TREE_ENTRIES_MAX)
        return error_set(err, ERR_ARCHIVE_TOO_LARGE, "the archive has over %d entries",
                         TREE_ENTRIES_MAX);
    if (!path_of(unpacking, archive_entry_pathname(entry), &facts.path, err))
        return false;
    if (facts.path.len > 0 && link)
        return put_link(unpacking, facts.path, link, err);
    if (!kind_of(entry, &facts.kind, err))
        return false;
    if (facts.path.len == 0)
        return facts.kind == TREE_DIRECTORY ||
               refuse(archive_entry_pathname(entry), "is the directory itself", err);
    return read_facts(unpacking, entry, &facts, err) &&
           tree_edit_put(unpacking->edit, &facts, how, err) &&
           (facts.kind != TREE_FILE || put_contents(unpacking, archive_entry_size(entry), err));
}

static bool put_all(struct unpacking *unpacking, struct error *err)
{
    struct archive_entry *entry;

    do {
        if (!tar_reader_next(&unpacking->reader, &entry, err) ||
            (entry && !put_entry(unpacking, entry, err)))
            return false;
        arena_finish(&unpacking->arena);
    } while (entry);
    return true;
}

/* The directory is made where it is not. */
static bool make_place(struct tree_edit *edit, const struct files_upload *upload, struct error *err)
{
    const struct tree_entry place = {
        .kind = TREE_DIRECTORY,
        .path = upload->path,
        .mode = 0755,
        .mtime_ns = upload->now_ns,
    };
    const struct node_entry *there;

    if (upload->path.len == 0)
        return true;
    if (!tree_edit_find(edit, upload->path, &there, err))
        return false;
    return (there && there->kind == TREE_DIRECTORY) ||
           tree_edit_put(edit, &place, EDIT_OWNER_OF_PLACE, err);
}

bool files_upload_apply(struct tree_edit *edit, void *arg, struct error *err)
{
    struct unpacking unpacking = {.edit = edit, .upload = arg};
    TAR_UTF8_SCOPE;

    if (unpacking.upload->len == 0)
        return error_set(err, ERR_ARCHIVE_INVALID, "there is no archive in the request");
    if (lseek(unpacking.upload->fd, 0, SEEK_SET) < 0)
        return error_errno(err, "read the upload");
    bool fine =
        make_place(edit, unpacking.upload, err) &&
        tar_reader_open(&unpacking.reader, unpacking.upload->fd, TAR_ONLY, INT64_MAX, err) &&
        put_all(&unpacking, err);
    arena_finish(&unpacking.arena);
    tar_reader_finish(&unpacking.reader);
    return fine;
}
