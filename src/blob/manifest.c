#include "blob/manifest.h"

#include <sodium.h>

#include "base/encode.h"
#include "base/own.h"
#include "blob/bytes.h"
#include "protocol/message.h"

enum { PACK_LEN = 32, CHUNK_LEN = CHUNK_ID_LEN + 8, DIGEST_LEN = 32, PREFIX_LEN = 4 };

/* The body: a head, then each stream, all after their lengths. */
struct head {
    struct str kind, parent, packs;
    struct str_list facts;
    uint32_t n_streams;
    struct str root, loose;
};

struct stream {
    struct str name, digest, chunks;
    uint64_t len;
};

static const struct message_field head_fields[] = {
    {"kind",    1, FIELD_TEXT,  true,  offsetof(struct head, kind),      1,        64,                 0},
    {"parent",  2, FIELD_BYTES, false, offsetof(struct head, parent),    PACK_LEN, PACK_LEN,           0},
    {"packs",   3, FIELD_BYTES, true,  offsetof(struct head, packs),     0,
     (size_t)PACK_LEN *MANIFEST_PACKS_MAX,                                                             0},
    {"facts",   4, FIELD_LIST,  false, offsetof(struct head, facts),     1,        MANIFEST_FACT_MAX,
     MANIFEST_FACTS_MAX                                                                                 },
    {"streams", 5, FIELD_U32,   true,  offsetof(struct head, n_streams), 4,        4,                  0},
    {"root",    6, FIELD_BYTES, false, offsetof(struct head, root),      1,        MANIFEST_ROOT_MAX,  0},
    {"loose",   7, FIELD_BYTES, false, offsetof(struct head, loose),     1,        MANIFEST_LOOSE_MAX, 0},
};

static const struct message_field stream_fields[] = {
    {"name",   1, FIELD_TEXT,  true, offsetof(struct stream, name),   1,          MANIFEST_NAME_MAX,  0},
    {"length", 2, FIELD_U64,   true, offsetof(struct stream, len),    8,          8,                  0},
    {"digest", 3, FIELD_BYTES, true, offsetof(struct stream, digest), DIGEST_LEN, DIGEST_LEN,         0},
    {"chunks", 4, FIELD_BYTES, true, offsetof(struct stream, chunks), 0,          MANIFEST_BYTES_MAX, 0},
};

static const struct message_info head_info = {.name = "manifest",
                                              .limit = MANIFEST_BYTES_MAX,
                                              .size = sizeof(struct head),
                                              .fields = head_fields,
                                              .n_fields = COUNT_OF(head_fields)};
static const struct message_info stream_info = {.name = "stream",
                                                .limit = MANIFEST_BYTES_MAX,
                                                .size = sizeof(struct stream),
                                                .fields = stream_fields,
                                                .n_fields = COUNT_OF(stream_fields)};

static struct str bytes_of(const uint8_t *bytes, size_t len)
{
    return (struct str){(const char *)bytes, len};
}

static void digest_of(struct str chunks, uint8_t digest[DIGEST_LEN])
{
    crypto_generichash(digest, DIGEST_LEN, (const uint8_t *)chunks.ptr, chunks.len, NULL, 0);
}

/* The length stands before the bytes and is known after them. */
static bool append_fields(const struct message_info *info, const void *fields, struct buf *out,
                          struct error *err)
{
    uint8_t prefix[PREFIX_LEN] = {0};
    size_t begin = out->len;

    if (!buf_append(out, bytes_of(prefix, sizeof prefix), err) ||
        !fields_encode(info, fields, out, err))
        return false;
    put_u32((uint8_t *)out->bytes + begin, (uint32_t)(out->len - begin - PREFIX_LEN));
    return true;
}

static bool join_facts(const struct manifest *manifest, struct arena *arena, struct str_list *facts,
                       struct error *err)
{
    struct str *items = arena_array(arena, manifest->n_facts + 1, sizeof *items);

    for (size_t i = 0; i < manifest->n_facts; i++) {
        const struct manifest_fact *fact = &manifest->facts[i];
        if (fact->name.len == 0 || memchr(fact->name.ptr, '=', fact->name.len))
            return error_set(err, ERR_INVALID, "a fact cannot be called %.*s", (int)fact->name.len,
                             fact->name.ptr);
        items[i] =
            str_of(arena_printf(arena, "%.*s=%.*s", (int)fact->name.len, fact->name.ptr,
                                (int)fact->value.len, fact->value.len ? fact->value.ptr : ""));
    }
    *facts = (struct str_list){items, manifest->n_facts};
    return true;
}

