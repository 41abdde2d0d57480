/* Differences that a walk tells over its table, held against walks that tell everything. */
#include "guest/seen.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/test.h"
#include "guest/overlays.h"
#include "guest/random_files.h"
#include "guest/walk.h"

enum { ROUNDS = 200, LINE = 256 };

/* A tree as lines, each with its path before it; what a host would have of it. */
struct copy {
    struct arena arena;
    struct {
        const char *path, *line;
        uint64_t group;
    } items[4096];
    size_t n;
};

/* A decoder's view: a new copy, with what is the same taken from the one before. */
struct reading {
    const struct copy *before;
    struct copy *now;
    struct blake2b hash;
    char line[LINE];
    size_t n_told; /* files whose contents came */
    bool is_lost;  /* something was said to be the same that was not there */
};

static void add(struct copy *copy, const char *path, const char *line, uint64_t group)
{
    copy->items[copy->n].path = arena_text(&copy->arena, str_of(path));
    copy->items[copy->n].line = arena_text(&copy->arena, str_of(line));
    copy->items[copy->n++].group = group;
}

static void take_same(struct reading *reading, const char *path, const struct tree_entry *entry)
{
    const struct copy *before = reading->before;
    size_t len = strlen(path), n = reading->now->n;

    for (size_t i = 0; i < before->n; i++) {
        bool is_it = strcmp(before->items[i].path, path) == 0;
        bool is_inside = entry->kind == TREE_DIRECTORY &&
                         strncmp(before->items[i].path, path, len) == 0 &&
                         before->items[i].path[len] == '/';
        if (is_it || is_inside)
            add(reading->now, before->items[i].path, before->items[i].line,
                is_it ? entry->link_group : 0);
    }
    reading->is_lost = reading->is_lost || reading->now->n == n;
}

static bool read_entry(void *arg, const struct tree_entry *entry, struct error *err UNUSED)
{
    struct reading *reading = arg;
    char path[TREE_PATH_MAX];
    struct str xattrs = entry->xattrs;

    snprintf(path, sizeof path, "%.*s", (int)entry->path.len, entry->path.ptr);
    blake2b_init(&reading->hash, (struct str){0});
    if (entry->is_same) {
        take_same(reading, path, entry);
        return true;
    }
    snprintf(reading->line, sizeof reading->line, "%d %o %lld %llu >%.*s %zu%s%s", (int)entry->kind,
             entry->mode, (long long)entry->mtime_ns, (unsigned long long)entry->size,
             (int)entry->target.len, entry->target.ptr ? entry->target.ptr : "", xattrs.len,
             entry->is_linked ? " linked" : "", entry->is_opaque ? " opaque" : "");
    add(reading->now, path, reading->line, entry->link_group);
    return true;
}

static bool read_bytes(void *arg, struct str bytes, bool is_last, struct error *err UNUSED)
{
    struct reading *reading = arg;
    uint8_t digest[BLAKE2B_LEN];
    size_t last = reading->now->n - 1;

    blake2b_update(&reading->hash, bytes);
    if (!is_last)
        return true;
    reading->n_told++;
    blake2b_final(&reading->hash, digest);
    reading->now->items[last].line = arena_printf(&reading->now->arena, "%s %02x%02x%02x%02x%02x",
                                                  reading->now->items[last].line, digest[0],
                                                  digest[1], digest[2], digest[3], digest[4]);
    return true;
}

struct place {
    char path[64];
    int fd;       /* what was changed */
    int merged;   /* as programs see it; the same unless there is an image below */
    int lower_fd; /* the image, or -1 */
    struct seen seen;
    struct copy *known; /* what the host has */
};

static bool run_walk(struct walk *walk, struct reading *reading, struct error *err)
{
    AUTO(tree_decoder_finish) struct tree_decoder decoder;
    AUTO(buf_finish) struct buf piece = {.max = 1 << 20};

    tree_decoder_init(&decoder, read_entry, read_bytes, reading);
    decoder.takes_differences = true;
    while (!walk->is_done) {
        piece.len = 0;
        if (!walk_step(walk, &piece, err) ||
            (piece.len && !tree_decode(&decoder, buf_str(&piece), err)))
            return false;
    }
    return tree_decode_end(&decoder, err);
}

/* As CAPTURE does: what is known is compared with what is there, and becomes it. */
static bool capture(struct place *place, bool is_live, struct copy *now, size_t *n_told,
                    bool *is_difference, struct error *err)
{
    AUTO(walk_finish) struct walk walk;
    struct reading reading = {.before = place->known, .now = now};

    walk_init(&walk, place->fd, NULL, NULL);
    walk.lower_fd = place->lower_fd;
    walk.seen = &place->seen;
    walk.is_live = is_live;
    seen_drain(&place->seen);
    walk.is_difference = place->seen.root && !seen_links_are_touched(&place->seen, place->fd);
    *is_difference = walk.is_difference;
    if (!walk.is_difference)
        seen_forget(&place->seen, NULL);
    walk.is_remembering = seen_begin(&place->seen, place->merged);
    if (!run_walk(&walk, &reading, err))
        return false;
    seen_commit(&place->seen, TAKE(walk.made), "mark", is_live);
    *n_told = reading.n_told;
    return !reading.is_lost || error_set(err, ERR_INVALID, "the same as nothing");
}

