#include "blob/seal_writer.h"

#include "base/file.h"
#include "base/own.h"
#include "base/secret.h"

static bool write_fd(void *arg, struct str bytes, struct error *err)
{
    return fd_write_all(*(const int *)arg, bytes, err);
}

struct seal_sink seal_sink_fd(const int *fd)
{
    return (struct seal_sink){write_fd, (void *)fd};
}

static bool emit(struct seal_writer *writer, const uint8_t *bytes, size_t len, struct error *err)
{
    if (!writer->is_unnamed)
        sha256_update(&writer->digest, (struct str){(const char *)bytes, len});
    writer->facts.size += len;
    return writer->sink.write(writer->sink.arg, (struct str){(const char *)bytes, len}, err);
}

/* Room for the largest record, made once. */
static void make_room(struct seal_writer *writer)
{
    if (writer->compressor)
        return;
    writer->compressor = ZSTD_createCCtx();
    if (!writer->compressor)
        abort();
    sha256_init(&writer->digest);
    writer->raw = alloc(SEAL_RAW_MAX);
    writer->packed = alloc(SEAL_RAW_MAX);
    writer->sealed = alloc(SEAL_HEAD_LEN + SEAL_RAW_MAX + SEAL_TAG_LEN);
}

bool seal_writer_begin(struct seal_writer *writer, const struct seal_plan *plan,
                       struct seal_sink sink, struct error *err)
{
    uint8_t header[SEAL_HEADER_LEN];
    uint32_t record = plan->record ? plan->record : SEAL_RAW_MAX;

    if (record > SEAL_RAW_MAX)
        return error_set(err, ERR_INVALID, "a record has at most %d bytes", SEAL_RAW_MAX);
    if (!seal_object_make(&writer->object, plan->keys, plan->class, record, header, err))
        return false;

    make_room(writer);
    ZSTD_CCtx_setParameter(writer->compressor, ZSTD_c_compressionLevel,
                           plan->level ? plan->level : SEAL_LEVEL);
    writer->sink = sink;
    writer->record = record;
    writer->is_packed = plan->is_packed;
    writer->is_unnamed = plan->is_unnamed;
    writer->filled = 0;
    writer->n_records = 0;
    writer->facts = (struct seal_facts){.domain = plan->keys->domain, .class = plan->class};
    seal_key_id_text(writer->object.domain, writer->facts.key_id);
    sha256_take(&writer->digest, writer->facts.digest);
    return emit(writer, header, sizeof header, err);
}

/* Compressed bytes are kept only when there are fewer of them. */
static struct str compress(struct seal_writer *writer, struct str raw, uint8_t *flags)
{
    size_t len =
        raw.len < 2 || writer->is_packed
            ? 0
            : ZSTD_compress2(writer->compressor, writer->packed, raw.len - 1, raw.ptr, raw.len);
    if (len == 0 || ZSTD_isError(len)) {
        *flags |= SEAL_STORED;
        return raw;
    }
    return (struct str){(const char *)writer->packed, len};
}

static bool write_record(struct seal_writer *writer, struct str raw, uint8_t flags,
                         struct error *err)
{
    struct str plain = compress(writer, raw, &flags);
    struct seal_head head = {(uint32_t)plain.len + SEAL_TAG_LEN, (uint32_t)raw.len, flags};

    seal_head_encode(&head, writer->sealed);
    seal_record(&writer->object, writer->n_records++, &head, plain, writer->sealed + SEAL_HEAD_LEN);
    return emit(writer, writer->sealed, SEAL_HEAD_LEN + (size_t)head.sealed, err);
}

static bool flush(struct seal_writer *writer, uint8_t flags, struct error *err)
{
    struct str raw = {(const char *)writer->raw, writer->filled};

    writer->filled = 0;
    return write_record(writer, raw, flags, err);
}

bool seal_writer_add(struct seal_writer *writer, struct str bytes, struct error *err)
{
    /* A full record waits until more follows: the last one must say that it is the last. */
    while (bytes.len > 0) {
        if (writer->filled == writer->record && !flush(writer, 0, err))
            return false;
        size_t room = writer->record - writer->filled;
        size_t len = bytes.len < room ? bytes.len : room;
        memcpy(writer->raw + writer->filled, bytes.ptr, len);
        writer->filled += len;
        bytes = (struct str){bytes.ptr + len, bytes.len - len};
    }
    return true;
}

bool seal_writer_record(struct seal_writer *writer, struct str bytes, uint8_t flags,
                        struct error *err)
{
    if (bytes.len > SEAL_RAW_MAX)
        return error_set(err, ERR_TOO_LARGE, "a record has at most %d bytes", SEAL_RAW_MAX);
    if (writer->filled > 0 && !flush(writer, 0, err))
        return false;
    return write_record(writer, bytes, flags, err);
}

bool seal_writer_end(struct seal_writer *writer, struct error *err)
{
    return flush(writer, SEAL_LAST, err);
}

bool seal_writer_trailer(struct seal_writer *writer, struct str bytes, struct error *err)
{
    return emit(writer, (const uint8_t *)bytes.ptr, bytes.len, err);
}

void seal_writer_facts(struct seal_writer *writer, struct seal_facts *facts)
{
    writer->facts.digest[0] = '\0';
    if (!writer->is_unnamed)
        sha256_take(&writer->digest, writer->facts.digest);
    *facts = writer->facts;
}

void seal_writer_finish(struct seal_writer *writer)
{
    seal_object_finish(&writer->object);
    if (writer->compressor) {
        bytes_wipe(writer->raw, SEAL_RAW_MAX);
        bytes_wipe(writer->packed, SEAL_RAW_MAX);
        sha256_finish(&writer->digest);
    }
    ZSTD_freeCCtx(writer->compressor);
    free(writer->raw);
    free(writer->packed);
    free(writer->sealed);
    *writer = (struct seal_writer){0};
}
