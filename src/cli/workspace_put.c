/* `helmr workspace files put`: a file, a directory or standard input, as a new version. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "cli/commands.h"
#include "cli/local_tree.h"
#include "cli/transfer.h"
#include "cli/upload.h"
#include "cli/workspace_files.h"

enum { STALL_MS = 10 * 60 * 1000, STEP = 256 * 1024, NO_MODE = 010000 };

/* What fits one request; more goes as an archive. */
#define CONTENT_MAX ((uint64_t)64 << 20)

static void show_upload(void *arg, uint64_t sent, uint64_t total)
{
    (void)total;
    transfer_moved(arg, sent);
}

static void *run_tree(void *arg)
{
    local_tree_write(arg);
    return NULL;
}

static bool send_archive(struct api *api, const char *url, struct local_tree *tree, int in,
                         uint64_t total, struct str *answer, struct error *err)
{
    struct transfer_line line;
    const struct http_request request = {
        .method = "PUT",
        .path = url,
        .content_type = "application/x-tar",
        .body_fd = in,
        .body_is_stream = true,
        .stall_ms = STALL_MS,
        .is_bulk = true,
        .abort = &tree->has_failed,
        .progress = show_upload,
        .progress_arg = &line,
    };

    transfer_begin(&line, "uploading", total);
    bool fine = api_exchange(api, &request, answer, err);
    transfer_end(&line);
    return fine;
}

/* The tree is read by a thread of its own while its tar is sent. */
static bool put_archive(struct api *api, const char *url, struct local_tree *tree, uint64_t total,
                        struct str *answer, struct error *err)
{
    pthread_t thread;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, "pipe");
    AUTO_FD int in = ends[0];
    tree->out = ends[1];
    /* An end that was closed early is an error of the write, not the death of the command. */
    signal(SIGPIPE, SIG_IGN);
    if (pthread_create(&thread, NULL, run_tree, tree) != 0)
        abort();
    bool fine = send_archive(api, url, tree, in, total, answer, err);
    close(take_fd(&in));
    pthread_join(thread, NULL);
    /* A pipe that the other end has left is only what followed from its refusal. */
    if (tree->has_failed && (fine || err->code == ERR_CANCELLED) && tree->err.sys != EPIPE) {
        *err = tree->err;
        fine = false;
    }
    if (tree->n_skipped > 0)
        fprintf(stderr, "helmr: left out %llu sockets or devices\n",
                (unsigned long long)tree->n_skipped);
    return fine;
}

static const char *mode_query(struct api *api, unsigned mode)
{
    return mode == NO_MODE ? "" : arena_printf(&api->arena, "&mode=%04o", mode);
}

static bool put_content(struct api *api, const struct invocation *invocation, int fd, uint64_t size,
                        const char *path, unsigned mode, struct str *answer, struct error *err)
{
    struct transfer_line line;
    const struct http_request request = {
        .method = "PUT",
        .path = files_url(api, invocation, "/content", path, mode_query(api, mode)),
        .content_type = "application/octet-stream",
        .body_fd = size > 0 ? fd : 0,
        .body_fd_len = size,
        .stall_ms = STALL_MS,
        .is_bulk = true,
        .progress = show_upload,
        .progress_arg = &line,
    };

    transfer_begin(&line, "uploading", size);
    bool fine = api_exchange(api, &request, answer, err);
    transfer_end(&line);
    return fine;
}

/* A large one is an archive of itself. */
static bool put_large(struct api *api, const struct invocation *invocation, int fd, uint64_t size,
                      const char *path, unsigned mode, struct str *answer, struct error *err)
{
    const char *name = files_base_name(api, path);
    struct str folder = str_trim(str_of(path), STR("/"));
    struct local_tree tree = {
        .file_fd = fd,
        .name = name,
        .mode = mode == NO_MODE ? 0644 : mode,
    };

    folder.len -= strlen(name);
    return put_archive(api,
                       files_url(api, invocation, "/archive", arena_text(&api->arena, folder),
                                 "&owners=inherit"),
                       &tree, size, answer, err);
}

