#include "blob/saver.h"

#include <errno.h>

#include "base/own.h"
#include "base/secret.h"
#include "blob/chunk_table.h"
#include "blob/pack.h"

enum {
    BUFFER = (1 << 20) + CHUNK_MAX,
    CUT_AT_ONCE = 64,    /* chunks whose ids are made together */
    FOLD_PACKS = 64,     /* from as many packs on, small ones are given up */
    FOLD_SMALL = 4 << 20 /* raw bytes of a pack that the parent still uses */
};

struct stream {
    struct manifest_stream listed;
    struct manifest_chunk *chunks; /* owned */
    size_t cap;
};

struct saver {
    struct saver_plan plan;
    struct arena arena; /* names and facts */
    struct chunk_key key;
    struct chunker chunker;
    struct chunk_table known;
    struct seal_writer seal;
    struct pack_writer pack;
    int draft; /* of the open pack, or -1 */
    uint8_t *buffer;
    struct manifest_fact *facts;
    struct stream *streams;
    char (*packs)[SHA256_HEX]; /* the parent's, then the new ones */
    size_t n_facts, n_streams, n_packs, n_parent_packs;
    struct saved result;
};

static bool read_fd(void *arg, void *bytes, size_t room, size_t *got, struct error *err)
{
    for (;;) {
        ssize_t n = read(*(const int *)arg, bytes, room);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read a stream");
        *got = (size_t)n;
        return true;
    }
}

struct saver_source saver_source_fd(const int *fd)
{
    return (struct saver_source){read_fd, (void *)fd};
}

static bool read_memory(void *arg, void *bytes, size_t room, size_t *got, struct error *err UNUSED)
{
    struct str *rest = arg;
    size_t len = rest->len < room ? rest->len : room;

    if (len > 0)
        memcpy(bytes, rest->ptr, len);
    *rest = (struct str){rest->ptr + len, rest->len - len};
    *got = len;
    return true;
}

struct saver_source saver_source_memory(struct str *rest)
{
    return (struct saver_source){read_memory, rest};
}

/* The list of packs would grow with every generation: from some length on, chunks in packs of
 * which little is left count as unknown and go into a new pack. */
static bool is_given_up(const struct manifest *parent, const uint64_t *live, uint32_t pack)
{
    return parent->n_packs >= FOLD_PACKS && live[pack] < FOLD_SMALL;
}

static void know_parent(struct saver *saver, const struct manifest *parent)
{
    AUTO_FREE uint64_t *live = alloc((parent->n_packs + 1) * sizeof *live);

    memset(live, 0, (parent->n_packs + 1) * sizeof *live);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t s = 0; s < parent->n_streams; s++) {
            const struct manifest_stream *stream = &parent->streams[s];
            for (size_t i = 0; i < stream->n_chunks; i++) {
                const struct manifest_chunk *chunk = &stream->chunks[i];
                if (chunk->pack == MANIFEST_ZERO)
                    continue;
                if (pass == 0)
                    live[chunk->pack] += chunk->len;
                else if (!is_given_up(parent, live, chunk->pack))
                    chunk_table_add(&saver->known, chunk->id, chunk->pack, chunk->len);
            }
        }
    }
    memcpy(saver->packs, parent->packs, parent->n_packs * SHA256_HEX);
    saver->n_packs = saver->n_parent_packs = parent->n_packs;
}

void saver_create(const struct saver_plan *plan, struct saver **saver)
{
    struct saver *made = alloc(sizeof *made);

    *made = (struct saver){.plan = *plan, .draft = -1};
    if (made->plan.sizes.max == 0)
        made->plan.sizes = chunk_sizes_file;
    made->buffer = alloc(BUFFER);
    made->facts = alloc(MANIFEST_FACTS_MAX * sizeof *made->facts);
    made->packs = alloc((size_t)MANIFEST_PACKS_MAX * SHA256_HEX);
    if (plan->keys->n > 0) {
        chunk_key_init(&made->key, &plan->keys->keys[0]);
        chunker_init(&made->chunker, &made->key, made->plan.sizes);
    }
    if (plan->parent)
        know_parent(made, plan->parent);
    *saver = made;
}

static void free_streams(struct saver *saver)
{
    for (size_t i = 0; i < saver->n_streams; i++)
        free(saver->streams[i].chunks);
    free(saver->streams);
}

