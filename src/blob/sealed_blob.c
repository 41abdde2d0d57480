#include "blob/sealed_blob.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

enum { STEP = 256 * 1024, LEVEL = 1 };

bool blob_sealer_begin(struct blob_sealer *sealer, struct blob_store *store,
                       const struct seal_keys *keys, struct error *err)
{
    *sealer = (struct blob_sealer){.store = store, .keys = keys, .fd = -1};
    sha256_init(&sealer->plain);
    return blob_draft_begin(store, &sealer->draft, &sealer->fd, err);
}

/* By how the bytes begin: gzip, zstd, xz, bzip2. */
static bool is_packed(struct str bytes)
{
    static const struct str magics[] = {STR("\x1f\x8b"), STR("\x28\xb5\x2f\xfd"),
                                        STR("\xfd"
                                            "7zXZ"),
                                        STR("BZh")};

    for (size_t i = 0; i < COUNT_OF(magics); i++)
        if (bytes.len >= magics[i].len && memcmp(bytes.ptr, magics[i].ptr, magics[i].len) == 0)
            return true;
    return false;
}

/* Layers are most of what comes, and compressed when they do. */
static bool begin_object(struct blob_sealer *sealer, struct str first, struct error *err)
{
    const struct seal_plan plan = {.keys = sealer->keys,
                                   .class = SEAL_BLOB,
                                   .level = LEVEL,
                                   .is_unnamed = true,
                                   .is_packed = is_packed(first)};

    sealer->has_begun = true;
    return seal_writer_begin(&sealer->writer, &plan, seal_sink_fd(&sealer->fd), err);
}

bool blob_sealer_add(struct blob_sealer *sealer, struct str bytes, struct error *err)
{
    if (!sealer->has_begun && !begin_object(sealer, bytes, err))
        return blob_explain(err);
    sha256_update(&sealer->plain, bytes);
    sealer->size += bytes.len;
    return seal_writer_add(&sealer->writer, bytes, err) || blob_explain(err);
}

bool blob_sealer_end(struct blob_sealer *sealer, const char *expected, struct blob_draft *draft,
                     struct seal_facts *facts, struct error *err)
{
    char id[BLOB_ID];

    if (!sealer->has_begun && !begin_object(sealer, (struct str){0}, err))
        return blob_explain(err);
    sha256_take(&sealer->plain, id);
    if (strcmp(id, expected) != 0)
        return error_set(err, ERR_CONTENT_HASH, "the bytes hash to sha256:%s", id);
    if (!seal_writer_end(&sealer->writer, err) ||
        !blob_draft_end(&sealer->draft, sealer->fd, id, err))
        return blob_explain(err);
    seal_writer_facts(&sealer->writer, facts);
    *draft = sealer->draft;
    sealer->draft.name[0] = '\0';
    return true;
}

void blob_sealer_finish(struct blob_sealer *sealer)
{
    if (!sealer->store)
        return;
    blob_discard(sealer->store, &sealer->draft);
    seal_writer_finish(&sealer->writer);
    sha256_finish(&sealer->plain);
    if (sealer->fd >= 0)
        close(sealer->fd);
    *sealer = (struct blob_sealer){.fd = -1};
}

/* At most len bytes at an offset; *got < len only at the end of the file. */
static bool read_piece(int fd, uint64_t offset, uint8_t *bytes, size_t len, size_t *got,
                       struct error *err)
{
    *got = 0;
    while (*got < len) {
        ssize_t n = pread(fd, bytes + *got, len - *got, (off_t)(offset + *got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read the bytes of a blob");
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return true;
}

static bool add_file(struct blob_sealer *sealer, int fd, uint64_t offset, uint64_t len,
                     struct error *err)
{
    AUTO_FREE uint8_t *piece = alloc(STEP);

    while (len > 0) {
        size_t want = len < STEP ? (size_t)len : STEP, got;
        if (!read_piece(fd, offset, piece, want, &got, err))
            return false;
        if (got < want)
            return error_set(err, ERR_INVALID, "the bytes of the blob end early");
        if (!blob_sealer_add(sealer, (struct str){(const char *)piece, got}, err))
            return false;
        offset += got;
        len -= got;
    }
    return true;
}

bool blob_stage_sealed(struct blob_store *store, const struct seal_keys *keys, int fd,
                       uint64_t offset, uint64_t len, const char *expected,
                       struct blob_draft *draft, struct seal_facts *facts, struct error *err)
{
    AUTO(blob_sealer_finish) struct blob_sealer sealer = {0};

    return blob_sealer_begin(&sealer, store, keys, err) &&
           add_file(&sealer, fd, offset, len, err) &&
           blob_sealer_end(&sealer, expected, draft, facts, err);
}

/* Whether the file begins as a blob of the store that we could open. */
static bool looks_sealed(const struct seal_keys *keys, int fd)
{
    uint8_t header[SEAL_HEADER_LEN];
    struct seal_header said;
    struct error err;
    size_t got;
    char id[SEAL_KEY_ID_TEXT];

    if (!read_piece(fd, 0, header, sizeof header, &got, &err) || got < sizeof header ||
        !seal_header_read(header, &said, &err) || said.class != SEAL_BLOB ||
        said.domain != keys->domain)
        return false;
    for (size_t i = 0; i < keys->n; i++) {
        seal_key_id_text(&keys->keys[i], id);
        if (strcmp(id, said.key_id) == 0)
            return true;
    }
    return false;
}

bool blob_reader_open(struct blob_reader *reader, const struct seal_keys *keys, int fd,
                      enum blob_form form, struct error *err)
{
    struct seal_source source;

    *reader = (struct blob_reader){.fd = fd};
    if (!seal_source_fd(&reader->fd, &source, err))
        return false;
    reader->size = source.size;
    reader->is_sealed = form == BLOB_SEALED || (form == BLOB_EITHER && looks_sealed(keys, fd));
    if (reader->is_sealed)
        return seal_reader_begin(&reader->records, keys, SEAL_BLOB, source, err);
    reader->piece = alloc(STEP);
    return true;
}

bool blob_reader_next(struct blob_reader *reader, struct str *bytes, bool *is_last,
                      struct error *err)
{
    size_t got;

    if (reader->is_sealed)
        return seal_reader_next(&reader->records, bytes, is_last, err);
    if (!read_piece(reader->fd, reader->at, reader->piece, STEP, &got, err))
        return false;
    reader->at += got;
    *bytes = (struct str){(const char *)reader->piece, got};
    *is_last = got < STEP || reader->at >= reader->size;
    return true;
}

void blob_reader_finish(struct blob_reader *reader)
{
    seal_reader_finish(&reader->records);
    free(reader->piece);
    if (reader->fd >= 0)
        close(reader->fd);
    *reader = (struct blob_reader){.fd = -1};
}

bool blob_reader_check(struct blob_reader *reader, const char *id, uint64_t size, struct error *err)
{
    AUTO(sha256_finish) struct sha256 hash;
    char real[SHA256_HEX];
    uint64_t got = 0;
    bool is_last = false;
    struct str bytes;

    sha256_init(&hash);
    while (!is_last) {
        if (!blob_reader_next(reader, &bytes, &is_last, err))
            return false;
        sha256_update(&hash, bytes);
        got += bytes.len;
    }
    sha256_take(&hash, real);
    if (got != size || strcmp(real, id) != 0)
        return error_set(err, ERR_DAMAGED, "the object %s has other bytes", id);
    return true;
}
