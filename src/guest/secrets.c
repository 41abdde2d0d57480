#include "guest/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/own.h"
#include "guest/mounts.h"
#include "guest/path.h"
#include "guest/sandbox.h"

#define STORE SANDBOX_STATE "/secrets"

/* Room for SECRETS_MAX values of SECRET_VALUE_MAX, and as much again. */
#define STORE_OPTIONS "mode=700,size=8m"

struct secret_file {
    struct secret_file *next;
    const char *path;   /* inside the root */
    const char *source; /* on the tmpfs */
    const char *owner;  /* empty: the program's user */
    mode_t mode;
    int fd; /* of the value */
    size_t len;
    int parent; /* in the sandbox's root, -1 until placed */
    const char *name;
    bool is_new; /* the placeholder is ours */
};

struct secret_directory {
    struct secret_directory *next;
    int parent;
    const char *name;
};

static const char *const reserved[] = {"/dev", "/opt/helmr", "/proc", "/sys"};

static bool path_is_allowed(struct str path, struct error *err)
{
    if (!path_is_clean(path) || path.len < 2)
        return error_set(err, ERR_FORBIDDEN, "a secret's path must be absolute and clean");
    for (size_t i = 0; i < COUNT_OF(reserved); i++) {
        size_t len = strlen(reserved[i]);
        if (path.len >= len && memcmp(path.ptr, reserved[i], len) == 0 &&
            (path.len == len || path.ptr[len] == '/'))
            return error_set(err, ERR_FORBIDDEN, "a secret may not be at or below %s", reserved[i]);
    }
    return true;
}

/* Mounted with the first secret of a sandbox: most have none. */
static bool make_store(struct error *err)
{
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

    if (mkdir(STORE, 0700) != 0)
        return errno == EEXIST || error_errno(err, "making %s", STORE);
    /* Only newer kernels can promise that a tmpfs is never swapped out. */
    return mount("tmpfs", STORE, "tmpfs", flags, STORE_OPTIONS ",noswap") == 0 ||
           mount_tmpfs(STORE, flags, STORE_OPTIONS, err);
}

static struct secrets *find(struct secrets *sets, uint32_t program)
{
    while (sets && sets->program != program)
        sets = sets->next;
    return sets;
}

static struct secrets *find_or_make(struct secrets **sets, uint32_t program)
{
    struct secrets *set = find(*sets, program);

    if (set)
        return set;
    set = alloc(sizeof *set);
    *set = (struct secrets){.next = *sets, .program = program};
    *sets = set;
    return set;
}

static bool is_acceptable(const struct message_secret *secret, struct error *err)
{
    if (secret->program == 0 || secret->placement != SECRET_IN_FILE)
        return error_set(err, ERR_UNSUPPORTED, "secrets are files of one program");
    if (secret->mode & ~0777u)
        return error_set(err, ERR_INVALID, "a secret's mode is at most 0777");
    return path_is_allowed(secret->target, err);
}

bool secrets_add(struct secrets **sets, const struct message_secret *secret, struct error *err)
{
    if (!is_acceptable(secret, err) || !make_store(err))
        return false;
    struct secrets *set = find_or_make(sets, secret->program);
    if (set->is_complete || set->n == SECRETS_MAX)
        return error_set(err, ERR_LIMIT, "program %u has all its secrets", secret->program);

    const char *source = arena_printf(&set->arena, STORE "/%u-%zu", set->program, set->n);
    AUTO_FD int fd = open(source, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0)
        return error_errno(err, "making %s", source);
    struct secret_file *file = arena_alloc(&set->arena, sizeof *file);
    *file = (struct secret_file){
        .next = set->files,
        .path = arena_text(&set->arena, secret->target),
        .source = source,
        .owner = arena_text(&set->arena, secret->owner),
        .mode = secret->mode ? secret->mode : 0400,
        .fd = take_fd(&fd),
        .len = secret->value.len,
        .parent = -1,
        .name = "",
    };
    set->files = file;
    set->n++;
    if (!fd_write_all(file->fd, secret->value, err))
        return error_wrap(err, "storing the secret of %s", file->path);
    return true;
}

bool secrets_complete(struct secrets *sets, const struct message_secrets_end *end,
                      struct error *err)
{
    struct secrets *set = find(sets, end->program);

    if (!set || set->n != end->count)
        return error_set(err, ERR_INVALID, "%u secrets were sent for program %u, %zu came",
                         end->count, end->program, set ? set->n : 0);
    set->is_complete = true;
    return true;
}

bool secrets_take(struct secrets **sets, uint32_t program, struct secrets **set, struct error *err)
{
    struct secrets **link = sets;

    while (*link && (*link)->program != program)
        link = &(*link)->next;
    *set = *link;
    if (!*link)
        return true;
    *link = (*set)->next;
    (*set)->next = NULL;
    return (*set)->is_complete ||
           error_set(err, ERR_INVALID, "the secrets of program %u have not ended", program);
}

