/* Watches: which folder each is of, the events, and the directories that only the image has. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/own.h"
#include "guest/seen_state.h"

enum { EVENTS = 65536, FIRST_ROOM = 256, NAMED_TOUCHED = 1, NAMED_OPENED = 2 };

/* --- which folder a watch is of --- */

static size_t place_of(const struct seen_watches *watches, int watch)
{
    size_t at = (size_t)watch * 2654435761u & (watches->room - 1);

    while (watches->folders[at] && watches->folders[at]->watch != watch)
        at = (at + 1) & (watches->room - 1);
    return at;
}

struct seen_folder *seen_watches_find(const struct seen_watches *watches, int watch)
{
    return watches->room ? watches->folders[place_of(watches, watch)] : NULL;
}

static void grow(struct seen_watches *watches)
{
    struct seen_watches larger = {.n = watches->n,
                                  .room = watches->room ? 2 * watches->room : FIRST_ROOM};

    larger.folders = alloc(larger.room * sizeof *larger.folders);
    memset(larger.folders, 0, larger.room * sizeof *larger.folders);
    for (size_t i = 0; i < watches->room; i++)
        if (watches->folders[i])
            larger.folders[place_of(&larger, watches->folders[i]->watch)] = watches->folders[i];
    free(watches->folders);
    *watches = larger;
}

struct seen_folder *seen_watches_put(struct seen_watches *watches, struct seen_folder *folder)
{
    if (2 * watches->n >= watches->room)
        grow(watches);
    struct seen_folder **place = &watches->folders[place_of(watches, folder->watch)];
    struct seen_folder *former = *place;
    *place = folder;
    watches->n += !former;
    return former;
}

/* Those that were put further because of it move up. */
void seen_watches_remove(struct seen_watches *watches, int watch)
{
    if (!watches->room)
        return;
    size_t at = place_of(watches, watch);
    if (!watches->folders[at])
        return;
    watches->folders[at] = NULL;
    watches->n--;
    for (size_t next = (at + 1) & (watches->room - 1); watches->folders[next];
         next = (next + 1) & (watches->room - 1)) {
        struct seen_folder *moved = watches->folders[next];
        watches->folders[next] = NULL;
        watches->folders[place_of(watches, moved->watch)] = moved;
    }
}

/* --- events --- */

struct named {
    int watch;
    char name[TREE_NAME_MAX + 1];
};

static struct str key_of(struct named *key, int watch, const char *name)
{
    size_t len = strnlen(name, TREE_NAME_MAX);

    key->watch = watch;
    memcpy(key->name, name, len);
    return (struct str){(const char *)key, offsetof(struct named, name) + len};
}

static void note_name(struct seen *seen, int watch, const char *name, bool is_open_only)
{
    struct named key;
    struct str bytes = key_of(&key, watch, name);
    uintptr_t before = (uintptr_t)map_find(&seen->names, bytes);
    uintptr_t now = before | (is_open_only ? NAMED_OPENED : NAMED_TOUCHED);

    if (now != before)
        map_put(&seen->names, bytes, (void *)now);
}

/* What it is of may be in no table yet, or in none any more. */
static void take_event(struct seen *seen, const struct inotify_event *event)
{
    struct seen_folder *folder =
        event->wd >= 0 ? seen_watches_find(seen->watches, event->wd) : NULL;
    bool is_open_only = (event->mask & IN_ALL_EVENTS) == IN_OPEN;

    if (event->mask & IN_Q_OVERFLOW)
        seen->lack = "too much happened in the workspace at once";
    if (!folder || (is_open_only && event->mask & IN_ISDIR))
        return;
    if (event->mask & IN_IGNORED) {
        seen_touch(seen, folder, false);
        seen_watches_remove(seen->watches, event->wd);
        folder->watch = -1;
        return;
    }
    /* Without a name it is the directory itself, which its parent is told of as well. */
    if (event->len == 0)
        return;
    seen_touch(seen, folder, is_open_only);
    note_name(seen, event->wd, event->name, is_open_only);
}