static bool encode_head(const struct manifest *manifest, struct buf *out, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    uint8_t parent[PACK_LEN];
    uint8_t *packs = arena_alloc(&arena, manifest->n_packs * PACK_LEN + 1);
    struct head head = {.kind = manifest->kind,
                        .packs = bytes_of(packs, manifest->n_packs * PACK_LEN),
                        .n_streams = (uint32_t)manifest->n_streams,
                        .root = manifest->root,
                        .loose = manifest->loose};

    if (manifest->n_streams > MANIFEST_STREAMS_MAX || manifest->n_packs > MANIFEST_PACKS_MAX)
        return error_set(err, ERR_TOO_LARGE, "a manifest cannot have so many streams or packs");
    for (size_t i = 0; i < manifest->n_packs; i++) {
        if (!hex_decode(str_of(manifest->packs[i]), packs + i * PACK_LEN, PACK_LEN))
            return error_set(err, ERR_INVALID, "a pack has no digest");
    }
    if (manifest->parent[0]) {
        if (!hex_decode(str_of(manifest->parent), parent, sizeof parent))
            return error_set(err, ERR_INVALID, "the parent has no digest");
        head.parent = bytes_of(parent, sizeof parent);
    }
    return join_facts(manifest, &arena, &head.facts, err) &&
           append_fields(&head_info, &head, out, err);
}

static bool encode_stream(const struct manifest_stream *stream, struct buf *out, struct error *err)
{
    uint8_t digest[DIGEST_LEN];
    size_t len = stream->n_chunks * CHUNK_LEN;

    if (len > MANIFEST_BYTES_MAX)
        return error_set(err, ERR_TOO_LARGE, "a stream has too many chunks");
    AUTO_FREE uint8_t *chunks = alloc(len + 1);
    for (size_t i = 0; i < stream->n_chunks; i++) {
        uint8_t *at = chunks + i * CHUNK_LEN;
        memcpy(at, stream->chunks[i].id, CHUNK_ID_LEN);
        put_u32(at + CHUNK_ID_LEN, stream->chunks[i].pack);
        put_u32(at + CHUNK_ID_LEN + 4, stream->chunks[i].len);
    }
    digest_of(bytes_of(chunks, len), digest);
    struct stream fields = {stream->name, bytes_of(digest, sizeof digest), bytes_of(chunks, len),
                            stream->len};
    return append_fields(&stream_info, &fields, out, err);
}

bool manifest_encode(const struct manifest *manifest, struct buf *out, struct error *err)
{
    if (!encode_head(manifest, out, err))
        return false;
    for (size_t i = 0; i < manifest->n_streams; i++) {
        if (!encode_stream(&manifest->streams[i], out, err))
            return false;
    }
    return true;
}

static bool wrong(struct error *err, const char *what)
{
    return error_set(err, ERR_DAMAGED, "the manifest makes no sense: %s", what);
}

static bool take_fields(const struct message_info *info, struct str *rest, struct arena *arena,
                        void *fields, struct error *err)
{
    if (rest->len < PREFIX_LEN)
        return wrong(err, "it ends early");
    size_t len = get_u32((const uint8_t *)rest->ptr);
    if (len > rest->len - PREFIX_LEN)
        return wrong(err, "it ends early");
    struct str body = {rest->ptr + PREFIX_LEN, len};
    *rest = (struct str){body.ptr + len, rest->len - PREFIX_LEN - len};
    if (fields_decode(info, body, arena, fields, err))
        return true;
    struct error cause = *err;
    return wrong(err, cause.text);
}

static bool split_facts(const struct str_list *list, struct arena *arena, struct manifest *manifest,
                        struct error *err)
{
    struct manifest_fact *facts = arena_array(arena, list->n + 1, sizeof *facts);

    for (size_t i = 0; i < list->n; i++) {
        struct str value = arena_str(arena, list->items[i]);
        if (!str_split(&value, '=', &facts[i].name) || !value.ptr || facts[i].name.len == 0)
            return wrong(err, "a fact has no name");
        facts[i].value = value;
    }
    manifest->facts = facts;
    manifest->n_facts = list->n;
    return true;
}

static bool decode_head(const struct head *head, struct arena *arena, struct manifest *manifest,
                        struct error *err)
{
    if (head->packs.len % PACK_LEN != 0 || head->n_streams > MANIFEST_STREAMS_MAX)
        return wrong(err, "its counts are wrong");
    manifest->kind = arena_str(arena, head->kind);
    if (head->parent.ptr)
        hex_encode(head->parent, manifest->parent);
    if (head->root.ptr)
        manifest->root = arena_str(arena, head->root);
    if (head->loose.ptr)
        manifest->loose = arena_str(arena, head->loose);
    manifest->n_packs = head->packs.len / PACK_LEN;
    char(*packs)[SHA256_HEX] = arena_array(arena, manifest->n_packs + 1, SHA256_HEX);
    for (size_t i = 0; i < manifest->n_packs; i++)
        hex_encode((struct str){head->packs.ptr + i * PACK_LEN, PACK_LEN}, packs[i]);
    manifest->packs = (const char(*)[SHA256_HEX])packs;
    return split_facts(&head->facts, arena, manifest, err);
}

