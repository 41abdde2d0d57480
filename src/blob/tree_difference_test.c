/* Trees written as what differs from another: equal to those that were written whole, and stored
 * once. */
#include <stdio.h>
#include <stdlib.h>

#include "base/test.h"
#include "blob/testing.h"
#include "blob/tree_stream.h"
#include "blob/tree_writer.h"

enum { N_TOP = 5, N_SUB = 4, N_FILES = 6, ROUNDS = 60, FILE_MAX = 40000 };

/* A file is what its seed says; 0: there is none. */
struct model {
    uint32_t seed[N_TOP][N_SUB][N_FILES];
    uint32_t mode[N_TOP][N_SUB]; /* of the folder; 0: there is none */
};

struct shelf {
    char path[64];
    struct blob_store *store;
    struct object_backend backend;
    struct seal_keys keys;
};

static void open_shelf(struct shelf *shelf)
{
    struct error err;

    *shelf = (struct shelf){.path = "/tmp/helmr-tree-XXXXXX"};
    if (!mkdtemp(shelf->path) || !blob_store_open(shelf->path, &shelf->store, &err))
        abort();
    shelf->backend = object_backend_of(shelf->store);
    shelf->keys = test_keys(0, 1);
}

static void close_shelf(struct shelf *shelf)
{
    struct error err;

    blob_store_close(shelf->store);
    if (!folder_remove(shelf->path, &err))
        abort();
}

static void drop_writer(struct tree_writer **writer)
{
    tree_writer_destroy(*writer);
}

static uint32_t chance;

static uint32_t any(uint32_t below)
{
    chance = chance * 1664525u + 1013904223u;
    return (chance >> 8) % below;
}

static size_t size_of(uint32_t seed)
{
    return seed % 7 == 0 ? 0 : (seed * 2654435761u) % FILE_MAX;
}

static void change_one(struct model *model)
{
    size_t a = any(N_TOP), b = any(N_SUB), c = any(N_FILES);

    switch (any(8)) {
    case 0: model->seed[a][b][c] = 0; break;
    case 1: model->mode[a][b] = 0700 + any(64); break;
    case 2:
        model->mode[a][b] = 0;
        memset(model->seed[a][b], 0, sizeof model->seed[a][b]);
        break;
    default:
        model->mode[a][b] = model->mode[a][b] ? model->mode[a][b] : 0755;
        model->seed[a][b][c] = 1 + any(100000);
    }
}

/* Writes what is there now; with a `before` that the writer's base is, only what differs. */
struct telling {
    struct tree_writer *writer;
    const struct model *now, *before;
    uint8_t bytes[FILE_MAX];
};

static bool tell(struct telling *telling, enum tree_kind kind, const char *path, uint32_t mode,
                 bool is_same, struct error *err)
{
    const struct tree_entry entry = {
        .kind = kind,
        .path = str_of(path),
        .mode = is_same ? 0 : mode,
        .is_same = is_same,
    };
    return tree_writer_entry(telling->writer, &entry, err);
}

static bool tell_file(struct telling *telling, size_t a, size_t b, size_t c, struct error *err)
{
    const struct model *before = telling->before;
    uint32_t seed = telling->now->seed[a][b][c];
    char path[32];

    snprintf(path, sizeof path, "d%zu/s%zu/f%zu", a, b, c);
    if (!seed)
        return true;
    if (before && before->seed[a][b][c] == seed)
        return tell(telling, TREE_FILE, path, 0, true, err);
    size_t len = size_of(seed);
    const struct tree_entry entry = {
        .kind = TREE_FILE, .path = str_of(path), .mode = 0644, .size = len, .mtime_ns = seed};
    test_noise(seed, telling->bytes, len);
    return tree_writer_entry(telling->writer, &entry, err) &&
           tree_writer_bytes(telling->writer, (struct str){(char *)telling->bytes, len}, true, err);
}

