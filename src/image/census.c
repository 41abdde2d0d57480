#include "image/census.h"

#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/json.h"
#include "base/own.h"
#include "image/config.h"
#include "image/usage.h"

enum { NAMES_MAX = 4000000, NOTE_MAX = 4096, STEP_MAX = 4096 };

struct thing *census_add(struct census *census, enum thing_kind kind, const char *folder,
                         const char *name)
{
    struct thing *thing = arena_alloc(&census->arena, sizeof *thing);

    thing->kind = kind;
    thing->folder = folder;
    thing->name = arena_text(&census->arena, str_of(name));
    if (census->n == census->room) {
        census->room = census->room ? census->room * 2 : 256;
        census->things = alloc_more(census->things, census->room * sizeof *census->things);
    }
    census->things[census->n++] = thing;
    return thing;
}

static bool list_blobs(struct census *census, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct image_store *store = census->store;

    if (!disk_list(store->blobs_fd, NAMES_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        struct stat facts;
        if (!sha256_hex_is_valid(str_of(names.names[i])) ||
            fstatat(store->blobs_fd, names.names[i], &facts, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        struct thing *thing = census_add(census, THING_BLOB, NULL, names.names[i]);
        thing->size = facts.st_size;
        thing->used = facts.st_mtim;
        map_put(&census->blobs, str_of(thing->name), thing);
    }
    return true;
}

/* A layer of an older version has no note: its size is counted, its last use unknown. */
static bool look_at_layer(struct census *census, struct thing *thing)
{
    struct image_store *store = census->store;
    AUTO_FD int note = openat(store->unpacked_fd, thing->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_FREE char *text = NULL;
    struct error ignored;
    struct stat facts;

    if (note >= 0 && fstat(note, &facts) == 0 &&
        fd_read_all(note, thing->name, NOTE_MAX, &text, &ignored) &&
        json_find_int(str_of(text), "bytes", &thing->size)) {
        thing->used = facts.st_mtim;
        return true;
    }
    if (fstatat(store->layers_fd, thing->name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    thing->used = facts.st_ctim;
    thing->size = usage_of(store->layers_fd, thing->name);
    return true;
}

static bool list_layers(struct census *census, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};

    if (!disk_list(census->store->layers_fd, NAMES_MAX, &names, err))
        return false;
    for (size_t i = 0; i < names.n; i++) {
        struct thing *thing = census_add(census, THING_LAYER, NULL, names.names[i]);
        if (look_at_layer(census, thing))
            map_put(&census->layers, str_of(thing->name), thing);
        else
            census->n--;
    }
    return true;
}

static void reach(const struct map *things, const char *name, unsigned how)
{
    struct thing *thing = map_find(things, str_of(name));

    if (thing)
        thing->reach |= how;
}

static void reach_image(struct census *census, const char *digest, unsigned how)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct manifest_blobs blobs;
    struct image_document document;
    struct error ignored;

    /* A manifest that cannot be read is kept: to verify is another's business. */
    reach(&census->blobs, digest_hex(digest), how | REACH_PART);
    if (!manifest_load(census->store, digest, &arena, &blobs, &ignored))
        return;
    for (size_t i = 0; i < blobs.n; i++)
        reach(&census->blobs, digest_hex(blobs.items[i].digest),
              how | (i < BLOB_LAYERS ? REACH_PART : 0));
    if (!document_load(census->store, digest, &arena, &document, &ignored))
        return;
    for (size_t i = 0; i < document.image.n_layers; i++)
        reach(&census->layers, document.image.layers[i].chain, how);
}

static bool reach_names(struct census *census, struct error *err)
{
    AUTO(arena_finish) struct arena arena = {0};
    const struct image_entry *entries;
    size_t n;

    if (!image_list(census->store, &arena, &entries, &n, err))
        return false;
    for (size_t i = 0; i < n; i++)
        reach_image(census, entries[i].digest,
                    reference_is_local(entries[i].reference) ? REACH_LOCAL : REACH_NAME);
    return true;
}

static void reach_holds(struct census *census)
{
    for (size_t i = 0; i < census->n; i++) {
        struct thing *thing = census->things[i];
        const struct map *held =
            thing->kind == THING_BLOB ? &census->holds.blobs : &census->holds.layers;
        if (holds_have(held, thing->name))
            thing->reach |= REACH_HELD;
    }
}

static void read_step(struct census *census, struct thing *step, int folder)
{
    AUTO(arena_finish) struct arena arena = {0};
    AUTO_FD int fd = openat(folder, step->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    AUTO_FREE char *text = NULL;
    struct error ignored;
    struct str digest;
    struct stat facts;

    if (fd < 0 || fstat(fd, &facts) != 0)
        return;
    step->used = facts.st_mtim;
    step->size = facts.st_size;
    step->has_layer = true;
    if (!fd_read_all(fd, step->name, STEP_MAX, &text, &ignored))
        return;
    if (!json_find_text(str_of(text), "digest", &arena, &digest) || !digest_is_valid(digest)) {
        step->has_layer = false;
        return;
    }
    step->blob = map_find(&census->blobs, str_of(digest_hex(digest.ptr)));
}

static bool list_steps_in(struct census *census, const char *folder, struct error *err);

static bool list_step(struct census *census, int folder, const char *path, const char *name,
                      struct error *err)
{
    struct stat facts;

    if (fstatat(folder, name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return true;
    if (S_ISREG(facts.st_mode))
        read_step(census, census_add(census, THING_STEP, path, name), folder);
    if (S_ISDIR(facts.st_mode) && strcmp(path, "oci/steps") == 0)
        return list_steps_in(census, arena_printf(&census->arena, "oci/steps/%s", name), err);
    return true;
}

static bool list_steps_in(struct census *census, const char *folder, struct error *err)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    AUTO_FD int fd = -1;

    fd = open(arena_printf(&census->arena, "%s/%s", census->store->work, folder),
              O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || !disk_list(fd, NAMES_MAX, &names, err))
        return fd < 0 ? error_errno(err, "open %s", folder) : false;
    for (size_t i = 0; i < names.n; i++)
        if (!list_step(census, fd, folder, names.names[i], err))
            return false;
    return true;
}

static void reach_steps(struct census *census)
{
    for (size_t i = 0; i < census->n; i++)
        if (census->things[i]->kind == THING_STEP && census->things[i]->blob)
            census->things[i]->blob->reach |= REACH_STEP;
}

static bool lock_census(struct image_store *store, bool may_wait, int *lock, struct error *err)
{
    static const char name[] = "collector-lock";

    if (may_wait)
        return disk_lock(store->oci_fd, name, false, lock, err);
    return disk_try_lock(store->oci_fd, name, lock, err) &&
           (*lock >= 0 || error_set(err, ERR_CONFLICT, "another process looks through it"));
}

bool census_open(struct image_store *store, bool may_wait, struct census *census, struct error *err)
{
    *census = (struct census){.store = store, .lock = -1};
    /* The holds first: what ends its work later has named its result before. */
    bool ok = lock_census(store, may_wait, &census->lock, err) &&
              holds_read(store, &census->holds, err) && list_blobs(census, err) &&
              list_layers(census, err) && list_steps_in(census, "oci/steps", err);
    if (!ok) {
        census_finish(census);
        return error_wrap(err, "looking through the image store");
    }
    reach_holds(census);
    reach_steps(census);
    return true;
}

bool census_take(struct image_store *store, bool may_wait, struct census *census, struct error *err)
{
    if (!census_open(store, may_wait, census, err))
        return false;
    if (reach_names(census, err))
        return true;
    census_finish(census);
    return error_wrap(err, "looking through the image store");
}

void census_finish(struct census *census)
{
    free(census->things);
    map_finish(&census->blobs);
    map_finish(&census->layers);
    holds_finish(&census->holds);
    arena_finish(&census->arena);
    if (census->lock >= 0)
        close(census->lock);
    *census = (struct census){.lock = -1};
}

int64_t census_bytes(const struct census *census)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < census->n; i++)
        if (!census->things[i]->is_gone)
            bytes += census->things[i]->size;
    return bytes;
}

bool census_is_idle(const struct census *census, const struct thing *thing)
{
    return !thing->is_gone && !(thing->reach & REACH_HELD) &&
           stamp_before(thing->used, census->holds.since);
}
