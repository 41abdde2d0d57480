#include "worker/build_machine.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/own.h"
#include "base/time.h"
#include "image/tree_folder.h"

#define PROJECT "/build"

enum { MOVE_MS = 30 * 60 * 1000, BINDS_MAX = 64 };

static bool is_of_project(const struct sandbox_bind *bind)
{
    return strncmp(bind->target, PROJECT "/", sizeof PROJECT) == 0;
}

/* "source" for /build/source. */
static const char *name_of(const struct sandbox_bind *bind)
{
    return bind->target + sizeof PROJECT;
}

const char *build_machine_mount(const struct build_machine *machine)
{
    for (size_t i = 0; i < machine->job->n_binds; i++)
        if (is_of_project(&machine->job->binds[i]))
            return PROJECT;
    return NULL;
}

static bool give(void *arg, struct buf *piece, bool *is_last, struct error *err)
{
    return tree_pack_step(arg, piece, is_last, err);
}

static void destroy_pack(struct tree_pack **pack)
{
    tree_pack_destroy(*pack);
}

static void destroy_unpack(struct tree_unpack **unpack)
{
    tree_unpack_destroy(*unpack);
}

/* The folders, sorted by their names as the stream wants them. */
static size_t parts_open(const struct build_program *job, struct tree_part parts[BINDS_MAX],
                         struct error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n_binds && n < BINDS_MAX; i++) {
        if (!is_of_project(&job->binds[i]))
            continue;
        int fd = open(job->binds[i].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) {
            error_errno(err, "open %s", job->binds[i].source);
            return SIZE_MAX;
        }
        size_t at = n++;
        for (; at > 0 && strcmp(parts[at - 1].name, name_of(&job->binds[i])) > 0; at--)
            parts[at] = parts[at - 1];
        parts[at] = (struct tree_part){name_of(&job->binds[i]), fd};
    }
    return n;
}

bool build_machine_bring(const struct build_machine *machine, struct guest *guest,
                         struct error *err)
{
    struct tree_part parts[BINDS_MAX];
    AUTO(destroy_pack) struct tree_pack *pack = NULL;
    size_t n = parts_open(machine->job, parts, err);
    bool ok = n != SIZE_MAX;

    if (n == 0)
        return true;
    ok = ok && tree_pack_create(parts, n, &pack, err) &&
         guest_place(guest, "", give, pack, TREE_PACK_PIECE, time_boot_ms() + MOVE_MS, err);
    for (size_t i = 0; n != SIZE_MAX && i < n; i++)
        close(parts[i].folder);
    return ok;
}

static bool take(void *arg, struct str bytes, struct error *err)
{
    return tree_decode(arg, bytes, err);
}

static bool fetch_into(struct guest *guest, bool is_layer, const struct tree_unpack_spec *spec,
                       struct error *err)
{
    AUTO(destroy_unpack) struct tree_unpack *unpack = tree_unpack_create(spec);
    AUTO(tree_decoder_finish) struct tree_decoder decoder = {0};

    const struct guest_wanted wanted = {.is_layer = is_layer};
    struct guest_captured captured;

    tree_decoder_init(&decoder, tree_unpack_entry, tree_unpack_bytes, unpack);
    return guest_capture(guest, &wanted, take, &decoder, time_boot_ms() + MOVE_MS, &captured,
                         err) &&
           tree_decode_end(&decoder, err) && tree_unpack_end(unpack, err);
}

/* What is there was sent in, so it comes back as far as it is still there. */
static bool fetch_folder(struct guest *guest, const struct sandbox_bind *bind, struct error *err)
{
    if (!folder_remove(bind->source, err) || !directory_make(bind->source, 0755, err))
        return false;
    AUTO_FD int root = open(bind->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, "open %s", bind->source);
    const struct tree_unpack_spec spec = {.kind = TREE_OF_PROJECT,
                                          .root = root,
                                          .below = name_of(bind)};
    return fetch_into(guest, false, &spec, err);
}

static bool fetch_layer(const struct build_program *job, struct guest *guest, struct error *err)
{
    const char *without[BINDS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < job->n_binds && n < BINDS_MAX; i++)
        without[n++] = job->binds[i].target + 1;
    AUTO_FD int root = open(job->upper, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, "open %s", job->upper);
    const struct tree_unpack_spec spec = {
        .kind = TREE_OF_LAYER, .root = root, .below = "", .without = without, .n_without = n};
    return fetch_into(guest, true, &spec, err);
}

static bool fetch_all(const struct build_program *job, struct guest *guest, struct error *err)
{
    for (size_t i = 0; i < job->n_binds; i++)
        if (job->binds[i].writable && is_of_project(&job->binds[i]) &&
            !fetch_folder(guest, &job->binds[i], err))
            return false;
    return !job->is_layer || fetch_layer(job, guest, err);
}

/* An adapter is ended when it has said how it went. */
static bool is_well(const struct guest_result *result)
{
    if (result->has_outcome)
        return result->outcome == OUTCOME_SUCCEEDED;
    return result->exit_code == 0 && result->signal == 0 && !result->has_load_failure;
}

bool build_machine_fetch(const struct build_machine *machine, struct guest *guest,
                         const struct guest_result *result, struct error *err)
{
    if (!is_well(result) || fetch_all(machine->job, guest, err))
        return true;
    return failure_set(machine->failure, "guest_runtime", "disk_full", "capture", true, "%s",
                       err->text);
}
