/* The memory of a copy, read out of its process: pages that it changed are its own, all others are
 * still those of the file it maps. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "base/own.h"
#include "engine/qemu/machine.h"
#include "engine/sparse.h"

enum { PAGE = 4096, ENTRIES = 8192, RUN_PAGES = 256, MAPS_MAX = 4 << 20 };

static const uint64_t is_present = 1ULL << 63, is_swapped = 1ULL << 62, is_of_file = 1ULL << 61;

/* A part of the file as the process sees it. */
struct view {
    uint64_t begin, end, offset;
};

struct gather {
    int pagemap, pages, file;
    uint64_t *entries; /* ENTRIES of them */
    char *run;         /* RUN_PAGES pages */
    off_t size;
};

static void gather_finish(struct gather *gather)
{
    auto_close(&gather->pagemap);
    auto_close(&gather->pages);
    free(gather->entries);
    free(gather->run);
}

static bool proc_open(pid_t pid, const char *name, int *fd, struct error *err)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd >= 0 || error_errno(err, "open %s", path);
}

/* `begin-end mode offset major:minor inode name`: whether it is a view of the file. */
static bool view_read(struct str line, const struct stat *file, struct view *view)
{
    char text[160], mode[8];
    unsigned major_number, minor_number;
    unsigned long long begin, end, offset, inode;

    snprintf(text, sizeof(text), "%.*s", (int)(line.len < 150 ? line.len : 150), line.ptr);
    if (sscanf(text, "%llx-%llx %7s %llx %x:%x %llu", &begin, &end, mode, &offset, &major_number,
               &minor_number, &inode) != 7)
        return false;
    *view = (struct view){begin, end, offset};
    return inode == file->st_ino && makedev(major_number, minor_number) == file->st_dev;
}

static bool run_copy(struct gather *gather, uint64_t address, uint64_t offset, size_t len,
                     struct error *err)
{
    if (offset + len > (uint64_t)gather->size)
        return error_set(err, ERR_DAMAGED, "the machine maps more than its memory");
    if (pread(gather->pages, gather->run, len, (off_t)address) != (ssize_t)len)
        return error_errno(err, "read the machine's memory");
    return sparse_write(gather->file, (int64_t)offset, (struct str){gather->run, len}, err);
}

static bool is_changed(uint64_t entry)
{
    return entry & is_swapped || (entry & is_present && !(entry & is_of_file));
}

/* The pages that `entries` tell of, which begin at the address. */
static bool entries_copy(struct gather *gather, const struct view *view, uint64_t address, size_t n,
                         struct error *err)
{
    for (size_t i = 0; i < n;) {
        size_t len = 0;
        while (i + len < n && len < RUN_PAGES && is_changed(gather->entries[i + len]))
            len++;
        uint64_t at = address + i * PAGE;
        if (len > 0 && !run_copy(gather, at, view->offset + (at - view->begin), len * PAGE, err))
            return false;
        i += len > 0 ? len : 1;
    }
    return true;
}

static bool view_copy(struct gather *gather, const struct view *view, struct error *err)
{
    for (uint64_t at = view->begin; at < view->end;) {
        size_t n = (size_t)((view->end - at) / PAGE);
        if (n > ENTRIES)
            n = ENTRIES;
        const size_t bytes = n * sizeof(*gather->entries);
        const off_t place = (off_t)(at / PAGE * sizeof(*gather->entries));
        if (pread(gather->pagemap, gather->entries, bytes, place) != (ssize_t)bytes)
            return error_errno(err, "read the machine's page table");
        if (!entries_copy(gather, view, at, n, err))
            return false;
        at += n * PAGE;
    }
    return true;
}

static bool views_copy(struct gather *gather, const struct stat *file, pid_t pid, struct error *err)
{
    AUTO_FREE char *text = NULL;
    AUTO_FD int maps = -1;
    struct view view;
    bool has_any = false;

    if (!proc_open(pid, "maps", &maps, err) ||
        !fd_read_all(maps, "the machine's mappings", MAPS_MAX, &text, err))
        return false;
    struct str rest = str_of(text), line;
    while (str_split(&rest, '\n', &line)) {
        if (!view_read(line, file, &view))
            continue;
        if (!view_copy(gather, &view, err))
            return false;
        has_any = true;
    }
    return has_any || error_set(err, ERR_DAMAGED, "the machine does not map its memory");
}

bool machine_changes_gather(const struct instance *instance, int file, struct error *err)
{
    const pid_t pid = instance->process.pid;
    AUTO(gather_finish)
    struct gather gather = {.pagemap = -1,
                            .pages = -1,
                            .file = file,
                            .entries = alloc(ENTRIES * sizeof(uint64_t)),
                            .run = alloc((size_t)RUN_PAGES * PAGE)};
    struct stat memory;

    if (fstat(machine_of(instance)->memory, &memory) < 0 || ftruncate(file, memory.st_size) < 0)
        return error_errno(err, "size the machine's changes");
    gather.size = memory.st_size;
    return proc_open(pid, "pagemap", &gather.pagemap, err) &&
           proc_open(pid, "mem", &gather.pages, err) && views_copy(&gather, &memory, pid, err);
}