/* Makes one missing directory on the way to a secret, closed to everybody but its owner. */
static bool make_directory(struct secrets *set, const char *path, const struct user *owner,
                           struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";
    bool is_new;

    if (!path_make(SANDBOX_ROOT, path, 0700, &is_new, err))
        return false;
    if (!is_new)
        return true;
    if (!path_parent(SANDBOX_ROOT, path, false, &parent, &name, err))
        return false;
    struct secret_directory *made = arena_alloc(&set->arena, sizeof *made);
    *made = (struct secret_directory){set->directories, take_fd(&parent), name};
    set->directories = made;
    if (fchownat(made->parent, name, owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "the owner of %s", path);
    return true;
}

static bool make_parents(struct secrets *set, const char *path, const struct user *owner,
                         struct error *err)
{
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *parent = arena_text(&set->arena, (struct str){path, (size_t)(slash - path)});
        if (!make_directory(set, parent, owner, err))
            return false;
    }
    return true;
}

static bool make_placeholder(struct secret_file *file, struct error *err)
{
    struct stat info;

    if (!path_parent(SANDBOX_ROOT, file->path, false, &file->parent, &file->name, err))
        return false;
    if (fstatat(file->parent, file->name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISREG(info.st_mode))
            return true;
        return error_set(err, ERR_FORBIDDEN, "the image has a %s there",
                         S_ISDIR(info.st_mode)   ? "directory"
                         : S_ISLNK(info.st_mode) ? "link"
                                                 : "special file");
    }
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    AUTO_FD int fd = errno == ENOENT ? openat(file->parent, file->name, flags, 0400) : -1;
    if (fd < 0)
        return error_errno(err, "making the file to bind it on");
    file->is_new = true;
    return true;
}

static bool place(struct secrets *set, struct secret_file *file, const struct user *user,
                  struct error *err)
{
    struct user other;

    if (file->owner[0]) {
        if (!user_resolve(SANDBOX_ROOT, str_of(file->owner), &other, err))
            return false;
        user = &other;
    }
    if (fchown(file->fd, user->uid, user->gid) != 0 || fchmod(file->fd, file->mode) != 0)
        return error_errno(err, "giving it to its owner");
    return make_parents(set, file->path, user, err) && make_placeholder(file, err);
}

bool secrets_place(struct secrets *set, const struct user *user, struct error *err)
{
    for (struct secret_file *file = set->files; file; file = file->next) {
        if (!place(set, file, user, err))
            return error_wrap(err, "the secret at %s", file->path);
    }
    return true;
}

/* By the name in its directory: a link that another program put on the way leads nowhere, and
 * one in the last place is seen afterwards. */
static bool bind_file(const struct secret_file *file, const char *root, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";
    struct stat wanted, bound;

    if (!path_parent(root, file->path, false, &parent, &name, err))
        return false;
    if (fchdir(parent) != 0)
        return error_errno(err, "entering its directory");
    if (!mount_secret(file->source, name, err))
        return false;
    if (fstat(file->fd, &wanted) != 0 || fstatat(parent, name, &bound, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "looking at it");
    if (wanted.st_dev != bound.st_dev || wanted.st_ino != bound.st_ino)
        return error_set(err, ERR_FORBIDDEN, "something else is in its place");
    return true;
}

bool secrets_bind(const struct secrets *set, const char *root, struct error *err)
{
    for (const struct secret_file *file = set->files; file; file = file->next) {
        if (!bind_file(file, root, err))
            return error_wrap(err, "the secret at %s", file->path);
    }
    return true;
}

const char *secrets_unreadable(const struct secrets *set)
{
    for (const struct secret_file *file = set->files; file; file = file->next) {
        AUTO_FD int fd = open(file->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return file->path;
    }
    return NULL;
}

static void overwrite(const struct secret_file *file)
{
    static const char nothing[4096];

    for (size_t at = 0; at < file->len;) {
        size_t left = file->len - at;
        ssize_t put =
            pwrite(file->fd, nothing, left < sizeof nothing ? left : sizeof nothing, (off_t)at);
        if (put <= 0 && errno != EINTR)
            break;
        at += put > 0 ? (size_t)put : 0;
    }
    (void)!unlink(file->source);
    close(file->fd);
}

/* In the directory where it was bound, wherever the program may have moved that since; a copy of
 * the root is gone as a whole after this. */
static void unbind(const struct secret_file *file, const char *root)
{
    AUTO_FD int copied = -1;
    const char *name = "";
    struct error ignored;
    int parent = file->parent;

    if (strcmp(root, SANDBOX_ROOT) != 0) {
        if (!path_parent(root, file->path, false, &copied, &name, &ignored))
            return;
        parent = copied;
    }
    if (fchdir(parent) == 0)
        (void)!umount2(file->name, MNT_DETACH | UMOUNT_NOFOLLOW);
    (void)!chdir("/");
}

static void unplace(const struct secret_file *file)
{
    if (file->is_new)
        (void)!unlinkat(file->parent, file->name, 0);
    auto_close(&file->parent);
}

void secrets_destroy(struct secrets *set, const char *root)
{
    if (!set)
        return;
    for (const struct secret_file *file = set->files; file; file = file->next) {
        if (root && file->parent >= 0)
            unbind(file, root);
        overwrite(file);
        unplace(file);
    }
    /* Newest first; one that the program has put something into stays, as its own. */
    for (const struct secret_directory *made = set->directories; made; made = made->next) {
        (void)!unlinkat(made->parent, made->name, AT_REMOVEDIR);
        close(made->parent);
    }
    arena_finish(&set->arena);
    free(set);
}
