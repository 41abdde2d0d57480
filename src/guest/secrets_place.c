/* Where a program sees its secrets: placeholders in the image, binds over them, the look with the
 * rights of its user, and the end of it all. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/own.h"
#include "guest/confine.h"
#include "guest/mounts.h"
#include "guest/path.h"
#include "guest/sandbox.h"
#include "guest/secrets_state.h"

/* Bits that a umask may take away when a file is made. */
enum { OTHERS_MODE = 0077, CHECK_PATH_MAX = 4600 };

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
    *made = (struct secret_directory){set->directories, take_fd(&parent), name, path};
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

/* Many secrets lie in one directory: it is looked for once. */
static bool borrow_parent(const struct secrets *set, struct secret_mount *mount)
{
    size_t len = (size_t)(strrchr(mount->path, '/') - mount->path) + 1;

    for (const struct secret_mount *other = set->mounts; other; other = other->next) {
        if (other->parent < 0 || strncmp(other->path, mount->path, len) != 0 ||
            strchr(other->path + len, '/'))
            continue;
        mount->parent = other->parent;
        mount->name = mount->path + len;
        mount->borrows_parent = true;
        return true;
    }
    return false;
}

bool secrets_make_parent(struct secrets *set, struct secret_mount *mount)
{
    struct error ignored; /* placing the file alone meets it again */

    if (!borrow_parent(set, mount) &&
        !path_parent(SANDBOX_ROOT, mount->path, false, &mount->parent, &mount->name, &ignored))
        return false;
    mount->is_new = mkdirat(mount->parent, mount->name, 0700) == 0;
    if (!mount->is_new && !mount->borrows_parent)
        close(take_fd(&mount->parent));
    return mount->is_new;
}

static bool make_new(struct secret_mount *mount)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

    if (mount->kind != SECRET_MOUNT_FILE)
        return mkdirat(mount->parent, mount->name, 0700) == 0;
    AUTO_FD int fd = openat(mount->parent, mount->name, flags, 0400);
    return fd >= 0;
}

