/* The secrets of a run step: asked for, mounted as files, and looked for in what it left. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/xattr.h>

#include "base/encode.h"
#include "base/own.h"
#include "image/builder.h"

enum {
    VALUE_MIN = 4,   /* shorter ones are found by accident */
    ENCODED_MIN = 8, /* the same of their base64 */
    VALUE_MAX = 64 * 1024,
    CHUNK = 1 << 20,
    FORMS = 7, /* plain, and base64 at three alignments in two alphabets */
};

void secrets_finish(struct secrets *secrets)
{
    for (size_t i = 0; i < secrets->n; i++)
        secret_finish(&secrets->values[i]);
    secrets->n = 0;
}

bool secrets_open(struct built *built, const struct step *step, struct secrets *secrets,
                  struct error *err)
{
    const struct image_build_hooks *hooks = built->builder->hooks;
    const struct step_mount *asked = step->secrets.items;
    struct arena *arena = &built->arena;
    size_t n = step->secrets.n;

    if (n == 0)
        return true;
    if (!hooks->secret)
        return error_set(err, ERR_UNSUPPORTED, "this build has no secrets");
    secrets->mounts = arena_array(arena, n, sizeof *secrets->mounts);
    secrets->values = arena_array(arena, n, sizeof *secrets->values);
    secrets->folders = arena_array(arena, n, sizeof *secrets->folders);
    for (size_t i = 0; i < n; i++) {
        const char *name = arena_text(arena, asked[i].id), *path = arena_text(arena, asked[i].path);
        size_t folder_len = (size_t)(strrchr(path, '/') - path);
        if (!hooks->secret(built->ctx, name, &secrets->values[i], err))
            return false;
        secrets->folders[i] = arena_text(arena, (struct str){path, folder_len ? folder_len : 1});
        secrets->mounts[i] = (struct image_secret){name, path, &secrets->values[i]};
        secrets->n = i + 1;
        if (secret_reveal(&secrets->values[i]).len > VALUE_MAX)
            return error_set(err, ERR_UNPROCESSABLE, "secret %s is over %d bytes", name, VALUE_MAX);
    }
    return true;
}

bool secrets_unplace(const struct secrets *secrets, int upper, const struct view *below,
                     struct error *err)
{
    for (size_t i = 0; i < secrets->n; i++) {
        char path[TAR_PATH];
        const char *name;
        struct stat facts;
        if (!view_resolve(below, secrets->mounts[i].path, path, err))
            return false;
        AUTO_FD int folder = disk_open_parent(upper, path, &name);
        if (folder < 0 || fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
                continue;
            return error_errno(err, "look at %s", path);
        }
        if (S_ISREG(facts.st_mode) && facts.st_size == 0 && unlinkat(folder, name, 0) != 0)
            return error_errno(err, "remove %s", path);
    }
    return true;
}

/* One value in the forms it is looked for in. */
struct needles {
    const char *secret; /* its name */
    struct str forms[FORMS];
    size_t n;
};

struct search {
    struct built *built;
    int root;
    struct needles *needles;
    size_t n;
    size_t longest;
    char *buffer; /* longest + CHUNK bytes */
};

static void search_finish(struct search *search)
{
    for (size_t i = 0; i < search->n; i++)
        for (size_t j = 0; j < search->needles[i].n; j++) {
            char *bytes = (char *)search->needles[i].forms[j].ptr;
            bytes_wipe(bytes, search->needles[i].forms[j].len);
            free(bytes);
        }
    if (search->buffer)
        bytes_wipe(search->buffer, search->longest + CHUNK);
    free(search->buffer);
}

static void add_form(struct search *search, struct needles *needles, const char *bytes, size_t len)
{
    char *copy = alloc(len);

    memcpy(copy, bytes, len);
    needles->forms[needles->n++] = (struct str){copy, len};
    if (len > search->longest)
        search->longest = len;
}

/* The characters that every base64 text has which holds the value `shift` bytes after a border of
 * three: those at its ends depend on what stands beside it. */
static void add_encoded(struct search *search, struct needles *needles, struct str value,
                        size_t shift)
{
    size_t len = shift + value.len, room = base64_encoded_len(len);
    size_t begin = (8 * shift + 5) / 6, end = 8 * len / 6;
    AUTO_FREE char *bytes = alloc(len + 1), *text = alloc(room + 1);

    memset(bytes, 0, shift);
    memcpy(bytes + shift, value.ptr, value.len);
    base64_encode((struct str){bytes, len}, text);
    if (end >= begin + ENCODED_MIN) {
        add_form(search, needles, text + begin, end - begin);
        bool differs = false;
        for (size_t i = begin; i < end; i++) {
            differs = differs || text[i] == '+' || text[i] == '/';
            text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
        }
        if (differs)
            add_form(search, needles, text + begin, end - begin);
    }
    bytes_wipe(bytes, len);
    bytes_wipe(text, room);
}

