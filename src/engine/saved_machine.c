/* What engines save of a machine: its memory, the state of its devices and its disk. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/own.h"
#include "engine/saved.h"
#include "engine/saved_machine.h"
#include "engine/sparse.h"

static const struct {
    const char *name;
    int64_t max_size;
} files[MACHINE_FILES] = {
    [MACHINE_FILE_MEMORY] = {MACHINE_MEMORY,  (int64_t)1 << 40},
    [MACHINE_FILE_DEVICES] = {MACHINE_DEVICES, (int64_t)1 << 26},
    [MACHINE_FILE_SCRATCH] = {MACHINE_SCRATCH, (int64_t)1 << 44},
};

struct reader {
    struct saved_reader base;
    int fds[MACHINE_FILES];
    int changes;                 /* of the memory, or -1 */
    struct sparse_reader sparse; /* of the file that is read */
    size_t file;                 /* MACHINE_FILES: the stream is over */
    struct machine_head head;
    bool has_head;
    struct machine_run run;
    struct str data; /* of the run that was given out last */
};

enum phase { PHASE_HEAD, PHASE_RUN, PHASE_DATA, PHASE_OVER };

struct writer {
    struct saved_writer base;
    struct saved_image image; /* folder and disk are the writer's own */
    int fds[MACHINE_FILES];
    int64_t sizes[MACHINE_FILES];
    size_t file;
    enum phase phase;
    int64_t at; /* of the file, where the last run ended */
    int64_t offset;
    size_t filled, wanted; /* of what comes next */
    char *piece;
};

static bool damaged(struct error *err, const char *what)
{
    return error_set(err, ERR_DAMAGED, "the saved machine %s", what);
}

/* A machine that saves itself may have put there what it likes: nothing is followed or waited for.
 */
