/* Holds: what live processes use, told to collectors through locked files in oci/holds/.
 *
 *     work-<id>   locked by one; everything used since its time stays
 *     <sha256>    locked shared by all who use the same; the hash is of its lines, and each names a
 *                 blob or an unpacked layer that stays
 *
 * A file nobody has locked belongs to the dead. Holds are made under the shared removal lock and
 * read under the exclusive one, so a collector never sees half of one.
 */
#include "image/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/id.h"
#include "base/own.h"
#include "image/config.h"

enum { HOLD_MAX = 64 * 1024, HOLDS_MAX = 1000000 };

bool image_work(struct image_store *store, int *fd, struct error *err)
{
    AUTO_FD int removal = -1;
    char id[ID_TEXT], name[ID_TEXT + 8];

    id_make(id);
    (void)snprintf(name, sizeof name, "work-%s", id);
    return store_lock_removal(store, true, &removal, err) &&
           disk_lock(store->holds_fd, name, false, fd, err);
}

static void add_line(struct buf *lines, const char *kind, const char *name)
{
    char line[DIGEST_TEXT + 16];
    int len = snprintf(line, sizeof line, "%s %s\n", kind, name);
    struct error ignored;

    /* Bounded by the layers an image may have. */
    if (!buf_append(lines, (struct str){line, (size_t)len}, &ignored))
        abort();
}

/* The removal lock is held. */
static bool publish_hold(struct image_store *store, const struct buf *lines, int *fd,
                         struct error *err)
{
    AUTO_FD int hold = -1;
    char name[SHA256_HEX];

    sha256_of(buf_str(lines), name);
    if (!disk_lock(store->holds_fd, name, true, &hold, err))
        return false;
    /* Also over what is there: the one who began it may have died half-way. */
    if (pwrite(hold, lines->bytes, lines->len, 0) != (ssize_t)lines->len)
        return error_errno(err, "write a hold on an image");
    *fd = take_fd(&hold);
    return true;
}

bool image_hold(struct image_store *store, const char *digest, int *fd, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf lines = {.max = HOLD_MAX};
    AUTO_FD int removal = -1;
    struct image_document document;

    if (!store_lock_removal(store, true, &removal, err) ||
        !document_load(store, digest, &arena, &document, err))
        return false;
    const struct image *image = &document.image;
    add_line(&lines, "blob", digest_hex(image->digest));
    add_line(&lines, "blob", digest_hex(image->config_digest));
    for (size_t i = 0; i < image->n_layers; i++) {
        add_line(&lines, "blob", digest_hex(image->layers[i].digest));
        add_line(&lines, "layer", image->layers[i].chain);
        (void)utimensat(store->blobs_fd, digest_hex(image->layers[i].digest), NULL, 0);
        (void)utimensat(store->unpacked_fd, image->layers[i].chain, NULL, 0);
    }
    return publish_hold(store, &lines, fd, err);
}

bool image_hold_folders(struct image_store *store, const char *const *folders, size_t n, int *fd,
                        struct error *err)
{
    AUTO(buf_finish) struct buf lines = {.max = HOLD_MAX};
    AUTO_FD int removal = -1;

    if (!store_lock_removal(store, true, &removal, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *slash = strrchr(folders[i], '/'), *chain = slash ? slash + 1 : folders[i];
        if (!sha256_hex_is_valid(str_of(chain)) || i > VIEW_LAYERS_MAX)
            return error_set(err, ERR_INVALID, "%s is no unpacked layer", folders[i]);
        if (!disk_has(store->layers_fd, chain))
            return error_set(err, ERR_NOT_FOUND, "the unpacked layer %s has gone", chain);
        add_line(&lines, "layer", chain);
        (void)utimensat(store->unpacked_fd, chain, NULL, 0);
    }
    return publish_hold(store, &lines, fd, err);
}

void holds_finish(struct holds *holds)
{
    map_finish(&holds->blobs);
    map_finish(&holds->layers);
}

bool holds_have(const struct map *names, const char *name)
{
    return map_find(names, str_of(name)) != NULL;
}

static bool read_lines(struct image_store *store, const char *name, struct holds *holds,
                       struct error *err)
{
    AUTO_FD int fd = openat(store->holds_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_FREE char *text = NULL;
    struct str rest, line;

    if (fd < 0 || !fd_read_all(fd, name, HOLD_MAX, &text, err))
        return fd < 0 ? error_errno(err, "open the hold %s", name) : false;
    for (rest = str_of(text); str_split(&rest, '\n', &line);) {
        if (line.len > 5 && memcmp(line.ptr, "blob ", 5) == 0)
            map_put(&holds->blobs, (struct str){line.ptr + 5, line.len - 5}, holds);
        if (line.len > 6 && memcmp(line.ptr, "layer ", 6) == 0)
            map_put(&holds->layers, (struct str){line.ptr + 6, line.len - 6}, holds);
    }
    return true;
}

static bool read_one(struct image_store *store, const char *name, struct holds *holds,
                     struct error *err)
{
    AUTO_FD int dead = -1;
    struct stat facts;

    if (!disk_try_lock(store->holds_fd, name, &dead, err))
        return false;
    if (dead >= 0)
        return unlinkat(store->holds_fd, name, 0) == 0 || error_errno(err, "remove %s", name);
    if (strncmp(name, "work-", 5) != 0)
        return read_lines(store, name, holds, err);
    if (fstatat(store->holds_fd, name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "look at %s", name);
    if (stamp_before(facts.st_mtim, holds->since))
        holds->since = facts.st_mtim;
    return true;
}

/* Now, by the clock the file system stamps files with. */
static bool take_stamp(struct image_store *store, struct timespec *now, struct error *err)
{
    AUTO_FD int fd =
        openat(store->oci_fd, "stamp", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat facts;

    if (fd < 0 || futimens(fd, NULL) != 0 || fstat(fd, &facts) != 0)
        return error_errno(err, "read the time of the image store");
    *now = facts.st_mtim;
    return true;
}

bool holds_read(struct image_store *store, struct holds *holds, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    AUTO_FD int removal = -1;

    *holds = (struct holds){0};
    if (!store_lock_removal(store, false, &removal, err) ||
        !disk_list(store->holds_fd, HOLDS_MAX, &names, err) ||
        !take_stamp(store, &holds->since, err))
        return false;
    holds->now = holds->since;
    for (size_t i = 0; i < names.n; i++)
        if (!read_one(store, names.names[i], holds, err))
            return error_wrap(err, "reading who uses the image store");
    return true;
}
