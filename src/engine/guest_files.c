#include "engine/guest_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"

enum { LIST_MAX = 65536, PIECE = 65536, KNOWN_MAX = 8 };

/* From this program's folder: bin/ of an installation, or a build folder of the tree. */
static const char *const places[] = {"../share/helmr/guest", "../guest-image"};

static bool path_join(const char *folder, const char *name, char path[PATH_MAX], struct error *err)
{
    int written = snprintf(path, PATH_MAX, "%s/%s", folder, name);

    return (written > 0 && written < PATH_MAX) ||
           error_set(err, ERR_INVALID, "the path of the guest's %s is too long", name);
}

static bool has_list(const char *folder)
{
    struct error ignored;
    char path[PATH_MAX];

    return path_join(folder, "artefacts.json", path, &ignored) && access(path, R_OK) == 0;
}

static bool find_beside(char folder[PATH_MAX], struct error *err)
{
    char own[PATH_MAX], place[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);

    if (len < 0)
        return error_errno(err, "readlink /proc/self/exe");
    own[len] = '\0';
    *strrchr(own, '/') = '\0';
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        if (!path_join(own, places[i], place, err))
            return false;
        if (has_list(place) && realpath(place, folder))
            return true;
    }
    return error_set(err, ERR_NOT_FOUND, "no kernel for microVMs is installed");
}

static bool file_digest(int fd, const char *path, char hex[SHA256_HEX], struct error *err)
{
    AUTO_FREE char *bytes = alloc(PIECE);
    AUTO(sha256_finish) struct sha256 hash = {0};

    sha256_init(&hash);
    for (ssize_t got; (got = read(fd, bytes, PIECE)) != 0;) {
        if (got < 0)
            return error_errno(err, "read %s", path);
        sha256_update(&hash, (struct str){bytes, (size_t)got});
    }
    sha256_take(&hash, hex);
    return true;
}

/* A file that was taken before: it is not read again while it looks the same. */
struct known {
    char path[PATH_MAX];
    struct stat facts;
    char hex[SHA256_HEX]; /* empty: none was taken yet */
};

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct known known[KNOWN_MAX];
static size_t n_known;

static bool looks_the_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static struct known *known_of(const char *path)
{
    for (size_t i = 0; i < n_known && i < KNOWN_MAX; i++)
        if (strcmp(known[i].path, path) == 0)
            return &known[i];

    struct known *made = &known[n_known++ % KNOWN_MAX];
    *made = (struct known){0};
    snprintf(made->path, sizeof made->path, "%s", path);
    return made;
}

static bool recall(const char *path, const struct stat *facts, char hex[SHA256_HEX])
{
    pthread_mutex_lock(&known_lock);
    const struct known *file = known_of(path);
    bool is_same = file->hex[0] && looks_the_same(&file->facts, facts);
    memcpy(hex, file->hex, SHA256_HEX);
    pthread_mutex_unlock(&known_lock);
    return is_same;
}

/* What is running was started from one kernel, and says so to others: it takes no second one. */
static bool take(const char *path, const struct stat *facts, const char hex[SHA256_HEX])
{
    pthread_mutex_lock(&known_lock);
    struct known *file = known_of(path);
    bool is_fine = !file->hex[0] || strcmp(file->hex, hex) == 0;
    if (is_fine) {
        file->facts = *facts;
        memcpy(file->hex, hex, SHA256_HEX);
    }
    pthread_mutex_unlock(&known_lock);
    return is_fine;
}

static bool check_file(const char *folder, struct str list, const char *name, char path[PATH_MAX],
                       char hex[SHA256_HEX], struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct stat facts;
    struct str wanted;

    if (!json_find_text(list, name, &arena, &wanted))
        return error_set(err, ERR_INVALID, "%.100s/artefacts.json names no %s", folder, name);
    if (!path_join(folder, name, path, err))
        return false;
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0)
        return error_errno(err, "open %s", path);
    if (!recall(path, &facts, hex) && !file_digest(fd, path, hex, err))
        return false;
    if (!str_equal(wanted, str_of(hex)))
        return error_set(err, ERR_INVALID, "%.160s is not what artefacts.json says", path);
    return take(path, &facts, hex) ||
           error_set(err, ERR_CONFLICT, "%.160s was replaced: start the worker anew", path);
}

static bool read_list(const char *folder, char **text, struct error *err)
{
    char path[PATH_MAX];

    return path_join(folder, "artefacts.json", path, err) && file_read(path, LIST_MAX, text, err);
}

bool guest_files_find(const char *folder, struct guest_files *files, struct error *err)
{
    AUTO_FREE char *text = NULL;

    *files = (struct guest_files){0};
    if (!folder && !find_beside(files->folder, err))
        return false;
    if (folder && snprintf(files->folder, PATH_MAX, "%s", folder) >= PATH_MAX)
        return error_set(err, ERR_INVALID, "the path of the guest's folder is too long");
    if (!has_list(files->folder))
        return error_set(err, ERR_NOT_FOUND, "%.160s holds no artefacts.json", files->folder);
    if (!read_list(files->folder, &text, err))
        return false;
    return check_file(files->folder, str_of(text), "kernel", files->kernel, files->kernel_digest,
                      err) &&
           check_file(files->folder, str_of(text), "initrd", files->initrd, files->initrd_digest,
                      err);
}

bool guest_files_unpacked(const struct guest_files *files, char path[PATH_MAX], struct error *err)
{
    AUTO_FREE char *text = NULL;
    char digest[SHA256_HEX];

    return read_list(files->folder, &text, err) &&
           check_file(files->folder, str_of(text), "vmlinux", path, digest, err);
}
