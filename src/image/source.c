#include "image/source.h"

#include <errno.h>
#include <fcntl.h>

#include "base/encode.h"
#include "base/hash.h"
#include "base/own.h"
#include "image/disk.h"
#include "image/glob.h"
#include "image/tar.h"

enum { ENTRIES_MAX = 100000, CHUNK = 256 * 1024 };

struct collect {
    struct source *source;
    const struct step *step;
    struct arena *arena;
};

void source_finish(struct source *source)
{
    free(source->entries);
    *source = (struct source){0};
}

static void add_entry(struct source *source, struct source_entry entry)
{
    if (source->n == source->room) {
        source->room = source->room ? source->room * 2 : 64;
        source->entries = alloc_more(source->entries, source->room * sizeof *source->entries);
    }
    source->entries[source->n++] = entry;
}

static bool is_ignored(const struct step *step, const char *path)
{
    const struct str *ignore = step->source.ignore.items;

    for (size_t i = 0; i < step->source.ignore.n; i++)
        if (glob_match(ignore[i], str_of(path)))
            return true;
    return false;
}

static const char *join(struct arena *arena, const char *folder, const char *name)
{
    if (!*folder || strcmp(folder, ".") == 0)
        return name;
    return *name ? arena_printf(arena, "%s/%s", folder, name) : folder;
}

static bool collect_folder(struct collect *collect, const char *path, int depth, struct error *err);

static bool collect_name(struct collect *collect, int folder, const char *folder_path,
                         const char *name, int depth, struct error *err)
{
    const char *path = arena_text(collect->arena, str_of(join(collect->arena, folder_path, name)));
    struct stat facts;

    if (plan_is_excluded(str_of(name)) || is_ignored(collect->step, path))
        return true;
    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return error_errno(err, "look at %s", path);
    if (collect->source->n == ENTRIES_MAX)
        return error_set(err, ERR_UNPROCESSABLE, "%s has over %d entries", collect->source->base,
                         ENTRIES_MAX);
    if (S_ISDIR(facts.st_mode)) {
        add_entry(collect->source, (struct source_entry){path, true, true, 0});
        return collect_folder(collect, path, depth + 1, err);
    }
    if (!S_ISREG(facts.st_mode))
        return error_set(err, ERR_UNPROCESSABLE,
                         "%s in %s is a %s, which cannot be copied into an image: ignore it", path,
                         collect->source->base,
                         S_ISLNK(facts.st_mode) ? "symbolic link" : "special file");
    add_entry(collect->source,
              (struct source_entry){path, false, (facts.st_mode & 0111) != 0, facts.st_size});
    return true;
}

static bool collect_folder(struct collect *collect, const char *path, int depth, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    const char *full = join(collect->arena, collect->source->base, path);
    AUTO_FD int fd = disk_open(collect->source->project, full, O_RDONLY | O_DIRECTORY);

    if (fd < 0)
        return error_errno(err, "open %s", full);
    if (depth > TAR_DEPTH_MAX)
        return error_set(err, ERR_UNPROCESSABLE, "%.128s lies too deep", full);
    if (!disk_list(fd, ENTRIES_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++)
        if (!collect_name(collect, fd, path, names.names[i], depth, err))
            return false;
    return true;
}

static bool open_base(struct source *source, bool is_folder, struct stat *facts, struct error *err)
{
    AUTO_FD int fd = disk_open(source->project, source->base, O_PATH);

    if (fd < 0 && errno == ENOENT)
        return error_set(err, ERR_UNPROCESSABLE, "%s is not in the project", source->base);
    if (fd < 0 && errno == ELOOP)
        return error_set(err, ERR_UNPROCESSABLE, "%s is reached by a symbolic link", source->base);
    if (fd < 0 || fstat(fd, facts) != 0)
        return error_errno(err, "open %s", source->base);
    if (S_ISLNK(facts->st_mode))
        return error_set(err, ERR_UNPROCESSABLE, "%s is a symbolic link", source->base);
    if (is_folder ? !S_ISDIR(facts->st_mode) : !S_ISREG(facts->st_mode))
        return error_set(err, ERR_UNPROCESSABLE, "%s is not a %s", source->base,
                         is_folder ? "directory" : "file");
    return true;
}

bool source_collect(int project, const struct step *step, struct arena *arena,
                    struct source *source, struct error *err)
{
    AUTO(source_finish) struct source found = {.project = project};
    bool is_folder = step->source.directory.len > 0;
    char base[TAR_PATH];
    struct stat facts;

    if (!tar_path(is_folder ? step->source.directory : step->source.file, base, err)) {
        err->code = ERR_INVALID;
        return false;
    }
    found.base = arena_text(arena, str_of(base));
    if (!open_base(&found, is_folder, &facts, err))
        return false;
    if (is_folder) {
        struct collect collect = {&found, step, arena};
        if (!collect_folder(&collect, "", 0, err))
            return false;
    } else {
        add_entry(&found,
                  (struct source_entry){"", false, (facts.st_mode & 0111) != 0, facts.st_size});
    }
    *source = found;
    found = (struct source){0};
    return true;
}

bool source_open(const struct source *source, const struct source_entry *entry, int *fd,
                 struct error *err)
{
    char path[2 * TAR_PATH];

    (void)snprintf(path, sizeof path, "%s%s%s", source->base,
                   *source->base && *entry->path ? "/" : "", entry->path);
    *fd = disk_open(source->project, path, O_RDONLY);
    return *fd >= 0 || error_errno(err, "open %s", path);
}

static bool hash_content(struct blake2b *state, int fd, struct error *err)
{
    AUTO_FREE char *buffer = alloc(CHUNK);

    for (;;) {
        ssize_t n = read(fd, buffer, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read a file");
        if (n == 0)
            return true;
        blake2b_update(state, (struct str){buffer, (size_t)n});
    }
}

bool source_hash(const struct source *source, char hash[SOURCE_HASH_TEXT], struct error *err)
{
    uint8_t sum[BLAKE2B_LEN];
    struct blake2b all;

    blake2b_init(&all, (struct str){0});
    for (size_t i = 0; i < source->n; i++) {
        const struct source_entry *entry = &source->entries[i];
        AUTO_FD int fd = -1;
        struct blake2b one;
        char head[TAR_PATH + 64];
        int len = snprintf(head, sizeof head, "%s%c%s", entry->path, '\0',
                           entry->is_folder       ? "folder"
                           : entry->is_executable ? "program"
                                                  : "file");
        blake2b_update(&all, (struct str){head, (size_t)len + 1});
        if (entry->is_folder)
            continue;
        blake2b_init(&one, (struct str){0});
        if (!source_open(source, entry, &fd, err) || !hash_content(&one, fd, err))
            return false;
        blake2b_final(&one, sum);
        blake2b_update(&all, (struct str){(const char *)sum, sizeof sum});
    }
    blake2b_final(&all, sum);
    hex_encode((struct str){(const char *)sum, sizeof sum}, hash);
    return true;
}