static int open_saved(const struct saved_image *image, const char *name)
{
    return openat(image->folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static void close_all(int fds[MACHINE_FILES])
{
    for (size_t i = 0; i < MACHINE_FILES; i++)
        auto_close(&fds[i]);
}

bool saved_scratch_open(const struct saved_image *image, int *fd, struct error *err)
{
    *fd = image->scratch >= 0 ? fcntl(image->scratch, F_DUPFD_CLOEXEC, 0)
                              : open_saved(image, MACHINE_SCRATCH);
    return *fd >= 0 || error_errno(err, "open the disk of a saved machine");
}

bool saved_scratch_make(const struct saved_image *image, int *fd, struct error *err)
{
    *fd = image->scratch >= 0 ? fcntl(image->scratch, F_DUPFD_CLOEXEC, 0)
                              : openat(image->folder, MACHINE_SCRATCH,
                                       O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return (*fd >= 0 && ftruncate(*fd, 0) == 0) ||
           error_errno(err, "make the disk of a saved machine");
}

bool saved_changes_open(const struct saved_image *image, int *fd, struct error *err)
{
    *fd = -1;
    if (image->memory < 0)
        return true;
    *fd = open_saved(image, MACHINE_CHANGES);
    return *fd >= 0 || errno == ENOENT || error_errno(err, "open the changes of a saved machine");
}

static void reader_close(struct saved_reader *base)
{
    struct reader *reader = (struct reader *)base;

    sparse_reader_finish(&reader->sparse);
    auto_close(&reader->changes);
    close_all(reader->fds);
    free(reader);
}

static bool open_file(const struct saved_image *image, size_t i, struct reader *reader,
                      struct error *err)
{
    bool is_apart = i == MACHINE_FILE_MEMORY && image->memory >= 0;
    struct stat about;

    if (i == MACHINE_FILE_SCRATCH && !saved_scratch_open(image, &reader->fds[i], err))
        return false;
    if (i != MACHINE_FILE_SCRATCH)
        reader->fds[i] =
            is_apart ? fcntl(image->memory, F_DUPFD_CLOEXEC, 0) : open_saved(image, files[i].name);
    if (reader->fds[i] < 0 || fstat(reader->fds[i], &about) != 0)
        return error_errno(err, "open the %s of a saved machine", files[i].name);
    if (!S_ISREG(about.st_mode) || about.st_size > files[i].max_size)
        return damaged(err, "has a file that is none, or too large");
    reader->head.sizes[i] = htobe64((uint64_t)about.st_size);
    return true;
}

static bool reader_open(const struct saved_image *image, const atomic_bool *is_growing UNUSED,
                        struct saved_reader **reader, struct error *err)
{
    struct reader *made = alloc(sizeof *made);

    *made = (struct reader){
        .base = {&saved_form_machine},
        .fds = {-1, -1, -1},
        .changes = -1,
        .head = {MACHINE_MAGIC, htobe32(MACHINE_VERSION), htobe32(SPARSE_BLOCK), {0}},
    };
    bool fine = saved_changes_open(image, &made->changes, err);
    for (size_t i = 0; fine && i < MACHINE_FILES; i++)
        fine = open_file(image, i, made, err);
    if (!fine || !sparse_reader_init_over(&made->sparse, made->fds[0], made->changes, err)) {
        reader_close(&made->base);
        return false;
    }
    *reader = &made->base;
    return true;
}

/* An empty run at its size is the end of a file. */
static bool next_run(struct reader *reader, struct error *err)
{
    int64_t offset;

    if (!sparse_read(&reader->sparse, &offset, &reader->data, err))
        return false;
    if (reader->data.len == 0) {
        offset = reader->sparse.size;
        sparse_reader_finish(&reader->sparse);
        reader->file++;
        if (reader->file < MACHINE_FILES &&
            !sparse_reader_init(&reader->sparse, reader->fds[reader->file], err))
            return false;
    }
    reader->run = (struct machine_run){htobe64((uint64_t)offset), htobe64(reader->data.len)};
    return true;
}

static bool read_next(struct saved_reader *base, struct str *bytes, struct error *err)
{
    struct reader *reader = (struct reader *)base;

    *bytes = (struct str){0};
    if (!reader->has_head) {
        reader->has_head = true;
        *bytes = (struct str){(const char *)&reader->head, sizeof reader->head};
        return true;
    }
    if (reader->data.len > 0) {
        *bytes = reader->data;
        reader->data.len = 0;
        return true;
    }
    if (reader->file == MACHINE_FILES)
        return true;
    if (!next_run(reader, err))
        return false;
    *bytes = (struct str){(const char *)&reader->run, sizeof reader->run};
    return true;
}

static bool writer_open(const struct saved_image *image, struct saved_writer **writer,
                        struct error *err)
{
    struct saved_image held = SAVED_IMAGE_NONE;

    held.folder = fcntl(image->folder, F_DUPFD_CLOEXEC, 0);
    if (image->scratch >= 0)
        held.scratch = fcntl(image->scratch, F_DUPFD_CLOEXEC, 0);
    if (held.folder < 0 || (image->scratch >= 0 && held.scratch < 0)) {
        error_errno(err, "hold the folder of a saved machine");
        saved_image_finish(&held);
        return false;
    }
    struct writer *made = alloc(sizeof *made);
    *made = (struct writer){
        .base = {.form = &saved_form_machine},
        .image = held,
        .fds = {-1, -1, -1},
        .wanted = sizeof(struct machine_head),
        .piece = alloc(SPARSE_RUN_MAX),
    };
    *writer = &made->base;
    return true;
}

static bool make_file(struct writer *writer, size_t i, uint64_t size, struct error *err)
{
    if (size > (uint64_t)files[i].max_size)
        return damaged(err, "is too large");
    writer->sizes[i] = (int64_t)size;
    if (i == MACHINE_FILE_SCRATCH && !saved_scratch_make(&writer->image, &writer->fds[i], err))
        return false;
    if (i != MACHINE_FILE_SCRATCH)
        writer->fds[i] = openat(writer->image.folder, files[i].name,
                                O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return (writer->fds[i] >= 0 && ftruncate(writer->fds[i], (off_t)size) == 0) ||
           error_errno(err, "make the %s of a saved machine", files[i].name);
}

static bool take_head(struct writer *writer, struct error *err)
{
    struct machine_head head;

    memcpy(&head, writer->piece, sizeof head);
    if (memcmp(head.magic, MACHINE_MAGIC, sizeof MACHINE_MAGIC) != 0 ||
        be32toh(head.version) != MACHINE_VERSION || be32toh(head.block) != SPARSE_BLOCK)
        return damaged(err, "has a head of something else");
    for (size_t i = 0; i < MACHINE_FILES; i++)
        if (!make_file(writer, i, be64toh(head.sizes[i]), err))
            return false;
    writer->phase = PHASE_RUN;
    return true;
}

static bool end_file(struct writer *writer, uint64_t offset, struct error *err)
{
    if (offset != (uint64_t)writer->sizes[writer->file])
        return damaged(err, "has a file that ends too early");
    writer->at = 0;
    writer->file++;
    if (writer->file == MACHINE_FILES)
        writer->phase = PHASE_OVER;
    return true;
}

/* Runs go forward and lie within the file: nothing is written twice, or outside. */
static bool take_run(struct writer *writer, struct error *err)
{
    struct machine_run run;

    memcpy(&run, writer->piece, sizeof run);
    uint64_t offset = be64toh(run.offset), len = be64toh(run.len);
    if (len == 0)
        return end_file(writer, offset, err);
    uint64_t size = (uint64_t)writer->sizes[writer->file];
    if (len > SPARSE_RUN_MAX || offset > size || len > size - offset ||
        offset < (uint64_t)writer->at || offset % SPARSE_BLOCK != 0 ||
        (len % SPARSE_BLOCK != 0 && offset + len != size))
        return damaged(err, "has blocks where none can be");
    writer->offset = (int64_t)offset;
    writer->wanted = len;
    writer->phase = PHASE_DATA;
    return true;
}

static bool take_data(struct writer *writer, size_t len, struct error *err)
{
    writer->at = writer->offset + (int64_t)len;
    writer->phase = PHASE_RUN;
    return sparse_write(writer->fds[writer->file], writer->offset, (struct str){writer->piece, len},
                        err);
}

/* What was waited for is there. */
static bool step(struct writer *writer, struct error *err)
{
    size_t len = writer->filled;

    writer->filled = 0;
    writer->wanted = sizeof(struct machine_run);
    switch (writer->phase) {
    case PHASE_HEAD: return take_head(writer, err);
    case PHASE_RUN: return take_run(writer, err);
    case PHASE_DATA: return take_data(writer, len, err);
    case PHASE_OVER: break;
    }
    return damaged(err, "goes on after its end");
}

static bool write_next(struct saved_writer *base, struct str bytes, struct error *err)
{
    struct writer *writer = (struct writer *)base;

    while (bytes.len > 0) {
        size_t room = writer->wanted - writer->filled, n = bytes.len < room ? bytes.len : room;

        if (writer->phase == PHASE_OVER)
            return damaged(err, "goes on after its end");
        memcpy(writer->piece + writer->filled, bytes.ptr, n);
        writer->filled += n;
        bytes = (struct str){bytes.ptr + n, bytes.len - n};
        if (writer->filled == writer->wanted && !step(writer, err))
            return false;
    }
    return true;
}

static bool writer_end(struct saved_writer *base, struct error *err)
{
    struct writer *writer = (struct writer *)base;

    return writer->phase == PHASE_OVER || damaged(err, "was cut off");
}

static void writer_close(struct saved_writer *base)
{
    struct writer *writer = (struct writer *)base;

    saved_image_finish(&writer->image);
    close_all(writer->fds);
    free(writer->piece);
    free(writer);
}

const struct saved_form saved_form_machine = {
    .reader_open = reader_open,
    .read = read_next,
    .reader_close = reader_close,
    .writer_open = writer_open,
    .write = write_next,
    .writer_end = writer_end,
    .writer_close = writer_close,
};

static bool seal(int memory, struct error *err)
{
    const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    int has = fcntl(memory, F_GET_SEALS);

    return (has >= 0 && (has & seals) == seals) || fcntl(memory, F_ADD_SEALS, seals) == 0 ||
           error_errno(err, "seal the memory of a saved machine");
}

bool saved_memory_merge(const struct saved_image *image, int changes, int *memory,
                        struct error *err)
{
    AUTO_FD int made = memfd_create("helmr-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (made < 0)
        return error_errno(err, "make the memory of a saved machine");
    if (!sparse_copy_over(image->memory, changes, made, err))
        return false;
    *memory = take_fd(&made);
    return true;
}

/* Once the changes are in it nothing else must come to it any more. */
static bool changes_join(struct saved_image *image, struct error *err)
{
    AUTO_FD int changes = -1;
    AUTO_FD int whole = -1;

    if (!saved_changes_open(image, &changes, err))
        return false;
    if (changes < 0)
        return true;
    if (!saved_memory_merge(image, changes, &whole, err))
        return false;
    if (unlinkat(image->folder, MACHINE_CHANGES, 0) != 0)
        return error_errno(err, "remove the changes of a saved machine");
    close(image->memory);
    image->memory = take_fd(&whole);
    return true;
}

bool saved_machine_share(struct engine_host *host UNUSED, struct saved_image *image,
                         struct error *err)
{
    if (image->memory >= 0)
        return changes_join(image, err) && seal(image->memory, err);
    AUTO_FD int from = open_saved(image, MACHINE_MEMORY);
    AUTO_FD int to = memfd_create("helmr-template", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (from < 0 || to < 0)
        return error_errno(err, "open the memory of a saved machine");
    if (!sparse_copy(from, to, err) || !seal(to, err))
        return false;
    if (unlinkat(image->folder, MACHINE_MEMORY, 0) != 0)
        return error_errno(err, "remove the memory of a saved machine");
    image->memory = take_fd(&to);
    return true;
}