static bool capture_all(struct place *place, struct copy *now, struct error *err)
{
    AUTO(walk_finish) struct walk walk;
    struct reading reading = {.now = now};

    walk_init(&walk, place->fd, NULL, NULL);
    walk.lower_fd = place->lower_fd;
    return run_walk(&walk, &reading, err);
}

static bool are_equal(const struct copy *a, const struct copy *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        if (strcmp(a->items[i].path, b->items[i].path) != 0 ||
            strcmp(a->items[i].line, b->items[i].line) != 0 ||
            a->items[i].group != b->items[i].group) {
            printf("# %s %s %d\n# %s %s %d\n", a->items[i].path, a->items[i].line,
                   (int)a->items[i].group, b->items[i].path, b->items[i].line,
                   (int)b->items[i].group);
            return false;
        }
    }
    return a->n == b->n;
}

static void copy_destroy(struct copy *copy)
{
    if (copy)
        arena_finish(&copy->arena);
    free(copy);
}

static void copy_release(struct copy **copy)
{
    copy_destroy(*copy);
}

static struct copy *copy_create(void)
{
    struct copy *copy = alloc(sizeof *copy);

    memset(copy, 0, sizeof *copy);
    return copy;
}

static void place_open(struct place *place)
{
    *place = (struct place){.path = "/tmp/helmr-seen-XXXXXX", .lower_fd = -1};
    if (!mkdtemp(place->path))
        abort();
    place->fd = place->merged = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    seen_init(&place->seen);
    place->known = copy_create();
}

static void place_close(struct place *place)
{
    struct error err;

    seen_finish(&place->seen);
    close(place->fd);
    copy_destroy(place->known);
    if (!folder_remove(place->path, &err))
        abort();
}

/* One capture and one full walk, which must agree. */
static bool compare(struct place *place, bool is_live, size_t *n_told, bool *is_difference)
{
    struct copy *now = copy_create(), *all = copy_create();
    struct error err = {0};

    bool is_told = capture(place, is_live, now, n_told, is_difference, &err);
    if (!is_told && err.code == ERR_CONFLICT) {
        copy_destroy(now);
        now = copy_create();
        err = (struct error){0};
        seen_forget(&place->seen, NULL);
        is_told = capture(place, is_live, now, n_told, is_difference, &err);
    }
    bool is_fine = is_told && capture_all(place, all, &err) && are_equal(now, all);
    if (err.text[0])
        printf("# %s\n", err.text);
    copy_destroy(place->known);
    place->known = now;
    copy_destroy(all);
    return is_fine;
}

TEST(a_difference_and_all_of_it_are_the_same_tree)
{
    AUTO(place_close) struct place place;
    size_t n_told, n_differences = 0;
    bool is_difference;

    place_open(&place);
    for (int i = 0; i < 200; i++)
        do_something(place.fd);
    CHECK(compare(&place, false, &n_told, &is_difference) && !is_difference);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = any(5); i > 0; i--)
            do_something(place.fd);
        CHECK(compare(&place, any(3) == 0, &n_told, &is_difference));
        n_differences += is_difference;
    }
    CHECK(n_differences > ROUNDS / 4);
}

/* The same over an image, parts of which are changed, moved and removed. */
TEST(a_difference_over_an_image_is_told_as_well)
{
    AUTO(overlays_finish) struct overlays overlays = {0};
    struct place place = {.merged = -1};
    size_t n_told, n_differences = 0;
    bool is_difference;

    if (!overlays_make(&overlays, 1))
        SKIP("no overlay can be mounted here");
    place.fd = overlays.upper[0];
    place.merged = overlays.merged[0];
    place.lower_fd = overlays.lower;
    seen_init(&place.seen);
    place.known = copy_create();
    CHECK(compare(&place, false, &n_told, &is_difference) && !is_difference);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = any(5); i > 0; i--)
            do_something(place.merged);
        CHECK(compare(&place, any(3) == 0, &n_told, &is_difference));
        n_differences += is_difference;
    }
    CHECK(n_differences > ROUNDS / 4);
    seen_finish(&place.seen);
    copy_destroy(place.known);
}

