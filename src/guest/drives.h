/* The disks of a guest with its own kernel, by name: root, scratch, bundle.
 *
 * A disk is found by its serial, `helmr-<name>`, and where the machine gives none by its place in
 * the order that the command line names. Letters of devices mean nothing.
 */
#pragma once

#include "base/error.h"
#include "guest/kernel.h"

enum { DRIVE_DEVICE_MAX = 32 };

/* Looks in a folder like /sys/block. ERR_NOT_FOUND when there is no such disk. */
bool drive_find(const char *block, const struct kernel_line *line, const char *name,
                char device[DRIVE_DEVICE_MAX], struct error *err) MUST_USE;

/* Mounts every disk that is there at its place; waits for those the command line names. */
bool drives_mount(const struct kernel_line *line, struct error *err) MUST_USE;
