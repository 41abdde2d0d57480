/* `helmr workspace files get`: a file, or a directory with all that is in it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/transfer.h"
#include "cli/untar.h"
#include "cli/workspace_files.h"

/* PART: bytes of one request, which is what the server gives at most. */
enum { TRIES = 3, STALL_MS = 60 * 1000, ETAG_MAX = 128 };
#define PART ((uint64_t)64 << 20)

struct download {
    int out;
    uint64_t done;
    char etag[ETAG_MAX], first[ETAG_MAX]; /* of this part, and of the first one */
    bool has_failed;
    struct error err;
    struct transfer_line line;
};

static bool take_bytes(void *arg, struct str bytes)
{
    struct download *download = arg;

    /* Parts of two versions would make a file that never was. */
    if (*download->first && strcmp(download->first, download->etag) != 0)
        download->has_failed = !error_set(&download->err, ERR_CONFLICT,
                                          "the file became another one while it was read");
    else
        download->has_failed = !fd_write_all(download->out, bytes, &download->err);
    if (download->has_failed)
        return false;
    download->done += bytes.len;
    transfer_moved(&download->line, download->done);
    return true;
}

static void take_header(void *arg, struct str name, struct str value)
{
    struct download *download = arg;

    if (str_equal_nocase(name, STR("ETag")))
        snprintf(download->etag, sizeof download->etag, "%.*s", (int)value.len, value.ptr);
}

static bool take_part(struct api *api, const char *url, struct download *download,
                      struct error *err)
{
    const char *range =
        arena_printf(&api->arena, "Range: bytes=%llu-%llu", (unsigned long long)download->done,
                     (unsigned long long)(download->done + PART - 1));
    const char *headers[] = {API_VERSION_HEADER, CLI_VERSION_HEADER, range, NULL};
    const struct http_request request = {
        .method = "GET",
        .path = url,
        .headers = headers,
        .stall_ms = STALL_MS,
        .is_bulk = true,
        .sink = take_bytes,
        .sink_arg = download,
        .on_header = take_header,
        .on_header_arg = download,
    };

    download->etag[0] = '\0';
    bool fine = api_exchange(api, &request, NULL, err);
    if (download->has_failed) {
        *err = download->err;
        return false;
    }
    if (!*download->first)
        memcpy(download->first, download->etag, sizeof download->first);
    return fine;
}

bool files_download(struct api *api, const char *url, uint64_t size, int out, struct error *err)
{
    struct download download = {.out = out};
    int tries = TRIES;
    bool fine = true;

    transfer_begin(&download.line, "downloading", size);
    while (fine && download.done < size) {
        uint64_t before = download.done;

        fine = take_part(api, url, &download, err);
        if (download.done > before)
            tries = TRIES;
        bool is_broken = !fine && (err->code == ERR_UNAVAILABLE || err->code == ERR_TIMEOUT);
        if (is_broken && !download.has_failed && --tries > 0)
            fine = true;
        else if (fine && download.done == before)
            fine = error_set(err, ERR_UNAVAILABLE, "the server sent nothing");
    }
    transfer_end(&download.line);
    return fine;
}

/* A directory on its way through a pipe to who unpacks it. */
struct flow {
    struct api *api;
    const char *url;
    int out;
    bool fine;
    uint64_t done;
    struct error err;
    struct transfer_line line;
};

static bool pass_on(void *arg, struct str bytes)
{
    struct flow *flow = arg;
    struct error err;

    flow->done += bytes.len;
    transfer_moved(&flow->line, flow->done);
    return fd_write_all(flow->out, bytes, &err);
}

static void *run_flow(void *arg)
{
    struct flow *flow = arg;
    const struct http_request request = {
        .method = "GET",
        .path = flow->url,
        .stall_ms = STALL_MS,
        .is_bulk = true,
        .sink = pass_on,
        .sink_arg = flow,
    };

    flow->fine = api_exchange(flow->api, &request, NULL, &flow->err);
    close(flow->out);
    return NULL;
}