/* What only the image has is in no capture, and no event of the directory above tells of it. */
TEST(what_happens_in_a_directory_of_the_image_is_noticed)
{
    AUTO(overlays_finish) struct overlays overlays = {0};
    struct place place = {.merged = -1};
    size_t n_told;
    bool is_difference;

    if (!overlays_make(&overlays, 1))
        SKIP("no overlay can be mounted here");
    CHECK(mkdirat(overlays.lower, "both", 0755) == 0);
    CHECK(mkdirat(overlays.lower, "both/image", 0755) == 0);
    CHECK(mkdirat(overlays.lower, "both/image/deep", 0755) == 0);
    write_some(overlays.lower, "both/image/deep/old", 0, "old");
    CHECK(overlays_renew(&overlays));
    write_some(overlays.merged[0], "both/made", 0, "made");
    place.fd = overlays.upper[0];
    place.merged = overlays.merged[0];
    place.lower_fd = overlays.lower;
    seen_init(&place.seen);
    place.known = copy_create();
    CHECK(compare(&place, false, &n_told, &is_difference) && n_told == 1);
    write_some(place.merged, "both/image/deep/old", O_APPEND, " and new");
    CHECK(compare(&place, false, &n_told, &is_difference) && is_difference && n_told == 1);
    write_some(place.merged, "both/image/deep/another", 0, "new");
    CHECK(compare(&place, false, &n_told, &is_difference) && is_difference && n_told == 1);
    seen_finish(&place.seen);
    copy_destroy(place.known);
}

TEST(only_what_changed_is_read)
{
    AUTO(place_close) struct place place;
    size_t n_told;
    bool is_difference;

    place_open(&place);
    CHECK(mkdirat(place.fd, "a", 0755) == 0 && mkdirat(place.fd, "a/b", 0755) == 0);
    for (int i = 0; i < 100; i++) {
        char path[64];
        snprintf(path, sizeof path, "a/b/file%d", i);
        write_some(place.fd, path, 0, "content");
        snprintf(path, sizeof path, "a/file%d", i);
        write_some(place.fd, path, 0, "content");
    }
    CHECK(compare(&place, false, &n_told, &is_difference) && n_told == 200);
    CHECK(compare(&place, false, &n_told, &is_difference) && is_difference && n_told == 0);
    write_some(place.fd, "a/b/file7", 0, "CONTENT");
    write_some(place.fd, "a/file8", O_APPEND, "!");
    CHECK(compare(&place, false, &n_told, &is_difference) && is_difference && n_told == 2);
    write_in_disguise(place.fd, "a/b/file9");
    CHECK(compare(&place, false, &n_told, &is_difference) && is_difference && n_told == 1);
}

/* A file in memory that is written through a mapping keeps its times, and who has it open need not
 * open it again. */
TEST(what_a_program_that_lives_has_open_is_always_read)
{
    AUTO(place_close) struct place place;
    size_t n_told;
    bool is_difference;

    place_open(&place);
    write_some(place.fd, "other", 0, "other");
    CHECK(compare(&place, false, &n_told, &is_difference) && n_told == 1);
    /* The walks of this test open files, too, so it counts no more than that. */
    AUTO_FD int fd = openat(place.fd, "mapped", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(bytes != MAP_FAILED);
    bytes[0] = 'a';
    CHECK(compare(&place, true, &n_told, &is_difference) && is_difference && n_told > 0);
    bytes[0] = 'b';
    CHECK(compare(&place, true, &n_told, &is_difference) && is_difference && n_told > 0);
    bytes[0] = 'c';
    munmap(bytes, 4096);
    close(take_fd(&fd));
    CHECK(compare(&place, false, &n_told, &is_difference) && is_difference && n_told > 0);
    CHECK(compare(&place, false, &n_told, &is_difference) && is_difference && n_told == 0);
}

TEST(a_link_from_a_new_folder_is_no_difference)
{
    AUTO(place_close) struct place place;
    AUTO(copy_release) struct copy *now = copy_create(), *again = copy_create();
    size_t n_told;
    bool is_difference;
    struct error err = {0};

    place_open(&place);
    CHECK(mkdirat(place.fd, "a", 0755) == 0);
    write_some(place.fd, "a/old", 0, "content");
    CHECK(capture(&place, false, place.known, &n_told, &is_difference, &err));
    seen_drain(&place.seen);
    CHECK(capture(&place, false, again, &n_told, &is_difference, &err) && is_difference);
    CHECK(mkdirat(place.fd, "new", 0755) == 0);
    CHECK(linkat(place.fd, "a/old", place.fd, "new/name", 0) == 0);
    CHECK(!capture(&place, false, now, &n_told, &is_difference, &err) && err.code == ERR_CONFLICT);
    seen_forget(&place.seen, NULL);
    CHECK(compare(&place, false, &n_told, &is_difference) && !is_difference);
}

TEST(a_table_past_its_bounds_says_so)
{
    AUTO(place_close) struct place place;
    size_t n_told;
    bool is_difference;

    place_open(&place);
    CHECK(compare(&place, false, &n_told, &is_difference) && place.seen.root);
    place.seen.n_bytes += SEEN_BYTES_MAX;
    write_some(place.fd, "one", 0, "more");
    struct seen_folder *folder = seen_folder_make(&place.seen, NULL, "", 1);
    CHECK(place.seen.lack);
    seen_folder_destroy(&place.seen, folder);
    place.seen.n_bytes -= SEEN_BYTES_MAX;
    seen_forget(&place.seen, place.seen.lack);
    CHECK(!place.seen.root && place.seen.lack && place.seen.n_bytes == 0);
    CHECK(compare(&place, false, &n_told, &is_difference) && !is_difference && n_told > 0);
    CHECK(place.seen.root && !place.seen.lack);
}

TEST_MAIN()