static bool put_file(struct api *api, const struct invocation *invocation, int fd, const char *path,
                     unsigned mode, struct str *answer, struct error *err)
{
    struct stat facts;

    if (fstat(fd, &facts) < 0)
        return error_errno(err, "look at the file");
    uint64_t size = (uint64_t)facts.st_size;
    if (!*files_base_name(api, path))
        return error_set(err, ERR_INVALID, "PATH is where the file goes: name it");
    return size <= CONTENT_MAX ? put_content(api, invocation, fd, size, path, mode, answer, err)
                               : put_large(api, invocation, fd, size, path, mode, answer, err);
}

/* Standard input may be a pipe of any length: how long is known when it has ended. */
static bool put_input(struct api *api, const struct invocation *invocation, const char *path,
                      unsigned mode, struct str *answer, struct error *err)
{
    AUTO_FREE char *step = alloc(STEP);
    AUTO_FD int fd = upload_temporary(err);

    if (fd < 0)
        return false;
    for (;;) {
        ssize_t got = read(STDIN_FILENO, step, STEP);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "read the standard input");
        if (got == 0)
            break;
        if (!fd_write_all(fd, (struct str){step, (size_t)got}, err))
            return false;
    }
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_errno(err, "read the standard input");
    return put_file(api, invocation, fd, path, mode, answer, err);
}

static bool put_local(struct api *api, const struct invocation *invocation, const char *local,
                      const char *path, unsigned mode, struct str *answer, struct error *err)
{
    AUTO_FD int fd = open(local, O_RDONLY | O_CLOEXEC);
    struct stat facts;

    if (fd < 0 || fstat(fd, &facts) < 0)
        return error_errno(err, "open %s", local);
    if (S_ISDIR(facts.st_mode)) {
        struct local_tree tree = {.root = local};
        const char *url = files_url(api, invocation, "/archive", path, "&owners=inherit");
        return put_archive(api, url, &tree, 0, answer, err);
    }
    if (!S_ISREG(facts.st_mode))
        return error_set(err, ERR_INVALID, "%s is no file or directory; a pipe is put with -",
                         local);
    /* As with cp, a path with a slash at its end is a directory to put it into. */
    if (*path && path[strlen(path) - 1] == '/')
        path = arena_printf(&api->arena, "%s%s", path, files_base_name(api, local));
    return put_file(api, invocation, fd, path, mode == NO_MODE ? facts.st_mode & 0777 : mode,
                    answer, err);
}

static bool read_mode(const struct invocation *invocation, unsigned *mode, struct error *err)
{
    const char *text = invocation_value(invocation, "mode");

    *mode = NO_MODE;
    if (!text)
        return true;
    if (!*text || strspn(text, "01234567") != strlen(text) || strlen(text) > 5)
        return error_set(err, ERR_INVALID, "--mode is octal, as in 0644");
    *mode = (unsigned)strtoul(text, NULL, 8);
    return *mode <= 07777 || error_set(err, ERR_INVALID, "--mode is at most 7777");
}

bool workspace_files_put_command(const struct invocation *invocation, int *exit_code,
                                 struct error *err)
{
    const char *local = invocation->args[1], *path = invocation->args[2];
    AUTO(api_finish) struct api api = {0};
    struct str answer;
    unsigned mode;

    *exit_code = 0;
    if (!read_mode(invocation, &mode, err) || !api_open(invocation, API_ANY, NULL, &api, err))
        return false;
    if (!(strcmp(local, "-") == 0 ? put_input(&api, invocation, path, mode, &answer, err)
                                  : put_local(&api, invocation, local, path, mode, &answer, err)))
        return false;
    files_print_version(&api, invocation, answer);
    return true;
}