static bool make_placeholder(struct secret_mount *mount, struct error *err)
{
    struct stat info;

    mount->is_new = make_new(mount);
    if (mount->is_new)
        return true;
    if (errno != EEXIST || fstatat(mount->parent, mount->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "making what it is bound on");
    if (mount->kind == SECRET_MOUNT_FILE ? !S_ISREG(info.st_mode) : !S_ISDIR(info.st_mode))
        return error_set(err, ERR_FORBIDDEN, "the image has a %s there",
                         S_ISDIR(info.st_mode)   ? "directory"
                         : S_ISLNK(info.st_mode) ? "link"
                         : S_ISREG(info.st_mode) ? "file"
                                                 : "special file");
    return true;
}

/* A declared owner as a user of the image; else the program's. */
static bool resolve(const char *owner, const struct user **user, struct user *other,
                    struct error *err)
{
    if (!owner[0])
        return true;
    *user = other;
    return user_resolve(SANDBOX_ROOT, str_of(owner), other, err);
}

static bool place_mount(struct secrets *set, struct secret_mount *mount, const struct user *user,
                        struct error *err)
{
    struct user other;

    if (!resolve(mount->owner, &user, &other, err))
        return false;
    bool is_mine = user->uid == 0 && user->gid == 0;
    if (mount->kind != SECRET_MOUNT_FILE &&
        ((!is_mine && chown(mount->source, user->uid, user->gid) != 0) ||
         (mount->mode != 0700 && chmod(mount->source, mount->mode) != 0)))
        return error_errno(err, "giving its directory to its owner");
    if (mount->is_new) /* a parent, which came first */
        return true;
    return (borrow_parent(set, mount) ||
            (make_parents(set, mount->path, user, err) &&
             path_parent(SANDBOX_ROOT, mount->path, false, &mount->parent, &mount->name, err))) &&
           make_placeholder(mount, err);
}

/* It was made with its mode, as far as the umask let through, and as root's. */
static bool give(const struct secret_file *file, const struct user *user, struct error *err)
{
    struct user other;

    if (!resolve(file->owner, &user, &other, err))
        return false;
    bool is_mine = user->uid == 0 && user->gid == 0;
    return ((is_mine || fchown(file->fd, user->uid, user->gid) == 0) &&
            (!(file->mode & OTHERS_MODE) || fchmod(file->fd, file->mode) == 0)) ||
           error_errno(err, "giving it to its owner");
}

bool secrets_place(struct secrets *set, const struct user *user, struct error *err)
{
    for (struct secret_mount *mount = set->mounts; mount; mount = mount->next) {
        if (!place_mount(set, mount, user, err))
            return error_wrap(err, "the secret at %s", mount->path);
    }
    for (const struct secret_file *file = set->files; file; file = file->next) {
        if (!give(file, user, err))
            return error_wrap(err, "the secret at %s", file->path);
    }
    return true;
}

/* By its name in the directory: one that another program put in its place is seen afterwards.
 * *here is the directory that was entered last. */
static bool bind_in(const struct secret_mount *mount, int parent, int *here, struct error *err)
{
    struct stat bound;

    if (parent < 0 || (*here != parent && fchdir(parent) != 0))
        return error_errno(err, "entering its directory");
    *here = parent;
    if (mount->tree >= 0 ? !mount_secret_tree(mount->tree, mount->name, err)
                         : !mount_secret(mount->source, mount->name, err))
        return false;
    if (fstatat(parent, mount->name, &bound, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "looking at it");
    if (mount->device != bound.st_dev || mount->inode != bound.st_ino)
        return error_set(err, ERR_FORBIDDEN, "something else is in its place");
    return true;
}

/* The directory is looked for anew: a link that another program put on the way leads nowhere. */
static bool bind_mount(const struct secret_mount *mount, const char *root, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";
    int here = -1;

    return path_parent(root, mount->path, false, &parent, &name, err) &&
           bind_in(mount, parent, &here, err);
}

bool secrets_bind(const struct secrets *set, const char *root, struct error *err)
{
    for (const struct secret_mount *mount = set->mounts; mount; mount = mount->next) {
        if (!bind_mount(mount, root, err))
            return error_wrap(err, "the secret at %s", mount->path);
    }
    return true;
}

/* Of files in one directory with one owner and mode all can be read when the first can. */
static bool is_like_an_earlier(const struct secrets *set, const struct secret_file *file)
{
    for (const struct secret_file *other = set->files; other != file; other = other->next) {
        if (other->mount == file->mount && other->mode == file->mode &&
            strcmp(other->owner, file->owner) == 0)
            return true;
    }
    return false;
}

static const char *unreadable_below(const struct secrets *set, const char *root)
{
    char path[CHECK_PATH_MAX];

    for (const struct secret_file *file = set->files; file; file = file->next) {
        if (is_like_an_earlier(set, file))
            continue;
        snprintf(path, sizeof path, "%s%s", root, file->path);
        AUTO_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return file->path;
    }
    return NULL;
}

const char *secrets_unreadable(const struct secrets *set)
{
    return unreadable_below(set, "");
}

/* The mounts are copied while the tmpfs can still be named, and attached where it cannot. */
static bool enter_mounts(const struct secrets *set, int mounts, struct error *err)
{
    for (struct secret_mount *mount = set->mounts; mount; mount = mount->next) {
        if (!mount_tree(mount->source, &mount->tree, err))
            return false;
    }
    return setns(mounts, CLONE_NEWNS) == 0 || error_errno(err, "entering the program's mounts");
}

static bool tell_unreadable(const char *path, struct error *err)
{
    return !path ||
           error_set(err, ERR_UNPROCESSABLE, "the secret at %s: %s", path, strerror(errno));
}

/* In a child, which does not come back from where this leads. */
static bool attach_there(const struct secrets *set, const struct secrets_program *program,
                         struct error *err)
{
    if (!enter_mounts(set, program->mounts, err) || !secrets_bind(set, "/", err))
        return false;
    if (chdir("/") != 0 || !confine_user(program->user))
        return error_errno(err, "becoming the user");
    return tell_unreadable(secrets_unreadable(set), err);
}

/* Root there reads whatever root here does. */
static bool look_as(const struct user *user, const struct secrets *set, const char *root,
                    struct error *err)
{
    if (user->uid == 0)
        return tell_unreadable(unreadable_below(set, root), err);
    bool is_fine = confine_borrow(user) ? tell_unreadable(unreadable_below(set, root), err)
                                        : error_errno(err, "becoming the user");
    confine_return();
    return is_fine;
}

/* With one table of mounts no child is needed, and where that is so one is dear. */
static bool attach_here(const struct secrets *set, const struct secrets_program *program,
                        struct error *err)
{
    bool is_first_root = strcmp(program->root, SANDBOX_ROOT) == 0;
    int here = -1;

    for (const struct secret_mount *mount = set->mounts; mount; mount = mount->next) {
        if (!(is_first_root ? bind_in(mount, mount->parent, &here, err)
                            : bind_mount(mount, program->root, err)))
            return error_wrap(err, "the secret at %s", mount->path);
    }
    if (chdir("/") != 0)
        return error_errno(err, "leaving the secrets");
    return look_as(program->user, set, program->root, err);
}

bool secrets_attach(const struct secrets *set, const struct secrets_program *program,
                    struct error *err)
{
    if (program->mounts < 0)
        return attach_here(set, program, err);

    struct error told;
    int report[2];

    if (pipe2(report, O_CLOEXEC) != 0)
        return error_errno(err, "making a pipe");
    AUTO_FD int in = report[0], out = report[1];
    pid_t child = fork();
    if (child < 0)
        return error_errno(err, "forking");
    if (child == 0) {
        if (attach_there(set, program, &told))
            _exit(0);
        (void)!write(out, &told, sizeof told);
        _exit(1);
    }
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return error_errno(err, "waiting for the secrets");
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (read(in, &told, sizeof told) != sizeof told)
        return error_set(err, ERR_INTERNAL, "the secrets could not be attached");
    *err = told;
    return false;
}

/* In the directory where it was bound, wherever the program may have moved that since; a copy of
 * the root is gone as a whole after this. */
static void unbind(const struct secret_mount *mount, const char *root)
{
    AUTO_FD int copied = -1;
    const char *name = "";
    struct error ignored;
    int parent = mount->parent;

    if (strcmp(root, SANDBOX_ROOT) != 0) {
        if (!path_parent(root, mount->path, false, &copied, &name, &ignored))
            return;
        parent = copied;
    }
    if (fchdir(parent) == 0)
        (void)!umount2(mount->name, MNT_DETACH | UMOUNT_NOFOLLOW);
    (void)!chdir("/");
}

void secrets_unplace(struct secrets *set, const char *root)
{
    for (struct secret_mount *mount = set->mounts; mount; mount = mount->next) {
        bool is_file = mount->kind == SECRET_MOUNT_FILE;
        if (root && mount->parent >= 0)
            unbind(mount, root);
        if (mount->is_new)
            (void)!unlinkat(mount->parent, mount->name, is_file ? 0 : AT_REMOVEDIR);
        if (!is_file)
            (void)!rmdir(mount->source);
    }
    for (struct secret_mount *mount = set->mounts; mount; mount = mount->next) {
        if (!mount->borrows_parent)
            auto_close(&mount->parent);
    }
    /* Newest first; one that the program has put something into stays, as its own. */
    for (const struct secret_directory *made = set->directories; made; made = made->next) {
        (void)!unlinkat(made->parent, made->name, AT_REMOVEDIR);
        close(made->parent);
    }
}

enum secrets_trace secrets_trace(const struct secrets *set, struct str path)
{
    for (const struct secret_mount *mount = set ? set->mounts : NULL; mount; mount = mount->next) {
        if (mount->is_new && str_equal(str_of(mount->path), path))
            return SECRETS_PLACEHOLDER;
    }
    for (const struct secret_directory *made = set ? set->directories : NULL; made;
         made = made->next) {
        if (str_equal(str_of(made->path), path))
            return SECRETS_DIRECTORY;
    }
    return SECRETS_NO_TRACE;
}
