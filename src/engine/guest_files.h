/* What microVMs boot: a kernel and an initramfs, with the agent in it, in one folder.
 *
 * Beside them lies artefacts.json, which names the SHA-256 of each. Nothing is booted that is not
 * what it says; the digests are the guest's identity in checkpoints and templates. A process has
 * one kernel: files that are replaced while it runs are refused (ERR_CONFLICT).
 */
#pragma once

#include <limits.h>

#include "base/error.h"
#include "base/sha256.h"

struct guest_files {
    char folder[PATH_MAX];
    char kernel[PATH_MAX], initrd[PATH_MAX];
    char kernel_digest[SHA256_HEX], initrd_digest[SHA256_HEX];
};

/* In the folder that was set, or (NULL) where they are installed or built with this program.
 * ERR_NOT_FOUND: there are none. */
bool guest_files_find(const char *folder, struct guest_files *files, struct error *err) MUST_USE;

/* The same kernel unpacked, as Firecracker wants it, of a folder that was found. */
bool guest_files_unpacked(const struct guest_files *files, char path[PATH_MAX],
                          struct error *err) MUST_USE;
