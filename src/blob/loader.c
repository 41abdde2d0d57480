#include "blob/loader.h"

#include "base/own.h"
#include "blob/pack.h"

/* Each holds an index and a record, some MiB. */
enum { OPEN_PACKS = 16 };

struct open_pack {
    uint32_t number;
    uint64_t used; /* the loader's clock when it was asked last; 0: free */
    int fd;
    struct pack_reader reader;
};

struct loader {
    const struct object_backend *backend;
    const struct seal_keys *keys;
    struct arena arena;
    struct manifest manifest;
    struct open_pack packs[OPEN_PACKS];
    uint64_t clock;
    char *zeros;
    loader_find *find; /* or NULL */
    void *find_arg;
};

bool loader_create(const struct object_backend *backend, const struct seal_keys *keys,
                   const char *digest, struct loader **loader, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest manifest;
    struct seal_source source;
    int fd = -1;

    if (!backend->open(backend->arg, digest, &fd, err))
        return error_wrap(err, "opening the manifest %s", digest);
    AUTO_FD int opened = fd;
    if (!seal_source_fd(&opened, &source, err) ||
        !manifest_read(keys, source, digest, &arena, &manifest, err))
        return false;

    struct loader *made = alloc(sizeof *made);
    *made = (struct loader){.backend = backend, .keys = keys, .arena = arena, .manifest = manifest};
    arena = (struct arena){0};
    *loader = made;
    return true;
}

static void close_pack(struct open_pack *pack)
{
    if (pack->used == 0)
        return;
    pack_reader_finish(&pack->reader);
    close(pack->fd);
    *pack = (struct open_pack){0};
}

void loader_destroy(struct loader *loader)
{
    if (!loader)
        return;
    for (size_t i = 0; i < OPEN_PACKS; i++)
        close_pack(&loader->packs[i]);
    free(loader->zeros);
    arena_finish(&loader->arena);
    free(loader);
}

void loader_use(struct loader *loader, loader_find *find, void *arg)
{
    loader->find = find;
    loader->find_arg = arg;
}

const struct manifest *loader_manifest(const struct loader *loader)
{
    return &loader->manifest;
}

static bool open_into(struct loader *loader, struct open_pack *pack, uint32_t number,
                      struct error *err)
{
    const char *digest = loader->manifest.packs[number];
    struct seal_source source;

    if (!loader->backend->open(loader->backend->arg, digest, &pack->fd, err))
        return error_wrap(err, "opening the pack %s", digest);
    pack->number = number;
    pack->used = ++loader->clock;
    if (seal_source_fd(&pack->fd, &source, err) &&
        pack_reader_begin(&pack->reader, loader->keys, source, err))
        return true;
    close_pack(pack);
    return error_wrap(err, "reading the pack %s", digest);
}

/* The one at hand, or else it takes the place that was not used for longest. */
static struct pack_reader *reader_of(struct loader *loader, uint32_t number, struct error *err)
{
    struct open_pack *oldest = &loader->packs[0];

    for (size_t i = 0; i < OPEN_PACKS; i++) {
        struct open_pack *pack = &loader->packs[i];
        if (pack->used > 0 && pack->number == number) {
            pack->used = ++loader->clock;
            return &pack->reader;
        }
        if (pack->used < oldest->used)
            oldest = pack;
    }
    close_pack(oldest);
    return open_into(loader, oldest, number, err) ? &oldest->reader : NULL;
}

static bool find_bytes(struct loader *loader, const struct manifest_chunk *chunk, struct str *bytes,
                       struct error *err)
{
    if (chunk->pack == MANIFEST_ZERO) {
        if (!loader->zeros)
            loader->zeros = memset(alloc(CHUNK_MAX), 0, CHUNK_MAX);
        *bytes = (struct str){loader->zeros, chunk->len};
        return true;
    }
    if (loader->find && loader->find(loader->find_arg, chunk->id, chunk->len, bytes))
        return true;
    struct pack_reader *reader = reader_of(loader, chunk->pack, err);
    if (!reader || !pack_reader_chunk(reader, chunk->id, bytes, err))
        return false;
    return bytes->len == chunk->len ||
           error_set(err, ERR_DAMAGED, "a chunk is not as long as its manifest says");
}

bool loader_stream(struct loader *loader, const char *name, struct seal_sink sink,
                   struct error *err)
{
    const struct manifest_stream *stream = manifest_stream_find(&loader->manifest, str_of(name));

    if (!stream)
        return error_set(err, ERR_NOT_FOUND, "there is no stream %s", name);
    for (size_t i = 0; i < stream->n_chunks; i++) {
        struct str bytes;
        if (!find_bytes(loader, &stream->chunks[i], &bytes, err) ||
            !sink.write(sink.arg, bytes, err))
            return error_wrap(err, "loading %s", name);
    }
    return true;
}