void seen_drain(struct seen *seen)
{
    AUTO_FREE char *events = alloc(EVENTS);
    ssize_t got = 0;

    while (seen->watch_fd >= 0 && (got = read(seen->watch_fd, events, EVENTS)) > 0) {
        for (ssize_t at = 0; at < got;) {
            struct inotify_event event;
            memcpy(&event, events + at, sizeof event);
            take_event(seen, (const struct inotify_event *)(events + at));
            at += (ssize_t)(sizeof event + event.len);
        }
        if (seen->names.count > SEEN_NAMES_MAX)
            seen->lack = "too much was touched in the workspace to be remembered";
        if (seen->lack)
            seen_forget(seen, seen->lack);
    }
}

bool seen_is_named(const struct seen *seen, const struct seen_folder *folder, const char *name,
                   bool is_live)
{
    struct named key;
    uintptr_t what = (uintptr_t)map_find(&seen->names, key_of(&key, folder->watch, name));

    return what & NAMED_TOUCHED || (what && (is_live || seen->counts_opened));
}

static bool path_of(const struct seen_folder *folder, const char *name, size_t len,
                    char path[TREE_PATH_MAX])
{
    size_t at = TREE_PATH_MAX - 1;

    path[at] = '\0';
    for (;;) {
        if (len + 1 > at)
            return false;
        at -= len;
        memcpy(path + at, name, len);
        if (!folder->parent)
            break;
        path[--at] = '/';
        name = folder->name;
        len = strlen(name);
        folder = folder->parent;
    }
    memmove(path, path + at, TREE_PATH_MAX - at);
    return true;
}

bool seen_links_are_touched(const struct seen *seen, int upper_fd)
{
    struct str key;
    void *what;

    for (size_t at = 0; map_next(&seen->names, &at, &key, &what);) {
        char path[TREE_PATH_MAX], name[TREE_NAME_MAX + 1];
        size_t len = key.len - offsetof(struct named, name);
        struct stat info;
        int watch;

        memcpy(&watch, key.ptr, sizeof watch);
        memcpy(name, key.ptr + offsetof(struct named, name), len);
        name[len] = '\0';
        const struct seen_folder *folder = seen_watches_find(seen->watches, watch);
        const struct seen_entry *entry = folder ? seen_find(folder, name) : NULL;
        if (entry && entry->is_linked)
            return true;
        if (folder && path_of(folder, name, len, path) &&
            fstatat(upper_fd, path, &info, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(info.st_mode) &&
            !S_ISCHR(info.st_mode) && info.st_nlink > 1)
            return true;
    }
    return false;
}

/* --- directories of the image --- */

static void watch_one(struct seen *seen, struct seen_folder *folder, const char *path,
                      const char *name, int lower_fd)
{
    char inside[TREE_PATH_MAX];
    int len = snprintf(inside, sizeof inside, "%s%s%s", path, path[0] ? "/" : "", name);
    AUTO_FD int fd = openat(lower_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || len < 0 || (size_t)len >= sizeof inside)
        return;
    struct seen_folder *made = seen_folder_make(seen, folder, inside, 0);
    if (!made)
        return;
    made->more = folder->below;
    folder->below = made;
    seen_watch_below(seen, made, inside, fd);
    seen_pass_up(made, folder);
}

void seen_watch_below(struct seen *seen, struct seen_folder *folder, const char *path, int lower_fd)
{
    int fd = openat(lower_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream) {
        auto_close(&fd);
        seen->lack = "the image cannot be read";
        return;
    }
    for (const struct dirent *entry; !seen->lack && (entry = readdir(stream));) {
        bool is_maybe = entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
        if (!is_maybe || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            seen_find(folder, entry->d_name))
            continue;
        watch_one(seen, folder, path, entry->d_name, lower_fd);
    }
    closedir(stream);
}