void saver_destroy(struct saver *saver)
{
    if (!saver)
        return;
    pack_writer_finish(&saver->pack);
    auto_close(&saver->draft);
    seal_writer_finish(&saver->seal);
    chunk_table_finish(&saver->known);
    chunk_key_finish(&saver->key);
    bytes_wipe(&saver->chunker, sizeof saver->chunker);
    bytes_wipe(saver->buffer, BUFFER);
    free(saver->buffer);
    free(saver->facts);
    free(saver->packs);
    free_streams(saver);
    arena_finish(&saver->arena);
    free(saver);
}

static bool put(struct saver *saver, const struct seal_facts *facts, struct error *err)
{
    const struct object_backend *backend = saver->plan.backend;

    if (!backend->put(backend->arg, facts, saver->draft, err))
        return error_wrap(err, "storing an object");
    close(take_fd(&saver->draft));
    saver->result.stored += facts->size;
    return true;
}

static bool end_pack(struct saver *saver, struct error *err)
{
    struct seal_facts facts;

    if (saver->draft < 0)
        return true;
    if (!pack_writer_end(&saver->pack, &facts, err) || !put(saver, &facts, err))
        return false;
    memcpy(saver->packs[saver->n_packs++], facts.digest, SHA256_HEX);
    return true;
}

static bool begin_pack(struct saver *saver, struct error *err)
{
    struct seal_plan plan = {saver->plan.keys, SEAL_PACK, .level = saver->plan.level};

    if (saver->draft >= 0)
        return true;
    if (saver->n_packs == MANIFEST_PACKS_MAX)
        return error_set(err, ERR_TOO_LARGE, "this would need over %d packs", MANIFEST_PACKS_MAX);
    return object_draft(saver->plan.backend, &saver->draft, err) &&
           pack_writer_begin(&saver->pack, &saver->seal, &plan, seal_sink_fd(&saver->draft), err);
}

static struct manifest_chunk *list_chunk(struct stream *stream, size_t len)
{
    if (stream->listed.n_chunks == stream->cap) {
        stream->cap = stream->cap ? stream->cap * 2 : 16;
        stream->chunks = alloc_more(stream->chunks, stream->cap * sizeof *stream->chunks);
    }
    struct manifest_chunk *chunk = &stream->chunks[stream->listed.n_chunks++];
    *chunk = (struct manifest_chunk){.pack = MANIFEST_ZERO, .len = (uint32_t)len};
    stream->listed.len += len;
    return chunk;
}

static bool save_chunk(struct saver *saver, struct stream *stream, struct str bytes,
                       const uint8_t id[CHUNK_ID_LEN], struct error *err)
{
    struct manifest_chunk *chunk = list_chunk(stream, bytes.len);

    if (chunk_is_zero(bytes))
        return true;
    memcpy(chunk->id, id, CHUNK_ID_LEN);
    const struct chunk_entry *known = chunk_table_find(&saver->known, id);
    if (known) {
        chunk->pack = known->pack;
        return true;
    }
    if (!begin_pack(saver, err) || !pack_writer_add(&saver->pack, id, bytes, err))
        return false;
    chunk->pack = (uint32_t)saver->n_packs;
    chunk_table_add(&saver->known, id, chunk->pack, chunk->len);
    saver->result.raw_new += bytes.len;
    return !pack_writer_is_full(&saver->pack) || end_pack(saver, err);
}

/* Cuts what is in the buffer while a cut cannot depend on what follows; at most `max` chunks. */
static size_t cut_buffer(const struct saver *saver, size_t *at, size_t len, bool is_end,
                         struct str *chunks, size_t max)
{
    size_t n = 0, enough = is_end ? 1 : saver->plan.sizes.max;

    while (n < max && len - *at >= enough) {
        struct str rest = {(const char *)saver->buffer + *at, len - *at};
        rest.len = chunker_cut(&saver->chunker, rest);
        *at += rest.len;
        chunks[n++] = rest;
    }
    return n;
}

static bool save_buffer(struct saver *saver, struct stream *stream, size_t *len, bool is_end,
                        struct error *err)
{
    struct str chunks[CUT_AT_ONCE];
    uint8_t ids[CUT_AT_ONCE][CHUNK_ID_LEN];
    size_t at = 0, n;

    while ((n = cut_buffer(saver, &at, *len, is_end, chunks, CUT_AT_ONCE)) > 0) {
        chunk_ids(&saver->key, chunks, n, ids);
        for (size_t i = 0; i < n; i++) {
            if (!save_chunk(saver, stream, chunks[i], ids[i], err))
                return false;
        }
    }
    memmove(saver->buffer, saver->buffer + at, *len - at);
    *len -= at;
    return true;
}

