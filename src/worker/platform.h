/* The platform's own files for guests: the agent, the adapter and the SDK.
 *
 * They travel inside the binary as one archive and are laid out once below the images
 * directory, under the archive's digest, so that running sandboxes keep the files they
 * started with when the binary is replaced.
 */
#pragma once

#include "base/error.h"

struct platform {
    char root[4200]; /* <images dir>/platform-<digest> */
    char digest[65];
};

/* ERR_UNSUPPORTED when this binary was built without them. */
bool platform_prepare(const char *images_dir, struct platform *platform,
                      struct error *err) MUST_USE;
