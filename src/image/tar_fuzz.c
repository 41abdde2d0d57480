/* Any bytes as an archive, and as a path: no crash, every accepted path stays inside, and whatever
 * is unpacked, over a lower layer with links out of it, touches nothing else.
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/own.h"
#include "image/extract.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_path(struct str raw)
{
    char path[TAR_PATH];
    struct str rest, segment;
    struct error err;

    if (!tar_path(raw, path, &err))
        return;
    assert(strlen(path) <= TAR_PATH_MAX && path[0] != '/');
    rest = str_of(path);
    while (*path && str_split(&rest, '/', &segment))
        assert(segment.len > 0 && segment.len <= TAR_NAME_MAX && !str_equal(segment, STR(".")) &&
               !str_equal(segment, STR("..")));
    const char *hidden;
    if (tar_marker(path, &hidden) == TAR_WHITEOUT)
        assert(*hidden && strcmp(hidden, "..") != 0 && !strchr(hidden, '/'));
}

/* A folder with a lower layer, a file that nobody may touch, and the place to unpack into. */
struct scratch {
    char path[64];
    int folder;
    struct view below;
};

static bool make_lower(int folder)
{
    AUTO_FD int file = openat(folder, "canary", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return file >= 0 && write(file, "alive", 5) == 5 && mkdirat(folder, "lower", 0755) == 0 &&
           mkdirat(folder, "lower/d", 0755) == 0 && mknodat(folder, "lower/f", S_IFREG, 0) == 0 &&
           symlinkat("..", folder, "lower/up") == 0 &&
           symlinkat("../../canary", folder, "lower/d/out") == 0;
}

static struct scratch *scratch(void)
{
    static struct scratch made = {.path = "/dev/shm/helmr-fuzz-XXXXXX", .folder = -1};
    char lower[96];
    const char *folders[] = {lower};
    struct error err;

    if (made.folder >= 0)
        return &made;
    if (!mkdtemp(made.path))
        abort();
    made.folder = open(made.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(lower, sizeof lower, "%s/lower", made.path);
    if (made.folder < 0 || !make_lower(made.folder) ||
        !view_open(folders, COUNT_OF(folders), &made.below, &err))
        abort();
    return &made;
}

__attribute__((destructor)) static void drop_scratch(void)
{
    struct error err;

    if (scratch()->folder >= 0 && !folder_remove(scratch()->path, &err))
        (void)fprintf(stderr, "%s\n", err.text);
}

static size_t count_names(int folder, const char *name)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    AUTO_FD int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct error err;

    return fd >= 0 && disk_list(fd, 1000, &names, &err) ? names.n : 0;
}

/* Whatever an archive says: what lies outside its folder is as it was. */
static void check_outside(const struct scratch *place)
{
    AUTO_FD int canary = openat(place->folder, "canary", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[8];
    struct stat facts;

    assert(canary >= 0 && fstat(canary, &facts) == 0);
    assert(facts.st_nlink == 1 && facts.st_uid == geteuid() && (facts.st_mode & 07777) == 0600);
    assert(read(canary, text, sizeof text) == 5 && memcmp(text, "alive", 5) == 0);
    assert(fstatat(place->folder, "lower/f", &facts, 0) == 0);
    assert(facts.st_nlink == 1 && facts.st_size == 0);
    assert(count_names(place->folder, ".") == 3 && count_names(place->folder, "lower") == 3);
    assert(count_names(place->folder, "lower/d") == 1);
}

static void check_extract(int blob, enum extract_kind kind)
{
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    struct scratch *place = scratch();
    struct tar_budget budget = {1 << 20, 100};
    char digest[DIGEST_TEXT], diff[DIGEST_TEXT];
    struct error err;

    if (lseek(blob, 0, SEEK_SET) != 0 || mkdirat(place->folder, "root", 0755) != 0)
        abort();
    AUTO_FD int root = openat(place->folder, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct extract_spec spec = {kind, root, kind == EXTRACT_LAYER ? &place->below : NULL, &budget};
    if (tar_reader_open(&reader, blob, TAR_MAY_BE_COMPRESSED, 1 << 20, &err) &&
        extract_archive(&spec, &reader, &err))
        (void)!tar_reader_end(&reader, digest, diff, &err);
    assert(budget.bytes >= 0 && budget.entries >= 0);
    check_outside(place);
    /* What was made can be removed again. */
    if (!tree_remove(place->folder, "root", &err))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TAR_UTF8_SCOPE;
    AUTO_FD int fd = memfd_create("tar", MFD_CLOEXEC);

    check_path((struct str){(const char *)data, size});
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    check_extract(fd, EXTRACT_LAYER);
    check_extract(fd, EXTRACT_PROJECT);
    return 0;
}
