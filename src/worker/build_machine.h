/* A program of a build in a machine, which shares no folder with the host: what the program is to
 * find is sent in before it starts, and what it wrote comes out after its end.
 *
 * Folders of the project are below /build. The folder of a cache is the machine's own and goes
 * with it: a build in a machine has no caches from the last one.
 */
#pragma once

#include "worker/build.h"

struct build_machine {
    const struct build_program *job;
    struct failure *failure;
};

/* Where the folders of the project are; NULL: it has none. */
const char *build_machine_mount(const struct build_machine *machine);

/* Between set-up and launch. */
bool build_machine_bring(const struct build_machine *machine, struct guest *guest,
                         struct error *err) MUST_USE;

/* After the program's end: into the job's writable folders and its upper, if it ended well. */
bool build_machine_fetch(const struct build_machine *machine, struct guest *guest,
                         const struct guest_result *result, struct error *err) MUST_USE;
