#include "guest/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>

#include "base/file.h"
#include "base/own.h"
#include "base/secret.h"
#include "guest/mounts.h"
#include "guest/path.h"
#include "guest/sandbox.h"
#include "guest/secrets_state.h"

enum { SPARES = 4, SOURCE_MAX = 64 };

#define STORE SANDBOX_STATE "/secrets"

/* Room for SECRETS_MAX values of SECRET_VALUE_MAX, and as much again. */
#define STORE_OPTIONS "mode=700,size=8m"

struct secret_variable {
    struct secret_variable *next;
    struct str name;
    struct secret value;
};

/* Directories of the tmpfs that no set has taken yet. */
static struct spare {
    bool is_free;
    dev_t device;
    ino_t inode;
} spares[SPARES];

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
    static bool is_made;
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;

    if (is_made)
        return true;
    if (mkdir(STORE, 0700) != 0)
        return error_errno(err, "making %s", STORE);
    /* Only newer kernels can promise that a tmpfs is never swapped out. */
    is_made = mount("tmpfs", STORE, "tmpfs", flags, STORE_OPTIONS ",noswap") == 0 ||
              mount_tmpfs(STORE, flags, STORE_OPTIONS, err);
    if (!is_made)
        (void)!rmdir(STORE);
    return is_made;
}

static bool make_source(const char *source, struct spare *made, struct error *err)
{
    struct stat info;

    if (mkdir(source, 0700) != 0 || stat(source, &info) != 0)
        return error_errno(err, "making %s", source);
    *made = (struct spare){true, info.st_dev, info.st_ino};
    return true;
}

static void spare_path(char path[SOURCE_MAX], size_t i)
{
    snprintf(path, SOURCE_MAX, STORE "/spare-%zu", i);
}

