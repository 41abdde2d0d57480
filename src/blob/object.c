#include "blob/object.h"

#include <sys/mman.h>

#include "base/own.h"
#include "blob/pack.h"

static bool draft_file(void *arg, int *fd, struct error *err)
{
    return blob_nameless(arg, fd, err);
}

static bool put_file(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    char id[BLOB_ID];

    return blob_put_fd(arg, fd, 0, facts->size, facts->digest, id, err);
}

static bool open_file(void *arg, const char *digest, int *fd, struct error *err)
{
    uint64_t size;

    return blob_open(arg, digest, fd, &size, err);
}

struct object_backend object_backend_of(struct blob_store *store)
{
    return (struct object_backend){store, draft_file, put_file, open_file};
}

bool object_draft(const struct object_backend *backend, int *fd, struct error *err)
{
    if (backend->draft)
        return backend->draft(backend->arg, fd, err);
    int made = memfd_create("helmr-object", MFD_CLOEXEC);
    if (made < 0)
        return error_errno(err, "make room for an object");
    *fd = made;
    return true;
}

static bool verify_records(const struct seal_keys *keys, enum seal_class class,
                           struct seal_source source, struct error *err)
{
    AUTO(seal_reader_finish) struct seal_reader reader = {0};
    bool is_last = false;
    struct str bytes;

    if (!seal_reader_begin(&reader, keys, class, source, err))
        return false;
    while (!is_last) {
        if (!seal_reader_next(&reader, &bytes, &is_last, err))
            return false;
    }
    return true;
}

static bool verify_chunks(const struct seal_keys *keys, struct seal_source source,
                          struct error *err)
{
    AUTO(pack_reader_finish) struct pack_reader reader = {0};

    return pack_reader_begin(&reader, keys, source, err) && pack_reader_verify(&reader, err);
}

bool object_verify(const struct seal_keys *keys, enum seal_class class, const char *digest,
                   struct seal_source source, struct error *err)
{
    char real[SHA256_HEX];

    if (digest && !seal_source_digest(&source, real, err))
        return false;
    if (digest && strcmp(real, digest) != 0)
        return error_set(err, ERR_DAMAGED, "the object %s has other bytes", digest);
    /* The index of a pack lists every record, so its chunks are all there is. */
    return class == SEAL_PACK ? verify_chunks(keys, source, err)
                              : verify_records(keys, class, source, err);
}
