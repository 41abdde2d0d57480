/* Sealing anew: blobs that lie plain, from before, or under a former master key are sealed under
 * the current one, one after the other, beside everything else.
 *
 * A blob is replaced only by one that hashes to its name. Packs and manifests stay under their
 * keys: their ids and the hashes inside hang on them.
 */
#pragma once

#include "server/context.h"

/* Called with the plain bytes of each piece; takes its time, and says whether to go on. */
struct reseal_pace {
    bool (*go_on)(void *arg, size_t n_bytes);
    void *arg;
};

/* Everything that needs it. True when it was all done; a blob that cannot be read is noted and left
 * out. pace NULL: as fast as it goes. */
bool reseal_all(struct server *server, const struct reseal_pace *pace);