/* Lengths must add up, and every chunk must be in a pack that is listed. */
static bool decode_stream(const struct stream *fields, size_t n_packs, struct arena *arena,
                          struct manifest_stream *stream, struct error *err)
{
    const uint8_t *at = (const uint8_t *)fields->chunks.ptr;
    uint64_t len = 0;

    if (fields->chunks.len % CHUNK_LEN != 0)
        return wrong(err, "a list of chunks is cut off");
    digest_of(fields->chunks, stream->digest);
    if (!str_equal(bytes_of(stream->digest, DIGEST_LEN), fields->digest))
        return wrong(err, "a list of chunks is not what its digest says");
    stream->name = arena_str(arena, fields->name);
    stream->len = fields->len;
    stream->n_chunks = fields->chunks.len / CHUNK_LEN;
    struct manifest_chunk *chunks = arena_array(arena, stream->n_chunks + 1, sizeof *chunks);
    for (size_t i = 0; i < stream->n_chunks; i++, at += CHUNK_LEN) {
        memcpy(chunks[i].id, at, CHUNK_ID_LEN);
        chunks[i].pack = get_u32(at + CHUNK_ID_LEN);
        chunks[i].len = get_u32(at + CHUNK_ID_LEN + 4);
        if ((chunks[i].pack >= n_packs && chunks[i].pack != MANIFEST_ZERO) || chunks[i].len == 0 ||
            chunks[i].len > CHUNK_MAX)
            return wrong(err, "a chunk is nowhere");
        len += chunks[i].len;
    }
    stream->chunks = chunks;
    return len == stream->len || wrong(err, "a stream has another length");
}

bool manifest_decode(struct str bytes, struct arena *arena, struct manifest *manifest,
                     struct error *err)
{
    struct manifest read = {0};
    struct head head = {0};

    if (!take_fields(&head_info, &bytes, arena, &head, err) ||
        !decode_head(&head, arena, &read, err))
        return false;
    /* No stream is shorter than the fields it must have. */
    if (head.n_streams > bytes.len / DIGEST_LEN)
        return wrong(err, "it ends early");
    struct manifest_stream *streams = arena_array(arena, head.n_streams + 1, sizeof *streams);
    for (size_t i = 0; i < head.n_streams; i++) {
        struct stream fields = {0};
        if (!take_fields(&stream_info, &bytes, arena, &fields, err) ||
            !decode_stream(&fields, read.n_packs, arena, &streams[i], err))
            return false;
    }
    if (bytes.len > 0)
        return wrong(err, "something follows its end");
    read.streams = streams;
    read.n_streams = head.n_streams;
    *manifest = read;
    return true;
}

bool manifest_write(const struct manifest *manifest, struct seal_writer *writer,
                    const struct seal_keys *keys, struct seal_sink sink, struct seal_facts *facts,
                    struct error *err)
{
    AUTO(buf_finish) struct buf body = {.max = MANIFEST_BYTES_MAX};
    struct seal_plan plan = {keys, SEAL_MANIFEST};

    if (!manifest_encode(manifest, &body, err) || !seal_writer_begin(writer, &plan, sink, err) ||
        !seal_writer_add(writer, buf_str(&body), err) || !seal_writer_end(writer, err))
        return error_wrap(err, "writing a manifest");
    seal_writer_facts(writer, facts);
    return true;
}

bool manifest_read(const struct seal_keys *keys, struct seal_source source, const char *digest,
                   struct arena *arena, struct manifest *manifest, struct error *err)
{
    AUTO(seal_reader_finish) struct seal_reader reader = {0};
    AUTO(buf_finish) struct buf body = {.max = MANIFEST_BYTES_MAX};
    char real[SHA256_HEX];
    bool is_last = false;
    struct str bytes;

    if (source.size > (uint64_t)MANIFEST_BYTES_MAX * 2)
        return wrong(err, "it is too large");
    if (!seal_source_digest(&source, real, err))
        return false;
    if (strcmp(real, digest) != 0)
        return error_set(err, ERR_DAMAGED, "the manifest %s is another object", digest);
    if (!seal_reader_begin(&reader, keys, SEAL_MANIFEST, source, err))
        return false;
    while (!is_last) {
        if (!seal_reader_next(&reader, &bytes, &is_last, err))
            return false;
        if (!buf_append(&body, bytes, err))
            return wrong(err, "it is too large");
    }
    return manifest_decode(buf_str(&body), arena, manifest, err);
}

const struct manifest_stream *manifest_stream_find(const struct manifest *manifest, struct str name)
{
    for (size_t i = 0; i < manifest->n_streams; i++) {
        if (str_equal(manifest->streams[i].name, name))
            return &manifest->streams[i];
    }
    return NULL;
}

const struct manifest_fact *manifest_fact_find(const struct manifest *manifest, struct str name)
{
    for (size_t i = 0; i < manifest->n_facts; i++) {
        if (str_equal(manifest->facts[i].name, name))
            return &manifest->facts[i];
    }
    return NULL;
}
