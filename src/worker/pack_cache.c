#include "worker/pack_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/own.h"

enum { KEPT_PERCENT = 90 };

struct pack_cache {
    int folder;
    int64_t budget;
    pthread_mutex_t lock; /* guards all below */
    int64_t n_bytes;
    struct map trusted; /* digests of files that are known to be whole */
};

struct cached_file {
    char name[SHA256_HEX];
    int64_t size;
    struct timespec used;
};

struct cached_files {
    struct cached_file *items;
    size_t n, room;
};

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const struct cached_file *)a)->used;
    const struct timespec *y = &((const struct cached_file *)b)->used;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static void add_file(struct cached_files *files, const char *name, const struct stat *info)
{
    if (files->n == files->room) {
        files->room = files->room ? 2 * files->room : 64;
        files->items = alloc_more(files->items, files->room * sizeof *files->items);
    }
    struct cached_file *file = &files->items[files->n++];
    *file = (struct cached_file){.size = info->st_size, .used = info->st_mtim};
    memcpy(file->name, name, SHA256_HEX_LEN);
}

/* What is no object of ours has no business here. */
static bool list_files(int folder, struct cached_files *files, struct error *err)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    struct stat info;

    if (!stream) {
        auto_close(&fd);
        return error_errno(err, "reading the cache of objects");
    }
    for (const struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.' || fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISREG(info.st_mode) && sha256_hex_is_valid(str_of(entry->d_name)))
            add_file(files, entry->d_name, &info);
        else
            unlinkat(folder, entry->d_name, 0);
    }
    closedir(stream);
    return true;
}

static void drop_file(struct pack_cache *cache, const char *name, int64_t size)
{
    if (unlinkat(cache->folder, name, 0) != 0)
        return;
    cache->n_bytes -= size;
    map_remove(&cache->trusted, str_of(name));
}

/* Under the lock. Who has one open goes on reading it. */
static void make_room(struct pack_cache *cache)
{
    struct cached_files files = {0};
    struct error err;

    if (cache->n_bytes <= cache->budget || !list_files(cache->folder, &files, &err))
        return;
    if (files.n > 1)
        qsort(files.items, files.n, sizeof *files.items, by_use);
    for (size_t i = 0; i < files.n && cache->n_bytes > cache->budget / 100 * KEPT_PERCENT; i++)
        drop_file(cache, files.items[i].name, files.items[i].size);
    free(files.items);
}

bool pack_cache_open(const char *folder, int64_t budget, struct pack_cache **cache,
                     struct error *err)
{
    struct cached_files files = {0};

    if (!directory_make(folder, 0700, err))
        return false;
    AUTO_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "open %s", folder);
    if (!list_files(fd, &files, err))
        return false;
    struct pack_cache *made = alloc(sizeof *made);
    *made = (struct pack_cache){
        .folder = take_fd(&fd),
        .budget = budget,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    for (size_t i = 0; i < files.n; i++)
        made->n_bytes += files.items[i].size;
    free(files.items);
    make_room(made);
    *cache = made;
    return true;
}

void pack_cache_close(struct pack_cache *cache)
{
    if (!cache)
        return;
    close(cache->folder);
    map_finish(&cache->trusted);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* A file without a name, that may get one. */
static bool draft(void *arg, int *fd, struct error *err)
{
    const struct cached_backend *cached = arg;

    *fd = openat(cached->cache->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return *fd >= 0 || error_errno(err, "make room for an object");
}

/* Without it everything works as well. */
static void keep(struct pack_cache *cache, const char *digest, int fd)
{
    char path[64];
    struct stat info;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    pthread_mutex_lock(&cache->lock);
    if (fstat(fd, &info) == 0 &&
        linkat(AT_FDCWD, path, cache->folder, digest, AT_SYMLINK_FOLLOW) == 0) {
        cache->n_bytes += info.st_size;
        map_put(&cache->trusted, str_of(digest), cache);
        make_room(cache);
    }
    pthread_mutex_unlock(&cache->lock);
}

static bool put(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    const struct cached_backend *cached = arg;

    if (!cached->behind->put(cached->behind->arg, facts, fd, err))
        return false;
    keep(cached->cache, facts->digest, fd);
    return true;
}

static bool is_trusted(struct pack_cache *cache, const char *digest)
{
    pthread_mutex_lock(&cache->lock);
    bool is = map_find(&cache->trusted, str_of(digest)) != NULL;
    pthread_mutex_unlock(&cache->lock);
    return is;
}

/* Another process may have been ended while the system had not written it yet. */
static bool is_whole(struct pack_cache *cache, const char *digest, const int *fd)
{
    struct seal_source source = {0};
    char real[SHA256_HEX];
    struct error err;

    if (is_trusted(cache, digest))
        return true;
    bool is = seal_source_fd(fd, &source, &err) && seal_source_digest(&source, real, &err) &&
              strcmp(real, digest) == 0;
    pthread_mutex_lock(&cache->lock);
    if (is)
        map_put(&cache->trusted, str_of(digest), cache);
    else
        drop_file(cache, digest, (int64_t)source.size);
    pthread_mutex_unlock(&cache->lock);
    if (!is)
        log_warn("a cached object was damaged", LOG_STR("digest", digest));
    return is;
}

static bool find(struct pack_cache *cache, const char *digest, int *fd)
{
    AUTO_FD int found = openat(cache->folder, digest, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (found < 0 || !is_whole(cache, digest, &found))
        return false;
    futimens(found, NULL); /* when it was used last */
    *fd = take_fd(&found);
    return true;
}

static bool copy_all(int from, int to, struct error *err)
{
    struct stat info;
    off_t at = 0;

    if (fstat(from, &info) != 0)
        return error_errno(err, "looking at an object");
    while (at < info.st_size) {
        ssize_t n = sendfile(to, from, &at, (size_t)(info.st_size - at));
        if (n <= 0)
            return error_errno(err, "copying an object");
    }
    return true;
}

static bool open_object(void *arg, const char *digest, int *fd, struct error *err)
{
    struct cached_backend *cached = arg;
    AUTO_FD int fetched = -1, kept = -1;
    struct error ignored;

    if (!sha256_hex_is_valid(str_of(digest)))
        return error_set(err, ERR_INVALID, "an object is named by its sha256 in hex");
    if (find(cached->cache, digest, fd))
        return true;
    if (!cached->behind->open(cached->behind->arg, digest, &fetched, err))
        return false;
    cached->n_fetched++;
    bool is_kept = draft(cached, &kept, &ignored) && copy_all(fetched, kept, &ignored);
    if (is_kept)
        keep(cached->cache, digest, kept);
    /* Rather from the disk than from memory. */
    *fd = take_fd(is_kept ? &kept : &fetched);
    return true;
}

struct object_backend object_backend_of_cache(struct cached_backend *cached)
{
    return (struct object_backend){.arg = cached, .draft = draft, .put = put, .open = open_object};
}