static bool tell_sub(struct telling *telling, size_t a, size_t b, struct error *err)
{
    const struct model *now = telling->now, *before = telling->before;
    char path[32];

    snprintf(path, sizeof path, "d%zu/s%zu", a, b);
    if (!now->mode[a][b])
        return true;
    bool is_same = before && before->mode[a][b] == now->mode[a][b] &&
                   memcmp(before->seed[a][b], now->seed[a][b], sizeof now->seed[a][b]) == 0;
    if (!tell(telling, TREE_DIRECTORY, path, now->mode[a][b], is_same, err))
        return false;
    for (size_t c = 0; c < N_FILES && !is_same; c++)
        if (!tell_file(telling, a, b, c, err))
            return false;
    return true;
}

static bool tell_all(struct telling *telling, struct tree_facts *facts, struct error *err)
{
    const struct model *now = telling->now, *before = telling->before;
    char path[32];

    for (size_t a = 0; a < N_TOP; a++) {
        bool is_same = before && memcmp(before->mode[a], now->mode[a], sizeof now->mode[a]) == 0 &&
                       memcmp(before->seed[a], now->seed[a], sizeof now->seed[a]) == 0;
        snprintf(path, sizeof path, "d%zu", a);
        if (!tell(telling, TREE_DIRECTORY, path, 0755, is_same, err))
            return false;
        for (size_t b = 0; b < N_SUB && !is_same; b++)
            if (!tell_sub(telling, a, b, err))
                return false;
    }
    return tree_writer_end(telling->writer, facts, err);
}

static bool write_model(struct shelf *shelf, const char *base, const struct model *before,
                        const struct model *now, struct tree_facts *facts, struct error *err)
{
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    struct tree_plan plan = {&shelf->backend, &shelf->keys, base ? &reader : NULL};
    struct telling telling = {.now = now, .before = before};

    if (base && !tree_reader_init(&reader, &shelf->backend, &shelf->keys, base, err))
        return false;
    AUTO(drop_writer) struct tree_writer *writer = telling.writer = tree_writer_create(&plan);
    bool fine = tell_all(&telling, facts, err);
    facts->objects = NULL;
    return fine;
}

/* All of the tree as the stream that a guest would be sent. */
static bool stream_of(struct shelf *shelf, const char *manifest, struct buf *out, struct error *err)
{
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    AUTO(tree_stream_finish) struct tree_stream stream = {0};

    *out = (struct buf){.max = MIB(64)};
    if (!tree_reader_init(&reader, &shelf->backend, &shelf->keys, manifest, err))
        return false;
    tree_stream_init(&stream, &reader);
    while (!stream.is_done)
        if (!tree_stream_step(&stream, out, err))
            return false;
    return true;
}

static bool are_equal(struct shelf *shelf, const char *a, const char *b)
{
    AUTO(buf_finish) struct buf one = {0}, other = {0};
    struct error err;

    return stream_of(shelf, a, &one, &err) && stream_of(shelf, b, &other, &err) &&
           str_equal(buf_str(&one), buf_str(&other));
}

TEST(a_difference_makes_the_tree_that_all_of_it_makes)
{
    AUTO(close_shelf) struct shelf shelf;
    struct model before = {0}, now = {0};
    struct tree_facts last, whole, difference;
    struct error err;

    open_shelf(&shelf);
    chance = 1;
    for (int i = 0; i < 60; i++)
        change_one(&now);
    CHECK(write_model(&shelf, NULL, NULL, &now, &last, &err));
    for (int round = 0; round < ROUNDS; round++) {
        before = now;
        for (uint32_t i = any(6); i > 0; i--)
            change_one(&now);
        CHECK(write_model(&shelf, NULL, NULL, &now, &whole, &err));
        CHECK(write_model(&shelf, last.manifest, &before, &now, &difference, &err));
        CHECK_STR(difference.root_digest, whole.root_digest);
        CHECK_STR(difference.tree_digest, whole.tree_digest);
        CHECK(difference.n_entries == whole.n_entries && difference.n_bytes == whole.n_bytes);
        CHECK(round % 20 != 0 || are_equal(&shelf, whole.manifest, difference.manifest));
        last = difference;
    }
    CHECK(are_equal(&shelf, whole.manifest, last.manifest));
}

