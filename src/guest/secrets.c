#include "guest/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/own.h"
#include "guest/confine.h"
#include "guest/mounts.h"
#include "guest/path.h"
#include "guest/sandbox.h"

/* Bits that a umask may take away when a file is made. */
enum { OTHERS_MODE = 0077, CHECK_PATH_MAX = 4600 };

#define STORE SANDBOX_STATE "/secrets"

/* Room for SECRETS_MAX values of SECRET_VALUE_MAX, and as much again. */
#define STORE_OPTIONS "mode=700,size=8m"

struct secret_file {
    struct secret_file *next;
    const char *path;   /* inside the root: where it, or its directory, is bound */
    const char *check;  /* inside the root: what must be readable */
    const char *source; /* on the tmpfs: what is bound */
    const char *value;  /* on the tmpfs: the file itself */
    const char *owner;  /* empty: the program's user */
    mode_t mode;        /* of what is bound */
    int fd;             /* of the value */
    size_t len;
    dev_t device; /* of what is bound */
    ino_t inode;
    int tree;   /* a mount that is in no table yet, or -1 */
    int parent; /* in the sandbox's root, -1 until placed */
    const char *name;
    bool is_directory;
    bool is_shared; /* an earlier one binds the directory */
    bool is_new;    /* the placeholder is ours */
    bool borrows_parent;
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

/* Never a directory without its tmpfs: what is made there must not get to a disk. */
static bool make_store(struct error *err)
{
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

    if (mkdir(STORE, 0700) != 0)
        return errno == EEXIST || error_errno(err, "making %s", STORE);
    /* Only newer kernels can promise that a tmpfs is never swapped out. */
    if (mount("tmpfs", STORE, "tmpfs", flags, STORE_OPTIONS ",noswap") == 0 ||
        mount_tmpfs(STORE, flags, STORE_OPTIONS, err))
        return true;
    (void)!rmdir(STORE);
    return false;
}

void secrets_prepare(void)
{
    struct error ignored; /* the first secret meets it again */

    (void)!make_store(&ignored);
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

static bool variable_is_allowed(const struct message_secret *secret, struct error *err)
{
    struct str name = secret->target;
    bool is_name = name.len > 0 && !(name.ptr[0] >= '0' && name.ptr[0] <= '9');

    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        is_name = is_name && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '_');
    }
    if (!is_name || (name.len >= 3 && memcmp(name.ptr, "LD_", 3) == 0) ||
        (name.len >= 6 && memcmp(name.ptr, "HELMR_", 6) == 0))
        return error_set(err, ERR_FORBIDDEN, "a secret may not be the variable %.*s", (int)name.len,
                         name.ptr);
    return !memchr(secret->value.ptr, 0, secret->value.len) ||
           error_set(err, ERR_INVALID, "a variable holds no NUL");
}

static bool name_is_file(struct str name)
{
    return name.len > 0 && name.len < 256 && !memchr(name.ptr, '/', name.len) &&
           !str_equal(name, STR(".")) && !str_equal(name, STR(".."));
}

static bool is_acceptable(const struct message_secret *secret, struct error *err)
{
    if (secret->program == 0)
        return error_set(err, ERR_UNSUPPORTED, "a secret is for one program");
    if (secret->placement == SECRET_IN_ENVIRONMENT)
        return variable_is_allowed(secret, err);
    if (secret->placement != SECRET_IN_FILE && secret->placement != SECRET_IN_DIRECTORY)
        return error_set(err, ERR_UNSUPPORTED, "placement %u is not known", secret->placement);
    if (secret->mode & ~0777u)
        return error_set(err, ERR_INVALID, "a secret's mode is at most 0777");
    if (secret->placement == SECRET_IN_DIRECTORY && !name_is_file(secret->name))
        return error_set(err, ERR_INVALID, "a secret in a directory needs a name");
    return path_is_allowed(secret->target, err);
}

static struct secret_file *find_directory(const struct secrets *set, const char *path)
{
    struct secret_file *file = set->files;

    while (file && !(file->is_directory && strcmp(file->path, path) == 0))
        file = file->next;
    return file;
}

static void append(struct secrets *set, struct secret_file *file)
{
    if (set->last)
        set->last->next = file;
    else
        set->files = file;
    set->last = file;
}

