#include "worker/template_chunks.h"

#include "base/own.h"
#include "blob/chunk_table.h"
#include "engine/saved_view.h"

struct template_chunks {
    struct saved_view *view;
    struct chunk_table table; /* for a pack: the number of the chunk */
    uint64_t *offsets;        /* of each chunk in the stream */
};

static void place(struct template_chunks *chunks, const struct manifest_stream *stream)
{
    uint64_t at = 0;

    chunks->offsets = alloc((stream->n_chunks + 1) * sizeof *chunks->offsets);
    for (size_t i = 0; i < stream->n_chunks; i++) {
        const struct manifest_chunk *chunk = &stream->chunks[i];

        chunks->offsets[i] = at;
        at += chunk->len;
        if (chunk->pack != MANIFEST_ZERO)
            chunk_table_add(&chunks->table, chunk->id, (uint32_t)i, chunk->len);
    }
}

bool template_chunks_make(const struct saved_image *image, const struct manifest *manifest,
                          const char *stream, struct template_chunks **chunks, struct error *err)
{
    const struct manifest_stream *found = manifest_stream_find(manifest, str_of(stream));
    struct saved_view *view;

    if (!found)
        return error_set(err, ERR_NOT_FOUND, "there is no stream %s", stream);
    if (!saved_view_open(image, &view, err))
        return false;
    struct template_chunks *made = alloc(sizeof *made);
    *made = (struct template_chunks){.view = view};
    place(made, found);
    *chunks = made;
    return true;
}

void template_chunks_destroy(struct template_chunks *chunks)
{
    if (!chunks)
        return;
    saved_view_close(chunks->view);
    chunk_table_finish(&chunks->table);
    free(chunks->offsets);
    free(chunks);
}

bool chunk_finder_find(void *arg, const uint8_t id[CHUNK_ID_LEN], size_t len, struct str *bytes)
{
    struct chunk_finder *finder = arg;
    const struct template_chunks *chunks = finder->chunks;
    const struct chunk_entry *entry = chunk_table_find(&chunks->table, id);

    return entry && entry->len == len && len <= sizeof finder->room &&
           saved_view_find(chunks->view, chunks->offsets[entry->pack], len, finder->room, bytes);
}
