#include "guest/seen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/own.h"
#include "guest/seen_state.h"

void seen_init(struct seen *seen)
{
    *seen = (struct seen){.root_fd = -1, .watch_fd = -1, .life = 1};
}

void seen_forget(struct seen *seen, const char *lack)
{
    /* Closing it takes all watches away: none is to be removed one by one. */
    auto_close(&seen->watch_fd);
    seen->watch_fd = -1;
    seen_folder_destroy(seen, TAKE(seen->root));
    if (seen->watches)
        free(seen->watches->folders);
    free(TAKE(seen->watches));
    map_finish(&seen->names);
    seen->names = (struct map){0};
    seen->n_bytes = 0;
    seen->mark[0] = '\0';
    seen->counts_opened = false;
    seen->lack = lack;
}

void seen_finish(struct seen *seen)
{
    seen_forget(seen, NULL);
}

bool seen_begin(struct seen *seen, int root_fd)
{
    seen->root_fd = root_fd;
    if (root_fd < 0)
        return false;
    if (seen->watch_fd >= 0)
        return true;
    seen_forget(seen, NULL);
    seen->watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (seen->watch_fd < 0) {
        seen->lack = "nothing can be watched here";
        return false;
    }
    seen->watches = alloc(sizeof *seen->watches);
    *seen->watches = (struct seen_watches){0};
    return true;
}

void seen_commit(struct seen *seen, struct seen_folder *root, const char *mark, bool is_live)
{
    struct seen_folder *former = seen->root;

    seen->root = root;
    seen->lack = NULL;
    snprintf(seen->mark, sizeof seen->mark, "%s", mark);
    seen_folder_destroy(seen, former);
    /* What was open then may be written without a word. */
    seen->counts_opened = is_live;
    if (is_live)
        return;
    seen->life++;
    map_finish(&seen->names);
    seen->names = (struct map){0};
}

/* --- folders --- */

static size_t weight_of(const struct seen_folder *folder)
{
    return sizeof *folder + strlen(folder->name) + 1;
}

void seen_folder_destroy(struct seen *seen, struct seen_folder *folder)
{
    struct seen_folder *next;

    if (!folder)
        return;
    /* Where the folder is by now another may have the same watch. */
    if (seen->watch_fd >= 0 && folder->watch >= 0 &&
        seen_watches_find(seen->watches, folder->watch) == folder) {
        seen_watches_remove(seen->watches, folder->watch);
        inotify_rm_watch(seen->watch_fd, folder->watch);
    }
    for (size_t i = 0; i < folder->n; i++) {
        seen_folder_destroy(seen, folder->entries[i].folder);
        seen->n_bytes -= strlen(folder->entries[i].name) + 1;
        free((char *)folder->entries[i].name);
    }
    for (struct seen_folder *below = folder->below; below; below = next) {
        next = below->more;
        seen_folder_destroy(seen, below);
    }
    seen->n_bytes -= weight_of(folder) + folder->room * sizeof *folder->entries;
    free(folder->entries);
    free((char *)folder->name);
    free(folder);
}

static char *copy_of(const char *text)
{
    size_t len = strlen(text) + 1;
    char *copy = alloc(len);

    memcpy(copy, text, len);
    return copy;
}

static void weigh(struct seen *seen, size_t more)
{
    seen->n_bytes += more;
    if (seen->n_bytes > SEEN_BYTES_MAX)
        seen->lack = "there is too much in the workspace to be remembered";
}

/* What happened to the directory that had this watch goes on to count. */
static void take_over(struct seen_folder *folder, const struct seen_folder *former)
{
    if (!former)
        return;
    folder->touched = former->touched;
    folder->opened = former->opened;
}

/* The mask: everything that changes something, and opening, because mappings change files
 * silently. */
enum {
    WATCHED = IN_OPEN | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_CREATE | IN_DELETE |
              IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR | IN_DONT_FOLLOW
};

static bool enter(struct seen *seen)
{
    if (!seen->is_inside && fchdir(seen->root_fd) == 0)
        seen->is_inside = true;
    return seen->is_inside;
}