/* Where on the tmpfs it goes: a file, or a directory with a file that has the secret's name. */
static bool choose_source(struct secrets *set, const struct message_secret *secret,
                          struct secret_file *file, struct error *err)
{
    const struct secret_file *shared = file->is_directory ? find_directory(set, file->path) : NULL;

    if (shared && (shared->mode != file->mode || strcmp(shared->owner, file->owner) != 0))
        return error_set(err, ERR_INVALID, "secrets in one directory have one mode and owner");
    file->is_shared = shared != NULL;
    file->source =
        shared ? shared->source : arena_printf(&set->arena, STORE "/%u-%zu", set->program, set->n);
    file->value = file->source;
    file->check = file->path;
    if (!file->is_directory)
        return true;
    const char *name = arena_text(&set->arena, secret->name);
    file->value = arena_printf(&set->arena, "%s/%s", file->source, name);
    file->check = arena_printf(&set->arena, "%s/%s", file->path, name);
    return shared || mkdir(file->source, 0700) == 0 || error_errno(err, "making %s", file->source);
}

/* Of the value: whoever may enter its directory may read it, and nobody runs it. */
static mode_t file_mode(const struct secret_file *file)
{
    return file->is_directory ? file->mode & 0666 : file->mode;
}

static bool store(struct secrets *set, const struct message_secret *secret, struct error *err)
{
    struct secret_file *file = arena_alloc(&set->arena, sizeof *file);
    struct stat bound;

    *file = (struct secret_file){
        .path = arena_text(&set->arena, secret->target),
        .check = "",
        .source = "",
        .value = "",
        .owner = arena_text(&set->arena, secret->owner),
        .mode = secret->mode,
        .len = secret->value.len,
        .tree = -1,
        .parent = -1,
        .name = "",
        .is_directory = secret->placement == SECRET_IN_DIRECTORY,
    };
    if (!choose_source(set, secret, file, err))
        return false;
    int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    AUTO_FD int fd = open(file->value, flags, file_mode(file));
    if (fd < 0 || (file->is_directory ? stat(file->source, &bound) : fstat(fd, &bound)) != 0)
        return error_errno(err, "making %s", file->value);
    file->device = bound.st_dev;
    file->inode = bound.st_ino;
    file->fd = take_fd(&fd);
    append(set, file);
    if (!fd_write_all(file->fd, secret->value, err))
        return error_wrap(err, "storing the secret of %s", file->path);
    return true;
}

bool secrets_add(struct secrets **sets, const struct message_secret *secret, struct error *err)
{
    bool is_stored = secret->placement != SECRET_IN_ENVIRONMENT;

    if (!is_acceptable(secret, err) || (is_stored && !make_store(err)))
        return false;
    struct secrets *set = find_or_make(sets, secret->program);
    if (set->is_complete || set->n == SECRETS_MAX)
        return error_set(err, ERR_LIMIT, "program %u has all its secrets", secret->program);
    if (is_stored && !store(set, secret, err))
        return false;
    set->n++;
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

static bool make_new(struct secret_file *file)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

    if (file->is_directory)
        return mkdirat(file->parent, file->name, 0700) == 0;
    AUTO_FD int fd = openat(file->parent, file->name, flags, 0400);
    return fd >= 0;
}

static bool make_placeholder(struct secret_file *file, struct error *err)
{
    struct stat info;

    file->is_new = make_new(file);
    if (file->is_new)
        return true;
    if (errno != EEXIST || fstatat(file->parent, file->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "making what it is bound on");
    if (file->is_directory ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode))
        return error_set(err, ERR_FORBIDDEN, "the image has a %s there",
                         S_ISDIR(info.st_mode)   ? "directory"
                         : S_ISLNK(info.st_mode) ? "link"
                         : S_ISREG(info.st_mode) ? "file"
                                                 : "special file");
    return true;
}

/* Many secrets lie in one directory: it is looked for once. */
static bool find_parent(struct secrets *set, struct secret_file *file, const struct user *owner,
                        struct error *err)
{
    size_t len = (size_t)(strrchr(file->path, '/') - file->path) + 1;

