/* Drives: what machines start from, as files <work dir>/drives/<digest>.ext4.
 *
 * The digest names the content, so a drive is made once on a host and shared by all machines: its
 * root by the chain of layers, its bundle, and an empty file system of each size that is copied
 * for what a machine writes. Nobody writes to one after it was published. They lie under the budget
 * of artifacts; one that is held stays. A bundle that is only being made, in a build, has no digest
 * yet: its drive is the machine's own.
 */
#pragma once

#include "engine/engine.h"

enum drive_kind { DRIVE_ROOT, DRIVE_BUNDLE, DRIVE_SCRATCH, DRIVE_KINDS };

/* Drives that are held: paths, and the locks on them. Zeroed: none. */
struct drives {
    struct drive {
        char *path; /* NULL: there is none */
        int lock;
        bool is_own; /* nobody else has it, and it goes with this */
    } held[DRIVE_KINDS];
};

/* Finds or makes what a machine of this kind needs, and holds it. Called by several threads and
 * processes at once for the same drive, one makes it and the others wait. */
bool drives_open(const char *work_dir, const struct sandbox_spec *spec, struct drives *drives,
                 struct error *err) MUST_USE;
void drives_finish(struct drives *drives);

/* As the engine wants them; the paths stay the drives'. */
struct sandbox_drives drives_paths(const struct drives *drives, const struct sandbox_spec *spec);
