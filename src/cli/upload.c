#include "cli/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/sha256.h"
#include "cli/walk.h"

enum { STEP = 64 * 1024, METADATA_MAX = 1024 * 1024 };

/* The tar while it is written: bytes go to the file and into the hash. */
struct sink {
    int fd;
    struct sha256 hash;
    uint64_t len;
    char step[STEP];
};

void upload_finish(struct upload *upload)
{
    auto_close(&upload->fd);
    upload->fd = -1;
}

static void sink_finish(struct sink *sink)
{
    sha256_finish(&sink->hash);
}

static bool put(void *arg, struct str bytes, struct error *err)
{
    struct sink *sink = arg;

    sha256_update(&sink->hash, bytes);
    sink->len += bytes.len;
    return fd_write_all(sink->fd, bytes, err) || error_wrap(err, "writing the archive");
}

int upload_temporary(struct error *err)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];

    folder = folder && *folder ? folder : "/tmp";
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) {
        if (fd < 0)
            error_errno(err, "temporary file in %s", folder);
        return fd;
    }
    snprintf(path, sizeof path, "%s/helmr-XXXXXX", folder);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        error_errno(err, "temporary file in %s", folder);
    else
        unlink(path);
    return fd;
}

static bool copy_file(struct sink *sink, int root_fd, const struct tar_entry *entry,
                      struct error *err)
{
    AUTO_FD int fd = openat(root_fd, entry->path.ptr, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    uint64_t left = entry->size;

    if (fd < 0)
        return error_errno(err, "open %s", entry->path.ptr);
    while (left > 0) {
        ssize_t got = read(fd, sink->step, left < STEP ? (size_t)left : STEP);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "read %s", entry->path.ptr);
        if (got == 0)
            return error_set(err, ERR_CONFLICT,
                             "%s became shorter while it was archived; try again", entry->path.ptr);
        left -= (uint64_t)got;
        if (!put(sink, (struct str){sink->step, (size_t)got}, err))
            return false;
    }
    return tar_pad(entry->size, put, sink, err);
}

static bool write_tar(struct sink *sink, int root_fd, const struct walk *walk, struct error *err)
{
    for (size_t i = 0; i < walk->n; i++) {
        const struct tar_entry *entry = &walk->entries[i];

        if (!tar_header(entry, put, sink, err) ||
            (entry->kind == TAR_FILE && !copy_file(sink, root_fd, entry, err)))
            return false;
    }
    return tar_end(put, sink, err);
}

static bool append_metadata(const struct upload_request *request, const char *hash, struct buf *out,
                            struct error *err)
{
    struct json_writer json = json_begin(out);

    json_open(&json, NULL);
    json_string(&json, "content_hash", hash);
    json_int(&json, "bundle_format_version", 2);
    if (request->no_cache)
        json_bool(&json, "no_cache", true);
    if (request->n_env > 0) {
        json_open(&json, "env");
        for (size_t i = 0; i < request->n_env; i++)
            json_string(&json, request->env[i].name, request->env[i].value);
        json_close(&json);
    }
    json_close(&json);
    return json_end(&json, err);
}

/* Everything before the tar. Its length does not depend on the hash. */
static bool append_head(const struct upload_request *request, const char *hash,
                        const char *boundary, struct buf *out, struct error *err)
{
    return buf_append(out, STR("--"), err) && buf_append(out, str_of(boundary), err) &&
           buf_append(out,
                      STR("\r\nContent-Disposition: form-data; name=\"metadata\"\r\n"
                          "Content-Type: application/json\r\n\r\n"),
                      err) &&
           append_metadata(request, hash, out, err) && buf_append(out, STR("\r\n--"), err) &&
           buf_append(out, str_of(boundary), err) &&
           buf_append(out,
                      STR("\r\nContent-Disposition: form-data; name=\"deployment_source\"; "
                          "filename=\"source.tar\"\r\n"
                          "Content-Type: application/vnd.helmr.deployment-source.v0.tar\r\n\r\n"),
                      err);
}

/* The head is written twice: first to keep its place, then with the hash of what followed. */
static bool write_form(const struct upload_request *request, int root_fd, const struct walk *walk,
                       struct sink *sink, struct upload *upload, struct error *err)
{
    AUTO(buf_finish) struct buf head = {.max = METADATA_MAX};
    char boundary[64], tail[80];

    memset(upload->content_hash, '0', sizeof upload->content_hash - 1);
    snprintf(boundary, sizeof boundary, "helmr-");
    id_make(boundary + 6);
    snprintf(upload->content_type, sizeof upload->content_type, "multipart/form-data; boundary=%s",
             boundary);
    int tail_len = snprintf(tail, sizeof tail, "\r\n--%s--\r\n", boundary);
    if (!append_head(request, upload->content_hash, boundary, &head, err) ||
        !fd_write_all(sink->fd, buf_str(&head), err) || !write_tar(sink, root_fd, walk, err) ||
        !fd_write_all(sink->fd, (struct str){tail, (size_t)tail_len}, err))
        return false;

    size_t head_len = head.len;
    char hex[SHA256_HEX];

    sha256_take(&sink->hash, hex);
    snprintf(upload->content_hash, sizeof upload->content_hash, "sha256:%s", hex);

    head.len = 0;
    if (!append_head(request, upload->content_hash, boundary, &head, err))
        return false;
    if (pwrite(sink->fd, head.bytes, head.len, 0) != (ssize_t)head.len)
        return error_errno(err, "writing the archive");
    upload->tar_len = sink->len;
    upload->len = head_len + sink->len + (size_t)tail_len;
    return true;
}

bool upload_create(const struct upload_request *request, struct upload *upload, struct error *err)
{
    AUTO(walk_finish) struct walk walk = {0};
    AUTO_FD int root_fd = open(request->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *upload = (struct upload){.fd = -1};
    if (root_fd < 0)
        return error_errno(err, "open %s", request->root);
    if (!walk_collect(root_fd, request, &walk, err))
        return false;

    AUTO_FD int fd = upload_temporary(err);
    AUTO(sink_finish) struct sink sink = {.fd = fd};

    if (fd < 0)
        return false;
    sha256_init(&sink.hash);
    if (!write_form(request, root_fd, &walk, &sink, upload, err))
        return false;
    upload->n_files = walk.n;
    upload->fd = take_fd(&fd);
    return true;
}