    for (const struct secret_file *other = set->files; other != file; other = other->next) {
        if (other->parent < 0 || strncmp(other->path, file->path, len) != 0 ||
            strchr(other->path + len, '/'))
            continue;
        file->parent = other->parent;
        file->name = file->path + len;
        file->borrows_parent = true;
        return true;
    }
    return make_parents(set, file->path, owner, err) &&
           path_parent(SANDBOX_ROOT, file->path, false, &file->parent, &file->name, err);
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
    bool is_mine = user->uid == 0 && user->gid == 0;
    mode_t mode = file_mode(file);
    /* It was made with its mode, as far as the umask let through, and as root's. */
    if ((!is_mine && fchown(file->fd, user->uid, user->gid) != 0) ||
        (mode & OTHERS_MODE && fchmod(file->fd, mode) != 0))
        return error_errno(err, "giving it to its owner");
    if (file->is_shared)
        return true;
    if (file->is_directory && ((!is_mine && chown(file->source, user->uid, user->gid) != 0) ||
                               (file->mode != 0700 && chmod(file->source, file->mode) != 0)))
        return error_errno(err, "giving its directory to its owner");
    return find_parent(set, file, user, err) && make_placeholder(file, err);
}

bool secrets_place(struct secrets *set, const struct user *user, struct error *err)
{
    for (struct secret_file *file = set->files; file; file = file->next) {
        if (!place(set, file, user, err))
            return error_wrap(err, "the secret at %s", file->path);
    }
    return true;
}

/* By its name in the directory: one that another program put in its place is seen afterwards. */
static bool bind_in(const struct secret_file *file, int parent, struct error *err)
{
    struct stat bound;

    if (fchdir(parent) != 0)
        return error_errno(err, "entering its directory");
    if (file->tree >= 0 ? !mount_secret_tree(file->tree, file->name, err)
                        : !mount_secret(file->source, file->name, err))
        return false;
    if (fstatat(parent, file->name, &bound, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "looking at it");
    if (file->device != bound.st_dev || file->inode != bound.st_ino)
        return error_set(err, ERR_FORBIDDEN, "something else is in its place");
    return true;
}

/* The directory is looked for anew: a link that another program put on the way leads nowhere. */
static bool bind_file(const struct secret_file *file, const char *root, struct error *err)
{
    AUTO_FD int parent = -1;
    const char *name = "";

    return file->is_shared || (path_parent(root, file->path, false, &parent, &name, err) &&
                               bind_in(file, parent, err));
}

bool secrets_bind(const struct secrets *set, const char *root, struct error *err)
{
    for (const struct secret_file *file = set->files; file; file = file->next) {
        if (!bind_file(file, root, err))
            return error_wrap(err, "the secret at %s", file->path);
    }
    return true;
}

static const char *unreadable_below(const struct secrets *set, const char *root)
{
    char path[CHECK_PATH_MAX];

    for (const struct secret_file *file = set->files; file; file = file->next) {
        snprintf(path, sizeof path, "%s%s", root, file->check);
        AUTO_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return file->check;
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
    for (struct secret_file *file = set->files; file; file = file->next) {
        if (!file->is_shared && !mount_tree(file->source, &file->tree, err))
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

/* With one table of mounts no child is needed, and where that is so one is dear. */
static bool attach_here(const struct secrets *set, const struct secrets_program *program,
                        struct error *err)
{
    bool is_first_root = strcmp(program->root, SANDBOX_ROOT) == 0;

    for (const struct secret_file *file = set->files; file; file = file->next) {
        if (!file->is_shared && !(is_first_root ? bind_in(file, file->parent, err)
                                                : bind_file(file, program->root, err)))
            return error_wrap(err, "the secret at %s", file->path);
    }
    if (chdir("/") != 0)
        return error_errno(err, "leaving the secrets");
    bool is_fine = confine_borrow(program->user)
                       ? tell_unreadable(unreadable_below(set, program->root), err)
                       : error_errno(err, "becoming the user");
    confine_return();
    return is_fine;
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
    (void)!unlink(file->value);
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
        (void)!unlinkat(file->parent, file->name, file->is_directory ? AT_REMOVEDIR : 0);
    if (file->is_directory)
        (void)!rmdir(file->source);
    if (!file->borrows_parent)
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
