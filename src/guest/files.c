#include "guest/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/own.h"
#include "protocol/files.h"

/* NAMES_MAX: of one directory, which are sorted in memory. */
enum { NAMES_MAX = 200 * 1000, NS_PER_S = 1000000000 };

struct look {
    const struct message_files *message;
    struct buf data;
    uint64_t size;
    bool has_more;
    const char *code; /* of what went wrong */
};

static bool fail(struct look *look, const char *code, enum error_code kind, const char *why,
                 struct error *err)
{
    struct str path = look->message->path;

    look->code = code;
    error_set(err, kind, "%.*s %s", (int)path.len, path.ptr, why);
    return false;
}

/* An errno as the host tells people. */
static bool fail_errno(struct look *look, struct error *err)
{
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
        return fail(look, "not_found", ERR_NOT_FOUND, "is not there", err);
    look->code = "files_failed";
    error_errno(err, "look into the workspace");
    return false;
}

static int open_root(const struct sandbox *sandbox)
{
    char path[8192];

    if (sandbox->merged_fd >= 0)
        return openat(sandbox->merged_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, SANDBOX_ROOT "%s", sandbox->mount);
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory a path is in, one part at a time and through no link, and its name there; "." for
 * the workspace itself. */
static bool find(struct agent *agent, struct look *look, int *folder, char name[FILES_NAME_MAX + 1],
                 struct error *err)
{
    struct str rest = look->message->path, part;

    snprintf(name, FILES_NAME_MAX + 1, ".");
    AUTO_FD int at = open_root(&agent->sandbox);
    if (at < 0)
        return fail_errno(look, err);
    while (rest.len > 0 && str_split(&rest, '/', &part)) {
        if (part.len == 0 || part.len > FILES_NAME_MAX || memchr(part.ptr, '\0', part.len) ||
            str_equal(part, STR(".")) || str_equal(part, STR("..")))
            return fail(look, "not_found", ERR_NOT_FOUND, "is no path", err);
        AUTO_FD int next = strcmp(name, ".") == 0
                               ? take_fd(&at)
                               : openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return fail_errno(look, err);
        auto_close(&at);
        at = take_fd(&next);
        memcpy(name, part.ptr, part.len);
        name[part.len] = '\0';
    }
    *folder = take_fd(&at);
    return true;
}

static enum files_type type_of(mode_t mode)
{
    if (S_ISREG(mode))
        return FILES_FILE;
    if (S_ISDIR(mode))
        return FILES_DIRECTORY;
    return S_ISLNK(mode) ? FILES_SYMLINK : FILES_OTHER;
}

/* One that went meanwhile is no entry any more: *is_there. */
static bool put_entry(struct look *look, int folder, const char *name, bool *is_there,
                      struct error *err)
{
    char target[FILES_TARGET_MAX];
    struct stat facts;
    ssize_t len = 0;

    *is_there = fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
    if (*is_there && S_ISLNK(facts.st_mode)) {
        len = readlinkat(folder, name, target, sizeof target);
        *is_there = len > 0;
    }
    if (!*is_there)
        return true;
    const struct files_entry entry = {
        .type = type_of(facts.st_mode),
        .mode = facts.st_mode & 07777,
        .size = S_ISDIR(facts.st_mode) ? 0 : (uint64_t)facts.st_size,
        .mtime_ns = facts.st_mtim.tv_sec * (int64_t)NS_PER_S + facts.st_mtim.tv_nsec,
        .name = strcmp(name, ".") == 0 ? STR("") : str_of(name),
        .target = {target, (size_t)len},
    };
    return files_entry_append(&look->data, &entry, err);
}

static bool stat_one(struct look *look, int folder, const char *name, struct error *err)
{
    bool is_there;

    if (!put_entry(look, folder, name, &is_there, err))
        return false;
    errno = ENOENT;
    return is_there || fail_errno(look, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct names {
    struct arena arena;
    const char **list;
    size_t n, room;
};

static void names_finish(struct names *names)
{
    arena_finish(&names->arena);
    free(names->list);
}

static bool read_names(struct look *look, DIR *stream, struct names *names, struct error *err)
{
    const char *after = "";
    struct dirent *entry;

    if (look->message->after.len > 0)
        after = arena_text(&names->arena, look->message->after);
    while ((entry = readdir(stream))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            strcmp(entry->d_name, after) <= 0)
            continue;
        if (names->n == NAMES_MAX)
            return fail(look, "too_large", ERR_TOO_LARGE, "holds too many names", err);
        if (names->n == names->room) {
            names->room = names->room ? 2 * names->room : 64;
            names->list = alloc_more(names->list, names->room * sizeof *names->list);
        }
        names->list[names->n++] = arena_text(&names->arena, str_of(entry->d_name));
    }
    if (names->n > 0)
        qsort(names->list, names->n, sizeof *names->list, by_text);
    return true;
}

/* As many as are wanted and fit. */
static bool list_names(struct look *look, DIR *stream, int folder, struct error *err)
{
    AUTO(names_finish) struct names names = {0};
    const size_t most = FILES_DATA_MAX - FILES_NAME_MAX - FILES_TARGET_MAX - 64;
    uint64_t left = look->message->length;
    bool is_there;

    if (!read_names(look, stream, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        look->has_more = left == 0 || look->data.len > most;
        if (look->has_more)
            break;
        if (!put_entry(look, folder, names.list[i], &is_there, err))
            return false;
        left -= is_there;
    }
    return true;
}

static bool list(struct look *look, int folder, const char *name, struct error *err)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 && errno == ENOTDIR)
        return fail(look, "not_directory", ERR_INVALID, "is no directory", err);
    DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
    if (!stream) {
        fail_errno(look, err);
        auto_close(&fd);
        return false;
    }
    bool fine = list_names(look, stream, fd, err);
    closedir(stream);
    return fine;
}

static bool read_bytes(struct look *look, int folder, const char *name, struct error *err)
{
    AUTO_FD int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    uint64_t want = look->message->length < FILES_DATA_MAX ? look->message->length : FILES_DATA_MAX;
    struct stat facts;

    if (fd < 0 && errno == ELOOP)
        return fail(look, "not_regular", ERR_INVALID, "is a link", err);
    if (fd < 0 || fstat(fd, &facts) < 0)
        return fail_errno(look, err);
    if (!S_ISREG(facts.st_mode))
        return fail(look, "not_regular", ERR_INVALID, "is no regular file", err);
    AUTO_FREE char *bytes = alloc(FILES_DATA_MAX);
    size_t len = 0;
    while (len < want) {
        ssize_t got = pread(fd, bytes + len, want - len, (off_t)(look->message->offset + len));

        if (got < 0)
            return fail_errno(look, err);
        if (got == 0)
            break;
        len += (size_t)got;
    }
    look->size = (uint64_t)facts.st_size;
    return len == 0 || buf_append(&look->data, (struct str){bytes, len}, err);
}

static bool look_into(struct agent *agent, struct look *look, struct error *err)
{
    char name[FILES_NAME_MAX + 1];
    AUTO_FD int folder = -1;

    if (!agent->sandbox.is_ready || !agent->sandbox.mount)
        return fail(look, "not_ready", ERR_CONFLICT, "cannot be looked at yet", err);
    if (!find(agent, look, &folder, name, err))
        return false;
    switch (look->message->op) {
    case FILES_LIST: return list(look, folder, name, err);
    case FILES_STAT: return stat_one(look, folder, name, err);
    case FILES_READ: return read_bytes(look, folder, name, err);
    default: break;
    }
    return fail(look, "unsupported", ERR_UNSUPPORTED, "was asked for what nobody knows", err);
}

void files_answer(struct agent *agent, const struct message_files *message)
{
    struct look look = {
        .message = message,
        .data = {.max = FILES_DATA_MAX},
        .code = "files_failed",
    };
    struct error err;

    if (look_into(agent, &look, &err))
        agent_send(agent, MESSAGE_FILES_RESULT,
                   &(struct message_files_result){
                       .id = message->id,
                       .data = look.data.len > 0 ? buf_str(&look.data) : STR(""),
                       .size = look.size,
                       .more = look.has_more,
                   });
    else
        agent_refuse(agent, message->id, "files", look.code, &err);
    buf_finish(&look.data);
}
