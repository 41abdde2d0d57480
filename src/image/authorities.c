#include "image/authorities.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "image/disk.h"

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END   "-----END CERTIFICATE-----"
#define LOCAL "usr/local/share/ca-certificates"

enum { BUNDLE_MAX = 8 << 20, FILE_MAX = 1 << 20, ADDED_MAX = 64 };

/* The next certificate of the text, markers included; false at the end. */
static bool next_certificate(struct str *text, struct str *certificate)
{
    if (!text->ptr)
        return false;
    const char *begin = memmem(text->ptr, text->len, BEGIN, sizeof BEGIN - 1);
    if (!begin)
        return false;
    size_t left = text->len - (size_t)(begin - text->ptr);
    const char *end = memmem(begin, left, END, sizeof END - 1);
    if (!end)
        return false;
    end += sizeof END - 1;
    *certificate = (struct str){begin, (size_t)(end - begin)};
    *text = (struct str){end, left - certificate->len};
    return true;
}

/* Line lengths and line ends differ between files; what is between them does not. */
static bool add_body(struct buf *bodies, struct str certificate, struct error *err)
{
    const char *last = certificate.ptr + certificate.len - (sizeof END - 1);

    for (const char *at = certificate.ptr + sizeof BEGIN - 1; at < last; at++)
        if (!isspace((unsigned char)*at) && !buf_append(bodies, (struct str){at, 1}, err))
            return false;
    return buf_append(bodies, STR("\n"), err);
}

static bool read_shipped(const char *folder, struct buf *bodies, struct error *err)
{
    AUTO_FREE char *pattern = NULL;
    AUTO(globfree) glob_t found = {0};

    if (asprintf(&pattern, "%s/*/*.crt", folder) < 0)
        abort();
    int status = glob(pattern, 0, NULL, &found);
    if (status != 0 && status != GLOB_NOMATCH)
        return error_set(err, ERR_INTERNAL, "list %s", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        AUTO_FREE char *text = NULL;
        struct str rest, certificate;

        if (!file_read(found.gl_pathv[i], FILE_MAX, &text, err))
            return false;
        rest = str_of(text);
        while (next_certificate(&rest, &certificate))
            if (!add_body(bodies, certificate, err))
                return false;
    }
    return true;
}

static bool is_in(const struct buf *bodies, struct str certificate, bool *yes, struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = FILE_MAX};

    if (!add_body(&body, certificate, err))
        return false;
    *yes = bodies->len && memmem(bodies->bytes, bodies->len, body.bytes, body.len);
    return true;
}

bool authorities_find(const char *bundle, const char *shipped, struct buf *added, size_t *n,
                      struct error *err)
{
    AUTO(buf_finish) struct buf bodies = {.max = BUNDLE_MAX};
    AUTO_FREE char *text = NULL;
    struct str rest, certificate;
    bool is_shipped;

    *n = 0;
    if (access(bundle, F_OK) != 0 && errno == ENOENT)
        return true;
    if (!file_read(bundle, BUNDLE_MAX, &text, err) || !read_shipped(shipped, &bodies, err))
        return false;
    rest = str_of(text);
    while (next_certificate(&rest, &certificate)) {
        if (!is_in(&bodies, certificate, &is_shipped, err))
            return false;
        if (is_shipped)
            continue;
        if (++*n > ADDED_MAX)
            return error_set(err, ERR_TOO_LARGE,
                             "%s has over %d certificates that no package brought", bundle,
                             ADDED_MAX);
        if (!buf_append(added, certificate, err) || !buf_append(added, STR("\n"), err))
            return false;
    }
    return true;
}

static bool write_file(int folder, const char *name, int flags, struct str first, struct str second,
                       struct error *err)
{
    AUTO_FD int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0644);

    if (fd < 0)
        return error_errno(err, "open %s", name);
    return fd_write_all(fd, first, err) && fd_write_all(fd, second, err) &&
           (fchmod(fd, 0644) == 0 || error_errno(err, "chmod %s", name));
}

/* A file each: update-ca-certificates wants one certificate a file. */
static bool write_local(int root, struct str added, struct error *err)
{
    AUTO_FD int folder = disk_open(root, LOCAL, O_RDONLY | O_DIRECTORY);
    struct str certificate;
    char name[32];

    if (folder < 0)
        return error_errno(err, "open %s", LOCAL);
    for (size_t i = 1; next_certificate(&added, &certificate); i++) {
        (void)snprintf(name, sizeof name, "host-%zu.crt", i);
        if (!write_file(folder, name, O_CREAT | O_EXCL, certificate, STR("\n"), err))
            return false;
    }
    return true;
}

bool authorities_trust(int root, struct str added, struct error *err)
{
    const char *name;
    AUTO_FD int folder = disk_open_parent(root, AUTHORITIES_BUNDLE, &name);

    if (folder < 0)
        return error_errno(err, "open the folder of %s", AUTHORITIES_BUNDLE);
    if (mkdirat(root, LOCAL, 0755) != 0 && errno != EEXIST)
        return error_errno(err, "mkdir %s", LOCAL);
    return write_local(root, added, err) && write_file(folder, name, O_APPEND, STR(""), added, err);
}

bool authorities_are_added(const char *root)
{
    AUTO_FREE char *path = NULL;

    if (asprintf(&path, "%s/" LOCAL "/host-1.crt", root) < 0)
        abort();
    return access(path, F_OK) == 0;
}
