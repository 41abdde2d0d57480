#include "blob/seal_reader.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/secret.h"

enum { DIGEST_STEP = 256 * 1024 };

static bool read_fd(void *arg, uint64_t offset, void *bytes, size_t len, struct error *err)
{
    char *to = bytes;

    while (len > 0) {
        ssize_t got = pread(*(const int *)arg, to, len, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, "read an object");
        if (got == 0)
            return error_set(err, ERR_DAMAGED, "the object ends early");
        to += got;
        offset += (uint64_t)got;
        len -= (size_t)got;
    }
    return true;
}

bool seal_source_fd(const int *fd, struct seal_source *source, struct error *err)
{
    struct stat facts;

    if (fstat(*fd, &facts) != 0)
        return error_errno(err, "look at an object");
    *source = (struct seal_source){read_fd, (void *)fd, (uint64_t)facts.st_size};
    return true;
}

static bool read_memory(void *arg, uint64_t offset, void *bytes, size_t len,
                        struct error *err UNUSED)
{
    const struct str *from = arg;

    memcpy(bytes, from->ptr + offset, len);
    return true;
}

struct seal_source seal_source_memory(const struct str *bytes)
{
    return (struct seal_source){read_memory, (void *)bytes, bytes->len};
}

static bool read_at(const struct seal_reader *reader, uint64_t offset, void *bytes, size_t len,
                    struct error *err)
{
    const struct seal_source *source = &reader->source;

    if (offset > source->size || len > source->size - offset)
        return error_set(err, ERR_DAMAGED, "the object ends early");
    return source->read(source->arg, offset, bytes, len, err);
}

bool seal_reader_begin(struct seal_reader *reader, const struct seal_keys *keys,
                       enum seal_class class, struct seal_source source, struct error *err)
{
    uint8_t header[SEAL_HEADER_LEN];

    reader->source = source;
    if (!read_at(reader, 0, header, sizeof header, err) ||
        !seal_object_open(&reader->object, keys, header, err))
        return false;
    if (reader->object.class != class)
        return error_set(err, ERR_DAMAGED, "the object %s is of another class", reader->object.id);

    if (!reader->decompressor)
        reader->decompressor = ZSTD_createDCtx();
    if (!reader->decompressor)
        abort();
    reader->at = SEAL_HEADER_LEN;
    reader->number = 0;
    reader->trailer = class == SEAL_PACK ? SEAL_TRAILER_LEN : 0;
    reader->has_ended = false;
    return true;
}

/* Old bytes are of no use, so nothing is copied over, but wiped. */
static void make_room(uint8_t **bytes, size_t *room, size_t len)
{
    if (len <= *room)
        return;
    if (*bytes)
        bytes_wipe(*bytes, *room);
    free(*bytes);
    *bytes = alloc(len);
    *room = len;
}

static bool decompress(struct seal_reader *reader, const struct seal_head *head, struct error *err)
{
    size_t len = ZSTD_decompressDCtx(reader->decompressor, reader->raw, head->raw, reader->packed,
                                     head->sealed - SEAL_TAG_LEN);

    if (ZSTD_isError(len) || len != head->raw)
        return error_set(err, ERR_DAMAGED, "the object %s is damaged: a record does not unpack",
                         reader->object.id);
    return true;
}

bool seal_reader_record(struct seal_reader *reader, uint64_t offset, uint64_t number,
                        struct seal_record_view *record, struct error *err)
{
    uint8_t bytes[SEAL_HEAD_LEN];
    struct seal_head head;

    if (!read_at(reader, offset, bytes, sizeof bytes, err) || !seal_head_decode(bytes, &head, err))
        return false;
    offset += SEAL_HEAD_LEN;
    if (head.sealed > reader->source.size - offset)
        return error_set(err, ERR_DAMAGED, "the object %s ends early", reader->object.id);

    bool is_stored = head.flags & SEAL_STORED;
    make_room(&reader->sealed, &reader->sealed_room, head.sealed);
    make_room(&reader->raw, &reader->raw_room, head.raw + 1);
    if (!is_stored)
        make_room(&reader->packed, &reader->packed_room, head.sealed);
    if (!read_at(reader, offset, reader->sealed, head.sealed, err) ||
        !unseal_record(&reader->object, number, &head, reader->sealed,
                       is_stored ? reader->raw : reader->packed, err) ||
        !(is_stored || decompress(reader, &head, err)))
        return false;
    *record = (struct seal_record_view){
        .bytes = {(const char *)reader->raw, head.raw},
        .flags = head.flags,
        .end = offset + head.sealed
    };
    return true;
}

bool seal_reader_next(struct seal_reader *reader, struct str *bytes, bool *is_last,
                      struct error *err)
{
    struct seal_record_view record = {0};

    if (reader->has_ended)
        return error_set(err, ERR_INVALID, "the object %s has ended", reader->object.id);
    if (!seal_reader_record(reader, reader->at, reader->number, &record, err))
        return false;
    reader->at = record.end;
    reader->number++;
    reader->has_ended = record.flags & SEAL_LAST;
    if (reader->has_ended && reader->source.size - reader->at != reader->trailer)
        return error_set(err, ERR_DAMAGED, "the object %s does not end with its last record",
                         reader->object.id);
    *bytes = record.bytes;
    *is_last = reader->has_ended;
    return true;
}

void seal_reader_finish(struct seal_reader *reader)
{
    seal_object_finish(&reader->object);
    if (reader->raw)
        bytes_wipe(reader->raw, reader->raw_room);
    if (reader->packed)
        bytes_wipe(reader->packed, reader->packed_room);
    ZSTD_freeDCtx(reader->decompressor);
    free(reader->raw);
    free(reader->packed);
    free(reader->sealed);
    *reader = (struct seal_reader){0};
}

bool seal_source_digest(const struct seal_source *source, char digest[SHA256_HEX],
                        struct error *err)
{
    AUTO_FREE uint8_t *step = alloc(DIGEST_STEP);
    AUTO(sha256_finish) struct sha256 state;

    sha256_init(&state);
    for (uint64_t at = 0; at < source->size;) {
        uint64_t left = source->size - at;
        size_t len = left < DIGEST_STEP ? (size_t)left : DIGEST_STEP;
        if (!source->read(source->arg, at, step, len, err))
            return false;
        sha256_update(&state, (struct str){(const char *)step, len});
        at += len;
    }
    sha256_take(&state, digest);
    return true;
}
