/* A stored tree as the stream it came as (protocol/tree.h), piece by piece: the way back of
 * tree_writer.
 */
#pragma once

#include "base/map.h"
#include "blob/tree_reader.h"

struct tree_stream_folder;

struct tree_stream {
    struct tree_reader *reader; /* borrowed */
    struct tree_stream_folder *folder;
    struct buf path;
    const struct node_chunk *chunks; /* of the file whose contents are on their way */
    size_t n_chunks;
    struct map groups; /* of a group in the tree its number in the stream */
    uint64_t n_groups;
    bool has_begun, is_done;
};

void tree_stream_init(struct tree_stream *stream, struct tree_reader *reader);
void tree_stream_finish(struct tree_stream *stream);

enum { TREE_STREAM_PIECE = CHUNK_MAX + 2 * TREE_XATTRS_MAX };

/* Appends an entry or a chunk of contents to `out`, at most TREE_STREAM_PIECE bytes; nothing more
 * to come: is_done. */
bool tree_stream_step(struct tree_stream *stream, struct buf *out, struct error *err) MUST_USE;