static void add_secret(struct search *search, const struct image_secret *secret)
{
    struct str value = secret_reveal(secret->value);
    struct needles *needles = &search->needles[search->n];

    /* A line end after the value belongs to the file it came in. */
    while (value.len > 0 && (value.ptr[value.len - 1] == '\n' || value.ptr[value.len - 1] == '\r'))
        value.len--;
    if (value.len < VALUE_MIN)
        return;
    *needles = (struct needles){.secret = secret->name};
    add_form(search, needles, value.ptr, value.len);
    for (size_t shift = 0; shift < 3; shift++)
        add_encoded(search, needles, value, shift);
    search->n++;
}

static bool check_bytes(const struct search *search, const char *path, struct str bytes,
                        struct error *err)
{
    for (size_t i = 0; i < search->n; i++)
        for (size_t j = 0; j < search->needles[i].n; j++) {
            struct str form = search->needles[i].forms[j];
            if (bytes.len >= form.len && memmem(bytes.ptr, bytes.len, form.ptr, form.len))
                return error_set(err, ERR_UNPROCESSABLE,
                                 "the step wrote the value of secret %.64s to /%.96s",
                                 search->needles[i].secret, path);
        }
    return true;
}

static bool check_content(struct search *search, int fd, const char *path, struct error *err)
{
    size_t kept = 0; /* the end of the last chunk: a value may lie across */

    for (;;) {
        ssize_t n = read(fd, search->buffer + kept, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read %s", path);
        if (n == 0)
            return true;
        size_t len = kept + (size_t)n;
        if (!builder_check(search->built->builder, err) ||
            !check_bytes(search, path, (struct str){search->buffer, len}, err))
            return false;
        kept = len < search->longest - 1 ? len : search->longest - 1;
        memmove(search->buffer, search->buffer + len - kept, kept);
    }
}

static bool check_attributes(struct search *search, int fd, const char *path, struct error *err)
{
    AUTO_FREE char *names = alloc(XATTR_LIST_MAX), *value = alloc(XATTR_SIZE_MAX);
    ssize_t len = flistxattr(fd, names, XATTR_LIST_MAX);

    if (len < 0)
        return errno == ENOTSUP || error_errno(err, "list the attributes of %s", path);
    if (!check_bytes(search, path, (struct str){names, (size_t)len}, err))
        return false;
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        ssize_t size = fgetxattr(fd, name, value, XATTR_SIZE_MAX);
        if (size < 0)
            return error_errno(err, "read the attribute %s of %s", name, path);
        if (!check_bytes(search, path, (struct str){value, (size_t)size}, err))
            return false;
    }
    return true;
}

static bool check_link(struct search *search, int folder, const char *name, const char *path,
                       struct error *err)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(folder, name, target, sizeof target);

    if (len < 0)
        return error_errno(err, "read the link %s", path);
    return check_bytes(search, path, (struct str){target, (size_t)len}, err);
}

static bool check_folder(struct search *search, const char *path, int depth, struct error *err);

static bool check_entry(struct search *search, int folder, const char *folder_path,
                        const char *name, int depth, struct error *err)
{
    char path[TAR_PATH];
    struct stat facts;
    int len = snprintf(path, sizeof path, "%s%s%s", folder_path, *folder_path ? "/" : "", name);

    if (len < 0 || len > TAR_PATH_MAX || depth >= TAR_DEPTH_MAX)
        return error_set(err, ERR_TOO_LARGE, "%.128s… lies too deep to be kept", folder_path);
    /* The folder is named: the name itself may be the secret. */
    if (!check_bytes(search, folder_path, str_of(name), err))
        return false;
    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "look at %s", path);
    if (S_ISDIR(facts.st_mode))
        return check_folder(search, path, depth + 1, err);
    if (S_ISLNK(facts.st_mode))
        return check_link(search, folder, name, path, err);
    if (!S_ISREG(facts.st_mode))
        return true;
    AUTO_FD int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "open %s", path);
    return check_attributes(search, fd, path, err) && check_content(search, fd, path, err);
}

static bool check_folder(struct search *search, const char *path, int depth, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    AUTO_FD int fd = disk_open(search->root, path, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return error_errno(err, "open %s", path);
    if (!check_attributes(search, fd, path, err) || !disk_list(fd, TAR_ENTRIES_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++)
        if (!check_entry(search, fd, path, names.names[i], depth, err))
            return false;
    return true;
}

bool secrets_search(struct built *built, const struct secrets *secrets, int upper,
                    struct error *err)
{
    AUTO(search_finish) struct search search = {.built = built, .root = upper};

    search.needles = arena_array(&built->arena, secrets->n + 1, sizeof *search.needles);
    for (size_t i = 0; i < secrets->n; i++)
        add_secret(&search, &secrets->mounts[i]);
    if (search.n == 0)
        return true;
    search.buffer = alloc(search.longest + CHUNK);
    return check_folder(&search, "", 0, err);
}