static struct stream *add_stream(struct saver *saver, const char *name)
{
    saver->streams = alloc_more(saver->streams, (saver->n_streams + 1) * sizeof *saver->streams);
    struct stream *stream = &saver->streams[saver->n_streams++];
    *stream = (struct stream){.listed.name = arena_str(&saver->arena, str_of(name))};
    return stream;
}

bool saver_stream(struct saver *saver, const char *name, struct saver_source source,
                  struct error *err)
{
    size_t len = 0, got = 1;

    if (saver->plan.keys->n == 0)
        return error_set(err, ERR_KEY_MISSING, "there is no key to seal with");
    if (saver->n_streams == MANIFEST_STREAMS_MAX)
        return error_set(err, ERR_TOO_LARGE, "a manifest has at most %d streams",
                         MANIFEST_STREAMS_MAX);
    struct stream *stream = add_stream(saver, name);
    while (got > 0) {
        if (!source.read(source.arg, saver->buffer + len, BUFFER - len, &got, err))
            return error_wrap(err, "saving %s", name);
        len += got;
        if ((len == BUFFER || got == 0) && !save_buffer(saver, stream, &len, got == 0, err)) {
            (void)blob_explain(err);
            return error_wrap(err, "saving %s", name);
        }
    }
    saver->result.raw += stream->listed.len;
    return true;
}

bool saver_fact(struct saver *saver, const char *name, struct str value, struct error *err)
{
    if (saver->n_facts == MANIFEST_FACTS_MAX)
        return error_set(err, ERR_TOO_LARGE, "a manifest has at most %d facts", MANIFEST_FACTS_MAX);
    saver->facts[saver->n_facts++] = (struct manifest_fact){arena_str(&saver->arena, str_of(name)),
                                                            arena_str(&saver->arena, value)};
    return true;
}

/* Packs of the parent that no chunk is in any more are not listed. */
static void drop_unused(struct saver *saver)
{
    uint32_t *place = arena_array(&saver->arena, saver->n_packs + 1, sizeof *place);
    uint32_t n = 0;

    for (size_t s = 0; s < saver->n_streams; s++) {
        for (size_t i = 0; i < saver->streams[s].listed.n_chunks; i++) {
            uint32_t pack = saver->streams[s].chunks[i].pack;
            if (pack != MANIFEST_ZERO)
                place[pack] = 1;
        }
    }
    saver->result.n_new_packs = saver->n_packs - saver->n_parent_packs;
    for (size_t i = 0; i < saver->n_packs; i++) {
        if (!place[i])
            continue;
        memmove(saver->packs[n], saver->packs[i], SHA256_HEX);
        place[i] = n++;
    }
    saver->n_packs = n;
    for (size_t s = 0; s < saver->n_streams; s++) {
        for (size_t i = 0; i < saver->streams[s].listed.n_chunks; i++) {
            struct manifest_chunk *chunk = &saver->streams[s].chunks[i];
            if (chunk->pack != MANIFEST_ZERO)
                chunk->pack = place[chunk->pack];
        }
    }
}

static bool put_manifest(struct saver *saver, struct error *err)
{
    struct manifest_stream *streams =
        arena_array(&saver->arena, saver->n_streams + 1, sizeof *streams);
    struct manifest manifest = {.kind = str_of(saver->plan.kind),
                                .packs = (const char(*)[SHA256_HEX])saver->packs,
                                .n_packs = saver->n_packs,
                                .streams = streams,
                                .n_streams = saver->n_streams,
                                .facts = saver->facts,
                                .n_facts = saver->n_facts};
    struct seal_facts facts;

    for (size_t i = 0; i < saver->n_streams; i++) {
        streams[i] = saver->streams[i].listed;
        streams[i].chunks = saver->streams[i].chunks;
    }
    if (saver->plan.parent)
        memcpy(manifest.parent, saver->plan.parent_digest, SHA256_HEX);
    if (!object_draft(saver->plan.backend, &saver->draft, err) ||
        !manifest_write(&manifest, &saver->seal, saver->plan.keys, seal_sink_fd(&saver->draft),
                        &facts, err) ||
        !put(saver, &facts, err))
        return false;
    memcpy(saver->result.manifest, facts.digest, SHA256_HEX);
    saver->result.manifest_size = facts.size;
    return true;
}

bool saver_end(struct saver *saver, struct saved *saved, struct error *err)
{
    if (!end_pack(saver, err))
        return blob_explain(err);
    drop_unused(saver);
    if (!put_manifest(saver, err))
        return blob_explain(err);
    saver->result.packs = (const char(*)[SHA256_HEX])saver->packs;
    saver->result.n_packs = saver->n_packs;
    *saved = saver->result;
    return true;
}
