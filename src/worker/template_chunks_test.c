/* Chunks of a template, found in its memory by the ids its manifest has. */
#include "worker/template_chunks.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/own.h"
#include "base/test.h"
#include "engine/saved.h"
#include "engine/sparse.h"

enum { MEMORY = 2 << 20, STREAM_MAX = 4 << 20, CHUNK = 5000, CHUNKS_MAX = 1024 };

static const struct engine machine = {.name = "machine", .form = &saved_form_machine};

static bool make_image(struct saved_image *image, struct error *err)
{
    AUTO_FREE char *bytes = alloc(MEMORY / 2);

    for (size_t i = 0; i < MEMORY / 2; i++)
        bytes[i] = (char)(i % 251 + i / 4096 + 1);
    if (!saved_image_make(&machine, MIB(4), image, err))
        return false;
    AUTO_FD int devices = openat(image->folder, MACHINE_DEVICES, O_RDWR | O_CREAT, 0600);
    image->scratch = memfd_create("scratch", MFD_CLOEXEC);
    image->memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return sparse_write(devices, 0, STR("devices"), err) && ftruncate(image->memory, MEMORY) == 0 &&
           sparse_write(image->memory, SPARSE_BLOCK, (struct str){bytes, MEMORY / 2}, err);
}

static bool read_stream(const struct saved_image *image, struct buf *out, struct error *err)
{
    struct saved_reader *reader = NULL;
    struct str bytes;
    bool fine = saved_reader_open(image, NULL, &reader, err);

    while (fine && (fine = saved_read(reader, &bytes, err)) && bytes.len > 0)
        fine = buf_append(out, bytes, err);
    saved_reader_close(reader);
    return fine;
}

/* As long as they come; the id of each says which it is. */
static size_t cut(size_t len, struct manifest_chunk chunks[CHUNKS_MAX])
{
    size_t n = 0;

    for (size_t at = 0; at < len && n < CHUNKS_MAX; at += chunks[n++].len) {
        size_t left = len - at;

        chunks[n] = (struct manifest_chunk){.len = (uint32_t)(left < CHUNK ? left : CHUNK)};
        memcpy(chunks[n].id, &n, sizeof n);
    }
    return n;
}

TEST(a_chunk_of_memory_is_found_by_its_id_and_no_other)
{
    static struct manifest_chunk chunks[CHUNKS_MAX];
    AUTO(saved_image_finish) struct saved_image image = SAVED_IMAGE_NONE;
    AUTO(buf_finish) struct buf stream = {.max = STREAM_MAX};
    AUTO_FREE struct chunk_finder *finder = alloc(sizeof *finder);
    struct template_chunks *made = NULL;
    size_t n_found = 0, n_right = 0;
    struct error err;
    struct str bytes;

    if (!make_image(&image, &err))
        SKIP(err.text);
    CHECK(read_stream(&image, &stream, &err) && stream.bytes);
    const struct manifest_stream one = {.name = STR("memory"),
                                        .chunks = chunks,
                                        .n_chunks = cut(stream.len, chunks)};
    const struct manifest manifest = {.streams = &one, .n_streams = 1};
    CHECK(!template_chunks_make(&image, &manifest, "memory", &made, &err));
    CHECK(err.code == ERR_UNSUPPORTED && saved_machine_share(NULL, &image, &err));
    CHECK(!template_chunks_make(&image, &manifest, "other", &made, &err));
    CHECK(template_chunks_make(&image, &manifest, "memory", &made, &err));
    finder->chunks = made;
    for (size_t i = 0; i < one.n_chunks; i++) {
        if (!chunk_finder_find(finder, chunks[i].id, chunks[i].len, &bytes))
            continue;
        n_found++;
        n_right += str_equal(bytes, (struct str){stream.bytes + i * CHUNK, chunks[i].len});
    }
    const uint8_t unknown[CHUNK_ID_LEN] = {0xff};
    bool is_strict = !chunk_finder_find(finder, unknown, CHUNK, &bytes) &&
                     !chunk_finder_find(finder, chunks[1].id, CHUNK - 1, &bytes);
    template_chunks_destroy(made);
    /* The first has the head in it, the last what is not memory. */
    CHECK(n_found == one.n_chunks - 2 && n_right == n_found && is_strict);
}

TEST_MAIN()
