#include "guest/drives.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/file.h"
#include "base/own.h"

enum { DISKS_MAX = 64, SERIAL_MAX = 64, BLOCK_PATH_MAX = 512, APPEAR_TRIES = 2000, APPEAR_MS = 5 };

struct disks {
    char names[DISKS_MAX][DRIVE_DEVICE_MAX];
    size_t n;
};

static int by_name(const void *left, const void *right)
{
    size_t left_len = strlen(left), right_len = strlen(right);

    /* vdz comes before vdaa. */
    if (left_len != right_len)
        return left_len < right_len ? -1 : 1;
    return strcmp(left, right);
}

static bool list_disks(const char *block, struct disks *disks, struct error *err)
{
    DIR *folder = opendir(block);

    disks->n = 0;
    if (!folder)
        return error_errno(err, "open %s", block);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        size_t len = strlen(entry->d_name);
        if (strncmp(entry->d_name, "vd", 2) != 0 || len >= DRIVE_DEVICE_MAX ||
            disks->n == DISKS_MAX)
            continue;
        memcpy(disks->names[disks->n++], entry->d_name, len + 1);
    }
    closedir(folder);
    qsort(disks->names, disks->n, sizeof disks->names[0], by_name);
    return true;
}

/* A machine without serials has an empty file, or none. */
static void read_serial(const char *block, const char *disk, char serial[SERIAL_MAX])
{
    char path[BLOCK_PATH_MAX];
    AUTO_FREE char *text = NULL;
    struct error ignored;

    serial[0] = '\0';
    snprintf(path, sizeof path, "%s/%s/serial", block, disk);
    if (!file_read(path, SERIAL_MAX - 1, &text, &ignored))
        return;
    text[strcspn(text, "\n")] = '\0';
    snprintf(serial, SERIAL_MAX, "%s", text);
}

static bool find_by_serial(const char *block, const struct disks *disks, const char *name,
                           size_t *found, bool *has_serials)
{
    char wanted[SERIAL_MAX], serial[SERIAL_MAX];

    *has_serials = false;
    snprintf(wanted, sizeof wanted, "helmr-%s", name);
    for (size_t i = 0; i < disks->n; i++) {
        read_serial(block, disks->names[i], serial);
        *has_serials |= serial[0] != '\0';
        if (strcmp(serial, wanted) == 0) {
            *found = i;
            return true;
        }
    }
    return false;
}

static bool find_by_order(const struct disks *disks, const struct kernel_line *line,
                          const char *name, size_t *found)
{
    for (size_t i = 0; i < line->n_drives && i < disks->n; i++) {
        if (str_equal(line->drives[i], str_of(name))) {
            *found = i;
            return true;
        }
    }
    return false;
}

bool drive_find(const char *block, const struct kernel_line *line, const char *name,
                char device[DRIVE_DEVICE_MAX], struct error *err)
{
    static struct disks disks;
    size_t found;
    bool has_serials;

    if (!list_disks(block, &disks, err))
        return false;
    if (!find_by_serial(block, &disks, name, &found, &has_serials) &&
        (has_serials || !find_by_order(&disks, line, name, &found)))
        return error_set(err, ERR_NOT_FOUND, "there is no disk helmr-%s", name);
    snprintf(device, DRIVE_DEVICE_MAX, "%s", disks.names[found]);
    return true;
}

/* Background work of the file system would wake an idle guest. */
static const struct {
    const char *name, *target;
    unsigned long flags;
    const char *options;
} places[] = {
    {"root",    "/image",   MS_RDONLY | MS_NODEV | MS_NOATIME,             "noload"               },
    {"scratch", "/scratch", MS_NODEV | MS_NOATIME,                         "discard,noinit_itable"},
    {"bundle",  "/bundle",  MS_RDONLY | MS_NODEV | MS_NOSUID | MS_NOATIME, "noload"               },
};

static bool is_named(const struct kernel_line *line, const char *name)
{
    for (size_t i = 0; i < line->n_drives; i++) {
        if (str_equal(line->drives[i], str_of(name)))
            return true;
    }
    return false;
}

/* Devices come to be beside us; only one that was announced is waited for. */
static bool await(const struct kernel_line *line, const char *name, char device[DRIVE_DEVICE_MAX],
                  struct error *err)
{
    for (int i = 0; i < APPEAR_TRIES; i++) {
        if (drive_find("/sys/block", line, name, device, err))
            return true;
        if (!is_named(line, name) || err->code != ERR_NOT_FOUND)
            return false;
        poll(NULL, 0, APPEAR_MS);
    }
    return false;
}

bool drives_mount(const struct kernel_line *line, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        char device[DRIVE_DEVICE_MAX], path[BLOCK_PATH_MAX];
        if (!await(line, places[i].name, device, err)) {
            if (err->code == ERR_NOT_FOUND && !is_named(line, places[i].name))
                continue;
            return false;
        }
        snprintf(path, sizeof path, "/dev/%s", device);
        if (mount(path, places[i].target, "ext4", places[i].flags, places[i].options) != 0)
            return error_errno(err, "mounting the disk helmr-%s", places[i].name);
    }
    return true;
}
