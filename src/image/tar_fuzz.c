/* Any bytes as an archive, and as a path: no crash, and every accepted path stays inside. */
#include <assert.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/own.h"
#include "image/tar_reader.h"

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

static bool check_entry(struct tar_reader *reader, struct tar_budget *budget)
{
    struct archive_entry *entry;
    struct error err;
    struct str bytes;
    int64_t offset;

    if (!tar_reader_next(reader, &entry, &err) || !entry)
        return false;
    const char *path = archive_entry_pathname(entry);
    check_path(str_of(path ? path : ""));
    if (!tar_spend(budget, archive_entry_size(entry), &err))
        return false;
    do
        if (!tar_reader_data(reader, &bytes, &offset, &err))
            return false;
    while (bytes.len);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    struct tar_budget budget = {1 << 20, 100};
    struct error err;
    AUTO_FD int fd = memfd_create("tar", MFD_CLOEXEC);

    check_path((struct str){(const char *)data, size});
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
        return 0;
    if (!tar_reader_open(&reader, fd, TAR_MAY_BE_COMPRESSED, 1 << 20, &err))
        return 0;
    while (check_entry(&reader, &budget))
        ;
    char blob[DIGEST_TEXT], diff[DIGEST_TEXT];
    (void)!tar_reader_end(&reader, blob, diff, &err);
    return 0;
}
