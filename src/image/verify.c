/* image_verify: every byte of every blob, read back. */
#include "image/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#include "base/file.h"
#include "base/own.h"

enum { CHUNK = 1024 * 1024, LEFTOVERS_MAX = 1000000 };

void verify_problem(struct verifier *verifier, const char *what, const char *cure, const char *fmt,
                    ...)
{
    struct image_verdict *verdict = verifier->verdict;
    size_t at = verdict->n_problems++;
    va_list args;

    if (at >= IMAGE_PROBLEMS_MAX)
        return;
    struct image_problem *problem = &verdict->problems[at];
    (void)snprintf(problem->what, sizeof problem->what, "%s", what);
    (void)snprintf(problem->cure, sizeof problem->cure, "%s", cure);
    va_start(args, fmt);
    (void)vsnprintf(problem->text, sizeof problem->text, fmt, args);
    va_end(args);
}

static bool hash_plain(int fd, char digest[DIGEST_TEXT], struct error *err)
{
    AUTO_FREE char *buffer = alloc(CHUNK);
    AUTO(sha256_finish) struct sha256 hash;
    ssize_t n;

    sha256_init(&hash);
    while ((n = read(fd, buffer, CHUNK)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_errno(err, "read");
        sha256_update(&hash, (struct str){buffer, (size_t)n});
    }
    digest_take(&hash, digest);
    return true;
}

/* A layer is also inflated, and what comes out compared with what its image says. */
static bool hash_layer(int fd, char digest[DIGEST_TEXT], char diff[DIGEST_TEXT], struct error *err)
{
    TAR_UTF8_SCOPE;
    AUTO(tar_reader_finish) struct tar_reader reader = {0};
    int64_t most = TAR_BYTES_MAX + (int64_t)TAR_ENTRIES_MAX * 2048;

    return tar_reader_open(&reader, fd, TAR_MAY_BE_COMPRESSED, most, err) &&
           tar_reader_end(&reader, digest, diff, err);
}

static const char *cure_of(const struct thing *thing, bool is_repair)
{
    if (thing->reach & REACH_NAME)
        return is_repair ? "removed with the names that need it: pull or bootstrap them again"
                         : "helmr image verify --repair, then pull or bootstrap its image again";
    if (thing->reach & REACH_LOCAL)
        return is_repair ? "removed: it is fetched from the server when needed"
                         : "helmr image verify --repair; it is then fetched from the server";
    return is_repair ? "removed: the step that made it runs again when needed"
                     : "helmr image verify --repair; no image needs it";
}

static bool take_out(struct verifier *verifier, struct thing *thing, struct error *err)
{
    struct image_store *store = verifier->store;
    AUTO_FD int removal = -1;
    char name[DISK_TEMPORARY];
    struct error ignored;

    disk_temporary(name);
    if (!store_lock_removal(store, false, &removal, err))
        return false;
    if (renameat(store->blobs_fd, thing->name, store->temporary_fd, name) != 0 && errno != ENOENT)
        return error_errno(err, "remove the damaged blob %s", thing->name);
    (void)!tree_remove(store->temporary_fd, name, &ignored);
    thing->is_gone = true;
    verifier->verdict->removed++;
    return true;
}

static void say(const struct verifier *verifier)
{
    const double mib = 1024 * 1024;
    char line[128];

    if (!verifier->progress)
        return;
    (void)snprintf(line, sizeof line, "%.1f of %.1f MiB", (double)verifier->done / mib,
                   (double)verifier->total / mib);
    verifier->progress(verifier->arg, line);
}

static bool check_blob(struct verifier *verifier, struct thing *thing, struct error *err)
{
    const char *diff_id = map_find(&verifier->diffs, str_of(thing->name));
    char digest[DIGEST_TEXT] = "", diff[DIGEST_TEXT] = "", name[DIGEST_TEXT];
    AUTO_FD int fd =
        openat(verifier->store->blobs_fd, thing->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t problems = verifier->verdict->n_problems;
    struct error why;

    (void)snprintf(name, sizeof name, "sha256:%s", thing->name);
    bool ok =
        fd >= 0 && (diff_id ? hash_layer(fd, digest, diff, &why) : hash_plain(fd, digest, &why));
    if (fd < 0)
        verify_problem(verifier, name, cure_of(thing, verifier->is_repair), "cannot be opened: %m");
    else if (!ok)
        verify_problem(verifier, name, cure_of(thing, verifier->is_repair), "%s", why.text);
    else if (strcmp(digest_hex(digest), thing->name) != 0)
        verify_problem(verifier, name, cure_of(thing, verifier->is_repair), "hashes to %s", digest);
    else if (diff_id && strcmp(diff, diff_id) != 0)
        verify_problem(verifier, name, cure_of(thing, verifier->is_repair),
                       "holds %s where its image says %s", diff, diff_id);
    verifier->done += thing->size;
    verifier->verdict->blobs++;
    verifier->verdict->bytes += thing->size;
    say(verifier);
    return !verifier->is_repair || verifier->verdict->n_problems == problems ||
           take_out(verifier, thing, err);
}

static bool check_blobs(struct verifier *verifier, struct error *err)
{
    struct census *census = &verifier->census;

    for (size_t i = 0; i < census->n; i++)
        if (census->things[i]->kind == THING_BLOB)
            verifier->total += census->things[i]->size;
    for (size_t i = 0; i < census->n; i++)
        if (census->things[i]->kind == THING_BLOB && !check_blob(verifier, census->things[i], err))
            return false;
    return true;
}

static void count_rest(struct verifier *verifier)
{
    AUTO(disk_names_finish) struct disk_names names = {0};
    struct image_verdict *verdict = verifier->verdict;
    struct error ignored;

    for (size_t i = 0; i < verifier->census.n; i++) {
        const struct thing *thing = verifier->census.things[i];
        if (thing->kind == THING_STEP) {
            verdict->steps++;
            verdict->stale_steps += thing->has_layer && (!thing->blob || thing->blob->is_gone);
        } else if (thing->kind == THING_LAYER) {
            verdict->layers++;
            verdict->stray_layers += !thing->reach;
        }
    }
    if (disk_list(verifier->store->temporary_fd, LEFTOVERS_MAX, &names, &ignored))
        verdict->leftovers = (int64_t)names.n;
}

static void verifier_finish(struct verifier *verifier)
{
    map_finish(&verifier->diffs);
    census_finish(&verifier->census);
    arena_finish(&verifier->arena);
}

bool image_verify(struct image_store *store, bool is_repair, image_progress *progress, void *arg,
                  struct image_verdict *verdict, struct error *err)
{
    AUTO(verifier_finish)
    struct verifier verifier = {.store = store,
                                .verdict = verdict,
                                .is_repair = is_repair,
                                .progress = progress,
                                .arg = arg,
                                .census.lock = -1};

    *verdict = (struct image_verdict){0};
    if (!census_open(store, true, &verifier.census, err))
        return false;
    verify_images(&verifier);
    if (!check_blobs(&verifier, err))
        return error_wrap(err, "verifying the image store");
    count_rest(&verifier);
    return !is_repair || verify_drop_names(&verifier, err);
}