TEST(what_the_base_has_is_not_stored_again)
{
    AUTO(close_shelf) struct shelf shelf;
    struct model now = {0}, before;
    struct tree_facts first, again, changed;
    struct error err;

    open_shelf(&shelf);
    chance = 2;
    for (int i = 0; i < 300; i++)
        change_one(&now);
    before = now;
    CHECK(write_model(&shelf, NULL, NULL, &now, &first, &err));
    CHECK(first.bytes_new > 500000);
    /* Told in full, and as a difference. */
    CHECK(write_model(&shelf, first.manifest, NULL, &now, &again, &err));
    CHECK(again.n_new == 1 && again.bytes_new < 100000);
    CHECK(again.n_objects == first.n_objects);
    now.mode[2][2] = 0711;
    now.seed[2][2][2] = 4242;
    CHECK(write_model(&shelf, first.manifest, &before, &now, &changed, &err));
    CHECK(changed.n_new == 1 && changed.bytes_new < 200000);
    CHECK(changed.n_objects == first.n_objects);
}

/* A version after the other, each with a pack of its own, for longer than any list may grow. */
TEST(packs_are_folded_before_there_are_too_many)
{
    AUTO(close_shelf) struct shelf shelf;
    struct model before, now = {0};
    struct tree_facts last, whole;
    struct error err;
    size_t most = 0;

    open_shelf(&shelf);
    chance = 3;
    for (int i = 0; i < 200; i++)
        change_one(&now);
    CHECK(write_model(&shelf, NULL, NULL, &now, &last, &err));
    for (int round = 0; round < 150; round++) {
        before = now;
        for (size_t c = 0; c < N_FILES; c++) {
            size_t a = any(N_TOP), b = any(N_SUB);
            for (size_t d = 0; d < N_FILES; d++)
                now.seed[a][b][d] = 1 + any(100000);
            now.mode[a][b] = 0755;
        }
        CHECK(write_model(&shelf, last.manifest, &before, &now, &last, &err));
        most = last.n_objects > most ? last.n_objects : most;
    }
    CHECK(most > 60 && most < 70);
    CHECK(write_model(&shelf, NULL, NULL, &now, &whole, &err));
    CHECK(are_equal(&shelf, whole.manifest, last.manifest));
}

/* A guest that says so of what was never there, or is something else. */
TEST(what_cannot_be_the_same_is_refused)
{
    static const struct tree_entry lies[] = {
        {.kind = TREE_FILE,      .path = STR("d9"), .is_same = true},
        {.kind = TREE_FILE,      .path = STR("d1"), .is_same = true},
        {.kind = TREE_DIRECTORY, .path = STR("e"),  .is_same = true},
    };
    AUTO(close_shelf) struct shelf shelf;
    struct model now = {0};
    struct tree_facts first;
    struct error err;

    open_shelf(&shelf);
    chance = 4;
    for (int i = 0; i < 50; i++)
        change_one(&now);
    CHECK(write_model(&shelf, NULL, NULL, &now, &first, &err));
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        for (int has_base = 0; has_base < 2; has_base++) {
            AUTO(tree_reader_finish) struct tree_reader reader = {0};
            const struct tree_plan plan = {&shelf.backend, &shelf.keys, has_base ? &reader : NULL};
            CHECK(tree_reader_init(&reader, &shelf.backend, &shelf.keys, first.manifest, &err));
            AUTO(drop_writer) struct tree_writer *writer = tree_writer_create(&plan);
            CHECK(!tree_writer_entry(writer, &lies[i], &err) && err.code == ERR_INVALID);
        }
    }
}

TEST(a_tree_knows_whether_its_key_is_the_current_one)
{
    AUTO(close_shelf) struct shelf shelf;
    AUTO(tree_reader_finish) struct tree_reader reader = {0}, later = {0};
    struct model now = {0};
    struct tree_facts facts;
    struct error err;

    open_shelf(&shelf);
    CHECK(write_model(&shelf, NULL, NULL, &now, &facts, &err));
    CHECK(tree_reader_init(&reader, &shelf.backend, &shelf.keys, facts.manifest, &err));
    CHECK(reader.has_key);
    struct seal_key both[2] = {test_key_list[1], test_key_list[0]};
    const struct seal_keys rotated = {SEAL_STORE, both, 2};
    CHECK(tree_reader_init(&later, &shelf.backend, &rotated, facts.manifest, &err));
    CHECK(!later.has_key);
}

TEST_MAIN()
