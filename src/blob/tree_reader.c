#include "blob/tree_reader.h"

#include <string.h>

#include "base/encode.h"
#include "base/own.h"
#include "blob/bytes.h"

struct tree_pack {
    struct pack_reader reader;
    int fd;
    uint64_t size;
    bool is_open;
};

static bool damaged(struct error *err, const char *what)
{
    return error_set(err, ERR_DAMAGED, "a stored tree is damaged: %s", what);
}

/* Of the header that manifest_read will check. */
static bool note_key(struct tree_reader *reader, const struct seal_source *source,
                     struct error *err)
{
    uint8_t header[SEAL_HEADER_LEN];
    char current[SEAL_KEY_ID_TEXT] = "";
    struct seal_header said;

    if (source->size < sizeof header)
        return damaged(err, "its manifest ends early");
    if (!source->read(source->arg, 0, header, sizeof header, err) ||
        !seal_header_read(header, &said, err))
        return false;
    if (reader->keys->n > 0)
        seal_key_id_text(&reader->keys->keys[0], current);
    reader->has_key = strcmp(said.key_id, current) == 0;
    return true;
}

static bool read_manifest(struct tree_reader *reader, const char *digest, struct error *err)
{
    struct seal_source source;
    AUTO_FD int fd = -1;

    if (!reader->backend->open(reader->backend->arg, digest, &fd, err) ||
        !seal_source_fd(&fd, &source, err) || !note_key(reader, &source, err) ||
        !manifest_read(reader->keys, source, digest, &reader->arena, &reader->manifest, err))
        return false;
    const struct manifest *manifest = &reader->manifest;
    const struct manifest_fact *fact = manifest_fact_find(manifest, STR("tree_digest"));
    if (!str_equal(manifest->kind, STR(TREE_MANIFEST_KIND)) || !manifest->root.ptr || !fact ||
        !sha256_hex_is_valid(fact->value))
        return damaged(err, "its manifest is of no tree");
    memcpy(reader->tree_digest, fact->value.ptr, SHA256_HEX_LEN);
    return node_chunks_decode(manifest->root, &reader->arena, &reader->root, &reader->n_root, err);
}

bool tree_reader_init(struct tree_reader *reader, const struct object_backend *backend,
                      const struct seal_keys *keys, const char *manifest, struct error *err)
{
    *reader = (struct tree_reader){.backend = backend, .keys = keys};
    if (!read_manifest(reader, manifest, err))
        return false;
    size_t n = reader->manifest.n_packs;
    reader->packs = arena_array(&reader->arena, n + 1, sizeof *reader->packs);
    for (size_t i = 0; i < n; i++)
        reader->packs[i].fd = -1;
    /* A writer puts the pack of directories last, and those are asked for first. */
    reader->last = n > 0 ? n - 1 : 0;
    return true;
}

void tree_reader_finish(struct tree_reader *reader)
{
    for (size_t i = 0; reader->packs && i < reader->manifest.n_packs; i++) {
        pack_reader_finish(&reader->packs[i].reader);
        if (reader->packs[i].fd >= 0)
            close(reader->packs[i].fd);
    }
    arena_finish(&reader->arena);
    *reader = (struct tree_reader){0};
}

static bool open_pack(struct tree_reader *reader, size_t index, struct error *err)
{
    struct tree_pack *pack = &reader->packs[index];
    struct seal_source source;

    if (pack->is_open)
        return true;
    if (!reader->backend->open(reader->backend->arg, reader->manifest.packs[index], &pack->fd,
                               err) ||
        !seal_source_fd(&pack->fd, &source, err) ||
        !pack_reader_begin(&pack->reader, reader->keys, source, err))
        return false;
    pack->size = source.size;
    pack->is_open = true;
    return true;
}

bool tree_loose_next(struct str *rest, struct node_chunk *chunk, struct str *bytes)
{
    if (rest->len <= NODE_CHUNK_LEN)
        return false;
    memcpy(chunk->id, rest->ptr, CHUNK_ID_LEN);
    chunk->len = get_u32((const uint8_t *)rest->ptr + CHUNK_ID_LEN);
    if (chunk->len > rest->len - NODE_CHUNK_LEN)
        return false;
    *bytes = (struct str){rest->ptr + NODE_CHUNK_LEN, chunk->len};
    *rest = (struct str){bytes->ptr + chunk->len, rest->len - NODE_CHUNK_LEN - chunk->len};
    return true;
}

/* Those came with the manifest, which has been checked as a whole. */
static bool find_loose(const struct tree_reader *reader, const struct node_chunk *chunk,
                       struct str *bytes)
{
    struct str rest = reader->manifest.loose;

    for (struct node_chunk other; tree_loose_next(&rest, &other, bytes);)
        if (memcmp(other.id, chunk->id, CHUNK_ID_LEN) == 0)
            return true;
    return false;
}

bool tree_reader_locate(struct tree_reader *reader, const struct node_chunk *chunk, size_t *pack,
                        bool *found, struct error *err)
{
    struct str bytes;

    *pack = TREE_LOOSE;
    *found = find_loose(reader, chunk, &bytes);
    for (size_t i = 0, n = reader->manifest.n_packs; i < n && !*found; i++) {
        size_t at = (reader->last + i) % n;
        if (!open_pack(reader, at, err))
            return false;
        *found = pack_reader_has(&reader->packs[at].reader, chunk->id);
        *pack = at;
    }
    if (*found && *pack != TREE_LOOSE)
        reader->last = *pack;
    return true;
}

uint64_t tree_reader_pack_size(const struct tree_reader *reader, size_t pack)
{
    return reader->packs[pack].size;
}

bool tree_reader_chunk(struct tree_reader *reader, const struct node_chunk *chunk,
                       struct str *bytes, struct error *err)
{
    size_t pack;
    bool found;

    if (find_loose(reader, chunk, bytes))
        return bytes->len == chunk->len || damaged(err, "a chunk has another length");
    if (!tree_reader_locate(reader, chunk, &pack, &found, err))
        return false;
    if (!found)
        return damaged(err, "a chunk is nowhere");
    return pack_reader_chunk(&reader->packs[pack].reader, chunk->id, bytes, err) &&
           (bytes->len == chunk->len || damaged(err, "a chunk has another length"));
}

static bool read_chunks(struct tree_reader *reader, const struct node_chunk *chunks, size_t n,
                        struct buf *out, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct str bytes = {0};
        if (!tree_reader_chunk(reader, &chunks[i], &bytes, err) || !buf_append(out, bytes, err))
            return false;
    }
    return true;
}

bool tree_reader_node(struct tree_reader *reader, const struct node_chunk *chunks, size_t n,
                      struct arena *arena, struct node *node, struct error *err)
{
    AUTO(buf_finish) struct buf bytes = {.max = NODE_BYTES_MAX};

    return read_chunks(reader, chunks, n, &bytes, err) &&
           node_decode(arena_str(arena, buf_str(&bytes)), arena, node, err);
}

bool tree_reader_file(struct tree_reader *reader, const struct node_entry *entry, struct buf *out,
                      struct error *err)
{
    return read_chunks(reader, entry->chunks, entry->n_chunks, out, err);
}
