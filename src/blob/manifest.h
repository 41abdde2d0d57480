/* Manifests: what a saved thing consists of. Named streams as lists of chunks, the packs those are
 * in, the manifest it grew from, and facts about it as texts.
 *
 * A manifest is a sealed object, known by the SHA-256 of its sealed bytes; who reads one says
 * which, so that another cannot take its place. What was decoded points only into the arena and
 * names only packs it lists.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "blob/chunk.h"
#include "blob/seal_reader.h"
#include "blob/seal_writer.h"

enum {
    MANIFEST_PACKS_MAX = 4096,
    MANIFEST_STREAMS_MAX = 65536,
    MANIFEST_FACTS_MAX = 256,
    MANIFEST_FACT_MAX = 65536, /* bytes of name and value */
    MANIFEST_NAME_MAX = 4096,
    MANIFEST_BYTES_MAX = 64 << 20,
    MANIFEST_ROOT_MAX = 1 << 20,
    MANIFEST_LOOSE_MAX = 256 << 10,
};

/* The pack of a chunk that is all zeros and therefore stored nowhere. */
#define MANIFEST_ZERO UINT32_MAX

struct manifest_chunk {
    uint8_t id[CHUNK_ID_LEN];
    uint32_t pack, len;
};

struct manifest_stream {
    struct str name;
    uint64_t len;
    uint8_t digest[32]; /* of the list of chunks: equal for equal bytes, cut alike, of one key */
    const struct manifest_chunk *chunks;
    size_t n_chunks;
};

struct manifest_fact {
    struct str name, value;
};

struct manifest {
    struct str kind;
    char parent[SHA256_HEX]; /* empty: none */
    const char (*packs)[SHA256_HEX];
    size_t n_packs;
    const struct manifest_stream *streams;
    size_t n_streams;
    const struct manifest_fact *facts;
    size_t n_facts;

    /* Of a tree, as blob/tree_writer.c writes them: where its root is, and small chunks that are in
     * no pack. */
    struct str root, loose;
};

/* The digests of the streams are made here. */
bool manifest_encode(const struct manifest *manifest, struct buf *out, struct error *err) MUST_USE;
/* ERR_DAMAGED for whatever manifest_encode does not write. */
bool manifest_decode(struct str bytes, struct arena *arena, struct manifest *manifest,
                     struct error *err) MUST_USE;

/* As a sealed object. facts->digest is what it is to be read by. */
bool manifest_write(const struct manifest *manifest, struct seal_writer *writer,
                    const struct seal_keys *keys, struct seal_sink sink, struct seal_facts *facts,
                    struct error *err) MUST_USE;
/* ERR_DAMAGED when the source is not the object of that digest. */
bool manifest_read(const struct seal_keys *keys, struct seal_source source, const char *digest,
                   struct arena *arena, struct manifest *manifest, struct error *err) MUST_USE;

/* NULL when there is none. */
const struct manifest_stream *manifest_stream_find(const struct manifest *manifest,
                                                   struct str name);
const struct manifest_fact *manifest_fact_find(const struct manifest *manifest, struct str name);
