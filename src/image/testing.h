/* Help for this folder's tests: a folder of their own, files in it, and trees compared by hash. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/own.h"
#include "base/process.h"
#include "base/test.h"
#include "image/layer.h"

struct testing {
    char path[64];
    struct error err;
};

static inline void testing_init(struct testing *testing)
{
    memcpy(testing->path, "/tmp/helmr-image-XXXXXX", sizeof "/tmp/helmr-image-XXXXXX");
    if (!mkdtemp(testing->path))
        abort();
}

static inline void testing_finish(struct testing *testing)
{
    AUTO_FD int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (!testing->path[0])
        return;
    if (!tree_remove(folder, strrchr(testing->path, '/') + 1, &testing->err))
        printf("# left behind: %s: %s\n", testing->path, testing->err.text);
}

#define TESTING(name)                               \
    AUTO(testing_finish) struct testing name = {0}; \
    testing_init(&(name))

PRINTF_LIKE(2, 3)
static inline const char *testing_path(const struct testing *testing, const char *fmt, ...)
{
    static char paths[8][4352];
    static size_t next;
    char *path = paths[next++ % COUNT_OF(paths)];
    va_list args;

    int len = snprintf(path, sizeof paths[0], "%s/", testing->path);
    va_start(args, fmt);
    (void)vsnprintf(path + len, sizeof paths[0] - (size_t)len, fmt, args);
    va_end(args);
    return path;
}

static inline bool testing_folder(const char *path)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST;
}

static inline bool testing_file(const char *path, const char *text)
{
    AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct error err;

    return fd >= 0 && fd_write_all(fd, str_of(text), &err);
}

/* Changes one byte of a file, whatever it is: times in a layer make its bytes differ each time. */
static inline bool testing_damage(int fd, off_t at)
{
    char byte;

    if (pread(fd, &byte, 1, at) != 1)
        return false;
    byte = (char)~byte;
    return pwrite(fd, &byte, 1, at) == 1;
}

static inline bool testing_reads(const char *path, const char *text)
{
    AUTO_FREE char *found = NULL;
    struct error err;

    return file_read(path, 1 << 20, &found, &err) && strcmp(found, text) == 0;
}

static inline bool testing_sh(const struct testing *testing, const char *script)
{
    const char *argv[] = {"sh", "-ceu", script, NULL};
    AUTO(buf_finish) struct buf errors = {.max = 1 << 20};
    struct process_spec spec = {.argv = argv, .cwd = testing->path};
    struct error err;
    int status = -1;

    if (process_run(&spec, (struct str){0}, 60000, NULL, &errors, &status, &err) && status == 0)
        return true;
    printf("# %.*s\n", (int)errors.len, errors.len ? errors.bytes : "");
    return false;
}

/* The hash of a tree: of the tar it makes. */
static inline bool testing_hash(const char *path, enum layer_tree kind, char hash[DIGEST_TEXT],
                                struct error *err)
{
    AUTO(layer_writer_finish) struct layer_writer writer = {0};
    AUTO_FD int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_FD int sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
    struct image_layer layer;

    if (folder < 0 || !layer_writer_init(&writer, sink, false, err) ||
        !layer_write_tree(&writer, folder, kind, 0, err) || !layer_writer_end(&writer, &layer, err))
        return false;
    memcpy(hash, layer.diff_id, DIGEST_TEXT);
    return true;
}
