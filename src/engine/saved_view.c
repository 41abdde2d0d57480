#include "engine/saved_view.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/own.h"
#include "engine/saved_machine.h"
#include "engine/sparse.h"

enum { RUNS_FIRST = 1024 };

/* A run with its header before it. */
struct placed {
    uint64_t at; /* in the stream, of the header */
    int64_t offset;
    size_t len;
};

struct saved_view {
    const char *memory;
    int64_t size;
    struct placed *runs;
    size_t n, cap;
};

static void add(struct saved_view *view, int64_t offset, size_t len)
{
    const struct placed *last = view->n ? &view->runs[view->n - 1] : NULL;
    uint64_t at =
        last ? last->at + sizeof(struct machine_run) + last->len : sizeof(struct machine_head);

    if (view->n == view->cap) {
        view->cap = view->cap ? 2 * view->cap : RUNS_FIRST;
        view->runs = alloc_more(view->runs, view->cap * sizeof *view->runs);
    }
    view->runs[view->n++] = (struct placed){at, offset, len};
}

static bool find_runs(struct saved_view *view, int memory, struct error *err)
{
    AUTO(sparse_reader_finish) struct sparse_reader reader = {0};
    struct str bytes;
    int64_t offset;

    if (!sparse_reader_init(&reader, memory, err))
        return false;
    view->size = reader.size;
    do {
        if (!sparse_read(&reader, &offset, &bytes, err))
            return false;
        if (bytes.len > 0)
            add(view, offset, bytes.len);
    } while (bytes.len > 0);
    return true;
}

bool saved_view_open(const struct saved_image *image, struct saved_view **view, struct error *err)
{
    const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK;
    int seals = image->memory >= 0 ? fcntl(image->memory, F_GET_SEALS) : -1;

    if (seals < 0 || (seals & wanted) != wanted)
        return error_set(err, ERR_UNSUPPORTED, "the memory of the image is not sealed");
    struct saved_view *made = alloc(sizeof *made);
    *made = (struct saved_view){0};
    if (!find_runs(made, image->memory, err)) {
        saved_view_close(made);
        return false;
    }
    void *memory = mmap(NULL, (size_t)made->size, PROT_READ, MAP_SHARED, image->memory, 0);
    if (memory == MAP_FAILED) {
        error_errno(err, "map the memory of the image");
        saved_view_close(made);
        return false;
    }
    made->memory = memory;
    *view = made;
    return true;
}

void saved_view_close(struct saved_view *view)
{
    if (!view)
        return;
    if (view->memory)
        (void)munmap((void *)(uintptr_t)view->memory, (size_t)view->size);
    free(view->runs);
    free(view);
}

/* The run whose header or data is at the offset; NULL: none. */
static const struct placed *run_at(const struct saved_view *view, uint64_t offset)
{
    size_t low = 0, high = view->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (view->runs[middle].at <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const struct placed *run = &view->runs[low - 1];
    return offset - run->at < sizeof(struct machine_run) + run->len ? run : NULL;
}

/* What there is in one piece at `skip` bytes into the run. */
static struct str piece_of(const struct saved_view *view, const struct placed *run, size_t skip,
                           struct machine_run *header)
{
    *header = (struct machine_run){htobe64((uint64_t)run->offset), htobe64(run->len)};
    if (skip < sizeof *header)
        return (struct str){(const char *)header + skip, sizeof *header - skip};
    skip -= sizeof *header;
    return (struct str){view->memory + run->offset + skip, run->len - skip};
}

bool saved_view_find(const struct saved_view *view, uint64_t offset, size_t len, char *room,
                     struct str *bytes)
{
    struct machine_run header;

    for (size_t done = 0; done < len;) {
        const struct placed *run = run_at(view, offset + done);

        if (!run)
            return false;
        struct str piece = piece_of(view, run, (size_t)(offset + done - run->at), &header);
        bool is_memory = piece.ptr >= view->memory && piece.ptr < view->memory + view->size;
        if (done == 0 && piece.len >= len && is_memory) {
            *bytes = (struct str){piece.ptr, len};
            return true;
        }
        size_t n = piece.len < len - done ? piece.len : len - done;
        memcpy(room + done, piece.ptr, n);
        done += n;
    }
    *bytes = (struct str){room, len};
    return true;
}
