/* What programs do to files, at random: for tests of what is captured then. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"

enum { N_NAMES = 6 };

static uint32_t chance = 7;

static inline uint32_t any(uint32_t below)
{
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % below;
}

static inline const char *any_folder(char path[64])
{
    static const char *const folders[] = {".", "a", "b", "a/c", "a/c/d", "b/e"};

    snprintf(path, 64, "%s", folders[any(COUNT_OF(folders))]);
    return path;
}

static inline const char *any_name(char path[64])
{
    char folder[64];

    any_folder(folder);
    snprintf(path, 64, "%.40s/n%u", folder, any(N_NAMES));
    return path;
}

static inline void write_some(int at, const char *path, int flags, const char *text)
{
    AUTO_FD int fd = openat(at, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0644);

    if (fd >= 0)
        (void)!write(fd, text, strlen(text));
}

/* The size and both times that a user can set stay what they were. */
static inline void write_in_disguise(int at, const char *path)
{
    struct stat info;

    if (fstatat(at, path, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode) ||
        info.st_size < 2)
        return;
    write_some(at, path, 0, any(2) ? "x" : "y");
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    utimensat(at, path, times, 0);
}

static inline void write_through_a_mapping(int at, const char *path)
{
    AUTO_FD int fd = openat(at, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);

    if (fd < 0 || ftruncate(fd, 100) != 0)
        return;
    char *bytes = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return;
    bytes[any(100)] = (char)any(200);
    munmap(bytes, 100);
}

static inline void set_attribute(int at, const char *path, const char *text)
{
    AUTO_FD int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd >= 0)
        (void)!fsetxattr(fd, "user.note", text, strlen(text), 0);
}

static inline void do_something(int at)
{
    char one[64], other[64], text[32];

    any_name(one);
    any_name(other);
    snprintf(text, sizeof text, "text %u", any(1000));
    switch (any(18)) {
    case 0: (void)!unlinkat(at, one, 0); break;
    case 1: (void)!renameat(at, one, at, other); break;
    case 2: (void)!renameat(at, any_folder(one), at, other); break;
    case 3: (void)!mkdirat(at, one, 0755); break;
    case 4: (void)!unlinkat(at, one, AT_REMOVEDIR); break;
    case 5: (void)!symlinkat(other, at, one); break;
    case 6: (void)!linkat(at, one, at, other, 0); break;
    case 7: (void)!fchmodat(at, one, 0600 + any(64), 0); break;
    case 8: write_some(at, one, O_APPEND, text); break;
    case 9: write_in_disguise(at, one); break;
    case 10: write_through_a_mapping(at, one); break;
    case 11: (void)!fchmodat(at, any_folder(one), 0700 + any(64), 0); break;
    case 12: (void)!mkdirat(at, any_folder(one), 0755); break;
    case 14: set_attribute(at, one, text); break;
    case 13: (void)!mknodat(at, one, S_IFIFO | 0600, 0); break;
    default: write_some(at, one, O_TRUNC, text); break;
    }
}
