#include "worker/place.h"

#include "base/log.h"
#include "base/own.h"
#include "base/time.h"
#include "blob/tree_stream.h"
#include "worker/object_link.h"
#include "worker/worker.h"

static bool give(void *arg, struct buf *piece, bool *is_last, struct error *err)
{
    struct tree_stream *stream = arg;

    if (!tree_stream_step(stream, piece, err))
        return false;
    *is_last = stream->is_done;
    return true;
}

bool place_version(struct guest *guest, struct lease *lease, struct line *line,
                   const char *manifest, int64_t until_ms, struct error *err)
{
    AUTO(key_ring_finish) struct key_ring ring = {0};
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    AUTO(tree_stream_finish) struct tree_stream stream = {0};
    int64_t began = time_boot_ms();
    struct object_link link = {line, lease, until_ms};
    const struct object_backend behind = object_backend_of_link(&link);
    struct cached_backend cached = {.cache = lease->worker->packs, .behind = &behind};
    const struct object_backend backend = object_backend_of_cache(&cached);

    if (!link_store_keys(line->link, &ring, err) ||
        !tree_reader_init(&reader, &backend, &ring.keys, manifest, err))
        return false;
    tree_stream_init(&stream, &reader);
    /* What is remembered under the name of its manifest is that version. */
    if (!guest_place(guest, manifest, give, &stream, TREE_STREAM_PIECE, until_ms, err))
        return false;
    guest_set_base(guest, manifest, manifest);
    log_debug("workspace placed", LOG_STR("lease", lease->id),
              LOG_INT("ms", time_boot_ms() - began), LOG_INT("fetched", (int64_t)cached.n_fetched));
    return true;
}