/* What is left is read, so that the other end is not stopped in the middle of a good archive. */
static void drain(int fd)
{
    char bytes[4096];

    while (read(fd, bytes, sizeof bytes) > 0)
        ;
}

static bool unpack(struct api *api, const char *url, int folder, struct error *err)
{
    struct flow flow = {.api = api, .url = url};
    uint64_t n_files;
    pthread_t thread;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "pipe");
    AUTO_FD int in = ends[0];
    flow.out = ends[1];
    transfer_begin(&flow.line, "downloading", 0);
    if (pthread_create(&thread, NULL, run_flow, &flow) != 0)
        abort();
    bool fine = untar(in, folder, &n_files, err);
    if (fine)
        drain(in);
    close(take_fd(&in));
    pthread_join(thread, NULL);
    transfer_end(&flow.line);
    /* A refusal is the reason of whatever the unpacking has missed. */
    if (flow.fine || (!fine && flow.err.code == ERR_CANCELLED))
        return fine;
    *err = flow.err;
    return false;
}

static bool get_folder(struct api *api, const struct invocation *invocation, const char *local,
                       struct error *err)
{
    const char *path = invocation->args[1];
    const char *url = files_url(api, invocation, "/archive", path, "");

    if (strcmp(local, "-") == 0) {
        struct flow flow = {.api = api, .url = url, .out = dup(STDOUT_FILENO)};
        run_flow(&flow);
        *err = flow.err;
        return flow.fine;
    }
    if (mkdir(local, 0777) < 0 && errno != EEXIST)
        return error_errno(err, "make %s", local);
    AUTO_FD int folder = open(local, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_errno(err, "open %s", local);
    return unpack(api, url, folder, err);
}

/* Beside its place first, so that half a file is never taken for a whole one. */
static bool get_to(struct api *api, const char *url, const char *local, uint64_t size,
                   unsigned mode, struct error *err)
{
    const char *draft = arena_printf(&api->arena, "%s.helmr-%d", local, (int)getpid());
    AUTO_FD int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return error_errno(err, "make %s", draft);
    bool fine = files_download(api, url, size, fd, err);
    if (fine && (fchmod(fd, mode & 0777) < 0 || rename(draft, local) < 0))
        fine = error_errno(err, "write %s", local);
    if (!fine)
        unlink(draft);
    return fine;
}

static bool get_file(struct api *api, const struct invocation *invocation, struct str entry,
                     const char *local, struct error *err)
{
    const char *url = files_url(api, invocation, "/content", invocation->args[1], "");
    int64_t size = 0, mode = 0644;
    struct stat facts;

    if (!json_find_int(entry, "size_bytes", &size) || !json_find_int(entry, "mode", &mode))
        return error_set(err, ERR_UNAVAILABLE, "the server's answer is no entry");
    if (strcmp(local, "-") == 0)
        return files_download(api, url, (uint64_t)size, STDOUT_FILENO, err);
    if (stat(local, &facts) == 0 && S_ISDIR(facts.st_mode))
        local =
            arena_printf(&api->arena, "%s/%s", local, files_base_name(api, invocation->args[1]));
    return get_to(api, url, local, (uint64_t)size, (unsigned)mode, err);
}

bool workspace_files_get_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    AUTO(api_finish) struct api api = {0};
    struct str entry;

    *exit_code = 0;
    if (!files_source_is_clear(invocation, err) ||
        !api_open(invocation, API_ANY, NULL, &api, err) ||
        !api_send(&api, "GET", files_url(&api, invocation, "/stat", invocation->args[1], ""),
                  (struct str){0}, &entry, err))
        return false;
    const char *name = files_base_name(&api, invocation->args[1]);
    const char *local = invocation->n_args > 2 ? invocation->args[2] : *name ? name : ".";
    struct str type = output_value(entry, "type", &api.arena);
    if (str_equal(type, STR("directory")))
        return get_folder(&api, invocation, local, err);
    if (str_equal(type, STR("file")))
        return get_file(&api, invocation, entry, local, err);
    return error_set(err, ERR_FILE_NOT_REGULAR, "%s is a %.*s: get takes files and directories",
                     invocation->args[1], (int)type.len, type.ptr);
}
