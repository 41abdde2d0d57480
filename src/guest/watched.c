#include "guest/watched.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

enum { SOCKETS_MAX = 4096, LINE_LEN = 512 };

struct sockets {
    unsigned long inodes[SOCKETS_MAX];
    size_t n;
};

/* The tenth column; a heading has no number there. */
static unsigned long inode_of(const char *line)
{
    unsigned long inode = 0;

    return sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &inode) == 1 ? inode : 0;
}

/* Without the file there is no such network. False when there are too many to remember. */
static bool read_sockets(int proc_fd, const char *path, struct sockets *sockets)
{
    char line[LINE_LEN];
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "re");

    if (!file) {
        if (fd >= 0)
            close(fd);
        return true;
    }
    bool has_room = true;
    while (has_room && fgets(line, sizeof line, file)) {
        unsigned long inode = inode_of(line);
        if (inode == 0)
            continue;
        has_room = sockets->n < SOCKETS_MAX;
        if (has_room)
            sockets->inodes[sockets->n++] = inode;
    }
    fclose(file);
    return has_room;
}

static bool is_tcp(const struct sockets *sockets, const char *target)
{
    unsigned long inode;

    if (sscanf(target, "socket:[%lu]", &inode) != 1)
        return false;
    for (size_t i = 0; i < sockets->n; i++) {
        if (sockets->inodes[i] == inode)
            return true;
    }
    return false;
}

/* Which of its sockets an epoll watches is not told: any may be. Nor is one believed to have none
 * that does not let itself be looked at. */
static bool watches(int proc_fd, pid_t process, const struct sockets *sockets)
{
    char path[32], target[64];
    bool has_tcp = false, has_epoll = false;

    snprintf(path, sizeof path, "%d/fd", (int)process);
    int fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        bool is_closed = errno == EACCES || errno == EPERM;
        if (fd >= 0)
            close(fd);
        return is_closed; /* else it has ended */
    }
    for (const struct dirent *entry; (entry = readdir(folder));) {
        ssize_t len = readlinkat(fd, entry->d_name, target, sizeof target - 1);
        bool is_closed = len < 0 && (errno == EACCES || errno == EPERM);
        target[len < 0 ? 0 : len] = '\0';
        has_tcp = has_tcp || is_closed || is_tcp(sockets, target);
        has_epoll = has_epoll || is_closed || strcmp(target, "anon_inode:[eventpoll]") == 0;
    }
    closedir(folder);
    return has_tcp && has_epoll;
}

pid_t watched_tcp_find(int proc_fd, const pid_t *processes, size_t n)
{
    static struct sockets sockets;

    sockets.n = 0;
    if (!read_sockets(proc_fd, "net/tcp", &sockets) || !read_sockets(proc_fd, "net/tcp6", &sockets))
        return n > 0 ? processes[0] : 0;
    for (size_t i = 0; i < n && sockets.n > 0; i++) {
        if (watches(proc_fd, processes[i], &sockets))
            return processes[i];
    }
    return 0;
}