void secrets_prepare(void)
{
    static bool is_prepared;
    struct error ignored; /* the first secret meets it again */
    char path[SOURCE_MAX];

    if (is_prepared || !make_store(&ignored))
        return;
    is_prepared = true;
    for (size_t i = 0; i < SPARES; i++) {
        spare_path(path, i);
        (void)!make_source(path, &spares[i], &ignored);
    }
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

static struct secret_mount *find_mount(const struct secrets *set, enum secret_mount_kind kind,
                                       struct str path)
{
    struct secret_mount *mount = set->mounts;

    while (mount && !(mount->kind == kind && str_equal(str_of(mount->path), path)))
        mount = mount->next;
    return mount;
}

static struct secret_mount *make_mount(struct secrets *set, enum secret_mount_kind kind,
                                       struct str path)
{
    struct secret_mount *mount = arena_alloc(&set->arena, sizeof *mount);

    *mount = (struct secret_mount){
        .kind = kind,
        .path = arena_text(&set->arena, path),
        .source = "",
        .owner = "",
        .mode = 0700,
        .tree = -1,
        .parent = -1,
        .name = "",
    };
    return mount;
}

static void add_mount(struct secrets *set, struct secret_mount *mount)
{
    *(set->last_mount ? &set->last_mount->next : &set->mounts) = mount;
    set->last_mount = mount;
}

/* One that was made ahead where there is one. */
static bool take_source(struct secrets *set, struct secret_mount *mount, struct error *err)
{
    struct spare made;
    size_t i = 0;

    while (i < SPARES && !spares[i].is_free)
        i++;
    if (i < SPARES) {
        char path[SOURCE_MAX];
        spare_path(path, i);
        mount->source = arena_printf(&set->arena, "%s", path);
        made = spares[i];
        spares[i].is_free = false;
    } else {
        mount->source = arena_printf(&set->arena, STORE "/%u-%zu", set->program, set->n);
        if (!make_source(mount->source, &made, err))
            return false;
    }
    mount->device = made.device;
    mount->inode = made.inode;
    return true;
}

static bool is_within(struct str path, const char *directory)
{
    size_t len = directory ? strlen(directory) : 0;

    return len > 0 && path.len >= len && memcmp(path.ptr, directory, len) == 0 &&
           (path.len == len || path.ptr[len] == '/');
}

/* The directory of a file that is bound as a whole; *parent is NULL where there is none. */
static bool find_parent(struct secrets *set, const struct message_secret *secret,
                        const struct secrets_grouping *grouping, struct secret_mount **parent,
                        struct error *err)
{
    struct str path = secret->target;

    *parent = NULL;
    while (path.len > 0 && path.ptr[path.len - 1] != '/')
        path.len--;
    if (!grouping || path.len <= 1)
        return true;
    path.len--;
    if (is_within(path, grouping->workspace))
        return true;
    *parent = find_mount(set, SECRET_MOUNT_PARENT, path);
    if (*parent)
        return true;
    struct secret_mount *mount = make_mount(set, SECRET_MOUNT_PARENT, path);
    mount->owner = arena_text(&set->arena, secret->owner);
    if (!secrets_make_parent(set, mount))
        return true;
    add_mount(set, mount);
    *parent = mount;
    return take_source(set, mount, err);
}

/* NULL: it failed. */
static struct secret_mount *choose_directory(struct secrets *set,
                                             const struct message_secret *secret,
                                             struct secret_file *file, struct error *err)
{
    struct secret_mount *mount = find_mount(set, SECRET_MOUNT_DIRECTORY, secret->target);

    if (mount && (mount->mode != secret->mode || strcmp(mount->owner, file->owner) != 0)) {
        error_set(err, ERR_INVALID, "secrets in one directory have one mode and owner");
        return NULL;
    }
    if (!mount) {
        mount = make_mount(set, SECRET_MOUNT_DIRECTORY, secret->target);
        mount->mode = secret->mode;
        mount->owner = file->owner;
        if (!take_source(set, mount, err))
            return NULL;
        add_mount(set, mount);
    }
    const char *name = arena_text(&set->arena, secret->name);
    file->value = arena_printf(&set->arena, "%s/%s", mount->source, name);
    file->path = arena_printf(&set->arena, "%s/%s", mount->path, name);
    /* Whoever may enter the directory may read it, and nobody runs it. */
    file->mode = mount->mode & 0666;
    return mount;
}

static struct secret_mount *choose_file(struct secrets *set, const struct message_secret *secret,
                                        const struct secrets_grouping *grouping,
                                        struct secret_file *file, struct error *err)
{
    struct secret_mount *mount;

    file->path = arena_text(&set->arena, secret->target);
    file->mode = secret->mode;
    if (!find_parent(set, secret, grouping, &mount, err))
        return NULL;
    if (mount) {
        file->value = arena_printf(&set->arena, "%s%s", mount->source, strrchr(file->path, '/'));
        return mount;
    }
    mount = make_mount(set, SECRET_MOUNT_FILE, secret->target);
    mount->source = arena_printf(&set->arena, STORE "/%u-%zu", set->program, set->n);
    mount->owner = file->owner;
    add_mount(set, mount);
    file->value = mount->source;
    return mount;
}

static bool make_value(struct secret_file *file, struct str value, struct error *err)
{
    int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    struct secret_mount *mount = file->mount;
    struct stat info;

    file->fd = open(file->value, flags, file->mode);
    if (file->fd < 0)
        return error_errno(err, "making %s", file->value);
    if (mount->kind == SECRET_MOUNT_FILE) {
        if (fstat(file->fd, &info) != 0)
            return error_errno(err, "looking at %s", file->value);
        mount->device = info.st_dev;
        mount->inode = info.st_ino;
    }
    if (!fd_write_all(file->fd, value, err))
        return error_wrap(err, "storing the secret of %s", file->path);
    return true;
}

static bool store(struct secrets *set, const struct message_secret *secret,
                  const struct secrets_grouping *grouping, struct error *err)
{
    struct secret_file *file = arena_alloc(&set->arena, sizeof *file);

    *file = (struct secret_file){
        .value = "",
        .path = "",
        .owner = arena_text(&set->arena, secret->owner),
        .fd = -1,
        .len = secret->value.len,
    };
    file->mount = secret->placement == SECRET_IN_FILE
                      ? choose_file(set, secret, grouping, file, err)
                      : choose_directory(set, secret, file, err);
    if (!file->mount)
        return false;
    *(set->last_file ? &set->last_file->next : &set->files) = file;
    set->last_file = file;
    return make_value(file, secret->value, err);
}

bool secrets_add(struct secrets **sets, const struct message_secret *secret,
                 const struct secrets_grouping *grouping, struct error *err)
{
    bool is_stored = secret->placement != SECRET_IN_ENVIRONMENT;

    if (!is_acceptable(secret, err) || (is_stored && !make_store(err)))
        return false;
    struct secrets *set = find_or_make(sets, secret->program);
    if (set->is_complete || set->n == SECRETS_MAX)
        return error_set(err, ERR_LIMIT, "program %u has all its secrets", secret->program);
    if (is_stored && !store(set, secret, grouping, err))
        return false;
    set->n++;
    return true;
}

static bool count_is(const struct message_secrets_end *end, size_t n, struct error *err)
{
    return n == end->count ||
           error_set(err, ERR_INVALID, "%u secrets were sent for program %u, %zu came", end->count,
                     end->program, n);
}

bool secrets_complete(struct secrets *sets, const struct message_secrets_end *end,
                      struct error *err)
{
    struct secrets *set = find(sets, end->program);

    if (!set)
        return error_set(err, ERR_INVALID, "no secrets were sent for program %u", end->program);
    if (!count_is(end, set->n, err))
        return false;
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

static bool overwrite(const struct secret_file *file, struct error *err)
{
    static const char nothing[4096];

    for (size_t at = 0; at < file->len;) {
        size_t left = file->len - at;
        ssize_t put =
            pwrite(file->fd, nothing, left < sizeof nothing ? left : sizeof nothing, (off_t)at);
        if (put <= 0 && errno != EINTR)
            return error_errno(err, "overwriting the secret of %s", file->path);
        at += put > 0 ? (size_t)put : 0;
    }
    return true;
}

bool secrets_zero(struct secrets *set, struct error *err)
{
    if (!set)
        return true;
    secrets_variables(set, NULL, NULL);
    set->is_zero = true;
    set->n_again = 0;
    for (struct secret_file *file = set->files; file; file = file->next) {
        if (!overwrite(file, err))
            return false;
        file->is_zero = true;
    }
    return true;
}

static bool rewrite_file(struct secret_file *file, struct str value, struct error *err)
{
    file->len = value.len > file->len ? value.len : file->len;
    if (ftruncate(file->fd, (off_t)value.len) != 0 || lseek(file->fd, 0, SEEK_SET) != 0)
        return error_errno(err, "emptying the secret of %s", file->path);
    if (!fd_write_all(file->fd, value, err))
        return error_wrap(err, "storing the secret of %s", file->path);
    file->len = value.len;
    file->is_zero = false;
    return true;
}

static bool is_of(const struct secret_file *file, const struct message_secret *secret)
{
    struct str path = str_of(file->path);

    if (secret->placement == SECRET_IN_FILE)
        return file->mount->kind != SECRET_MOUNT_DIRECTORY && str_equal(path, secret->target);
    return file->mount->kind == SECRET_MOUNT_DIRECTORY &&
           str_equal(str_of(file->mount->path), secret->target) &&
           str_equal(str_of(strrchr(file->path, '/') + 1), secret->name);
}

static void keep_variable(struct secrets *set, const struct message_secret *secret)
{
    struct secret_variable *kept = alloc(sizeof *kept);

    *kept = (struct secret_variable){
        .next = set->variables,
        .name = arena_str(&set->arena, secret->target),
        .value = secret_create(secret->value),
    };
    set->variables = kept;
}

bool secrets_rewrite(struct secrets *set, const struct message_secret *secret, struct error *err)
{
    struct secret_file *file = set->files;

    if (!set->is_zero || set->n_again == set->n)
        return error_set(err, ERR_INVALID, "program %u takes no secrets now", set->program);
    if (!is_acceptable(secret, err))
        return false;
    if (secret->placement == SECRET_IN_ENVIRONMENT) {
        keep_variable(set, secret);
        set->n_again++;
        return true;
    }
    while (file && !is_of(file, secret))
        file = file->next;
    if (!file)
        return error_set(err, ERR_INVALID, "program %u has no secret at %.*s", set->program,
                         (int)secret->target.len, secret->target.ptr);
    if (!rewrite_file(file, secret->value, err))
        return false;
    set->n_again++;
    return true;
}

bool secrets_rewritten(struct secrets *set, const struct message_secrets_end *end,
                       struct error *err)
{
    if (!count_is(end, set->n_again, err))
        return false;
    for (const struct secret_file *file = set->files; file; file = file->next) {
        if (file->is_zero)
            return error_set(err, ERR_INVALID, "the secret of %s did not come again", file->path);
    }
    set->is_zero = false;
    return true;
}

void secrets_variables(struct secrets *set, secrets_take_variable *take, void *arg)
{
    while (set && set->variables) {
        struct secret_variable *variable = set->variables;
        set->variables = variable->next;
        if (take)
            take(arg, variable->name, secret_reveal(&variable->value));
        secret_finish(&variable->value);
        free(variable);
    }
}

void secrets_destroy(struct secrets *set, const char *root)
{
    struct error ignored;

    if (!set)
        return;
    for (struct secret_file *file = set->files; file; file = file->next) {
        if (file->fd < 0)
            continue;
        (void)!overwrite(file, &ignored);
        (void)!unlink(file->value);
        close(file->fd);
    }
    secrets_variables(set, NULL, NULL);
    secrets_unplace(set, root);
    arena_finish(&set->arena);
    free(set);
}
