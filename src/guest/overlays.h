/* Workspaces over one image, in mounts of the test's own: for tests of what is captured there. */
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "guest/random_files.h"

enum { OVERLAYS_MAX = 2 };

struct overlays {
    char path[64]; /* in memory; all of it goes with the mount */
    int lower;     /* the image */
    int upper[OVERLAYS_MAX], merged[OVERLAYS_MAX];
    size_t n;
    size_t n_made; /* of all times */
};

static inline int overlays_open(const struct overlays *overlays, const char *name, size_t number)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s%zu", overlays->path, name, number);
    (void)!mkdir(path, 0755);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline bool overlays_add(struct overlays *overlays)
{
    size_t at = overlays->n, number = overlays->n_made++;
    char options[512], target[128];

    overlays->upper[at] = overlays_open(overlays, "upper", number);
    close(overlays_open(overlays, "work", number));
    close(overlays_open(overlays, "merged", number));
    snprintf(options, sizeof options, "lowerdir=%s/lower0,upperdir=%s/upper%zu,workdir=%s/work%zu",
             overlays->path, overlays->path, number, overlays->path, number);
    snprintf(target, sizeof target, "%s/merged%zu", overlays->path, number);
    if (mount("overlay", target, "overlay", 0, options) != 0)
        return false;
    overlays->merged[at] = overlays_open(overlays, "merged", number);
    overlays->n++;
    return overlays->upper[at] >= 0 && overlays->merged[at] >= 0;
}

/* The last one is as new, and empty but for the image. */
static inline bool overlays_renew(struct overlays *overlays)
{
    char target[128];
    size_t last = --overlays->n;

    close(overlays->upper[last]);
    close(overlays->merged[last]);
    snprintf(target, sizeof target, "%s/merged%zu", overlays->path, overlays->n_made - 1);
    return umount2(target, MNT_DETACH) == 0 && overlays_add(overlays);
}

/* False where the test may not mount. The image is filled at random. */
static inline bool overlays_make(struct overlays *overlays, size_t n)
{
    *overlays = (struct overlays){.path = "/tmp/helmr-overlays-XXXXXX", .lower = -1};
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        !mkdtemp(overlays->path) || mount("tmpfs", overlays->path, "tmpfs", 0, NULL) != 0)
        return false;
    overlays->lower = overlays_open(overlays, "lower", 0);
    for (int i = 0; i < 60; i++)
        do_something(overlays->lower);
    while (overlays->n < n)
        if (!overlays_add(overlays))
            return false;
    return true;
}

static inline void overlays_finish(struct overlays *overlays)
{
    for (size_t i = 0; i < overlays->n; i++) {
        close(overlays->upper[i]);
        close(overlays->merged[i]);
    }
    if (overlays->lower > 0)
        close(overlays->lower);
    (void)!umount2(overlays->path, MNT_DETACH);
    (void)!rmdir(overlays->path);
}
