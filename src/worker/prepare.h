/* What a sandbox needs before it can be started: the image's layers, the bundle of its deployment,
 * drives where the engine wants them. Shared by runs and mounts.
 */
#pragma once

#include "image/image.h"
#include "worker/guest.h"
#include "worker/link.h"

/* The sandbox a lease asks for. */
struct sandbox_wish {
    const char *kind; /* run, mount */
    struct str project;
    const struct wire_sandbox *sandbox;
    const struct wire_deployment *deployment;
};

/* Everything of the spec that needs no files. */
void prepare_spec(struct lease *lease, const struct sandbox_wish *wish, struct arena *arena,
                  struct sandbox_spec *spec);

/* Fetches and unpacks what is not here yet, and completes the spec. */
bool prepare_files(struct lease *lease, struct line *line, const struct sandbox_wish *wish,
                   struct arena *arena, struct sandbox_spec *spec, struct image *image,
                   struct failure *failure, struct error *err) MUST_USE;