void seen_leave(struct seen *seen)
{
    if (seen->is_inside && chdir("/") == 0)
        seen->is_inside = false;
}

struct seen_folder *seen_folder_make(struct seen *seen, struct seen_folder *parent,
                                     const char *path, uint64_t inode)
{
    const char *slash = strrchr(path, '/');

    if (seen->lack || !enter(seen))
        return NULL;
    int watch = inotify_add_watch(seen->watch_fd, path[0] ? path : ".", WATCHED);
    if (watch < 0) {
        seen->lack = "there are too many directories to be watched";
        return NULL;
    }
    struct seen_folder *folder = alloc(sizeof *folder);
    *folder = (struct seen_folder){
        .parent = parent,
        .name = copy_of(slash ? slash + 1 : path),
        .inode = inode,
        .watch = watch,
    };
    weigh(seen, weight_of(folder));
    take_over(folder, seen_watches_put(seen->watches, folder));
    return folder;
}

void seen_pass_up(const struct seen_folder *from, struct seen_folder *to)
{
    uint32_t touched = from->touched > from->touched_below ? from->touched : from->touched_below;
    uint32_t opened = from->opened > from->opened_below ? from->opened : from->opened_below;

    to->touched_below = touched > to->touched_below ? touched : to->touched_below;
    to->opened_below = opened > to->opened_below ? opened : to->opened_below;
    to->has_links = to->has_links || from->has_links;
}

void seen_add(struct seen *seen, struct seen_folder *folder, const char *name,
              const struct seen_entry *entry)
{
    if (folder->n == folder->room) {
        size_t room = folder->room ? 2 * folder->room : 8;
        weigh(seen, (room - folder->room) * sizeof *folder->entries);
        folder->entries = alloc_more(folder->entries, room * sizeof *folder->entries);
        folder->room = room;
    }
    struct seen_entry *added = &folder->entries[folder->n++];
    *added = *entry;
    added->name = copy_of(name);
    weigh(seen, strlen(name) + 1);
    folder->has_links = folder->has_links || entry->is_linked;
    if (entry->folder) {
        entry->folder->parent = folder;
        seen_pass_up(entry->folder, folder);
    }
}

const struct seen_entry *seen_find(const struct seen_folder *folder, const char *name)
{
    size_t from = 0, to = folder->n;

    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(folder->entries[middle].name, name);
        if (order == 0)
            return &folder->entries[middle];
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return NULL;
}

/* --- what happened --- */

void seen_touch(struct seen *seen, struct seen_folder *folder, bool is_open_only)
{
    if (is_open_only)
        folder->opened = seen->life;
    else
        folder->touched = seen->life;
    for (struct seen_folder *up = folder->parent; up; up = up->parent) {
        uint32_t *noted = is_open_only ? &up->opened_below : &up->touched_below;
        if (*noted == seen->life)
            return;
        *noted = seen->life;
    }
}

bool seen_is_touched(const struct seen *seen, const struct seen_folder *folder, bool is_live)
{
    bool with_opened = is_live || seen->counts_opened;

    return folder->touched == seen->life || (with_opened && folder->opened == seen->life);
}

bool seen_is_clean(const struct seen *seen, const struct seen_folder *folder, bool is_live)
{
    bool with_opened = is_live || seen->counts_opened;

    return folder->watch >= 0 && !seen_is_touched(seen, folder, is_live) &&
           folder->touched_below != seen->life &&
           !(with_opened && folder->opened_below == seen->life);
}

uint64_t seen_print(const struct stat *info)
{
    const uint64_t facts[] = {
        info->st_ino,
        (uint64_t)info->st_size,
        (uint64_t)info->st_mtim.tv_sec * 1000000000 + (uint64_t)info->st_mtim.tv_nsec,
        (uint64_t)info->st_ctim.tv_sec * 1000000000 + (uint64_t)info->st_ctim.tv_nsec,
        (uint64_t)info->st_mode << 32 | (info->st_nlink > 1),
        (uint64_t)info->st_uid << 32 | info->st_gid,
    };
    uint64_t print = 0;

    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        print = (print ^ facts[i]) * 0x9e3779b97f4a7c15;
        print ^= print >> 29;
    }
    return print;
}
