/* Trees through the store: written as a guest's stream comes, read back by their manifest. */
#include <pthread.h>
#include <stdio.h>

#include "base/file.h"
#include "base/test.h"
#include "blob/testing.h"
#include "blob/tree_stream.h"
#include "blob/tree_writer.h"

/* A store that counts what is put into it. */
struct shelf {
    char path[64];
    struct blob_store *store;
    struct object_backend under, backend;
    size_t n_objects;
    const char *instead; /* of whatever is opened; NULL: what was asked for */
};

static bool count_object(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    struct shelf *shelf = arg;

    shelf->n_objects++;
    return shelf->under.put(shelf->under.arg, facts, fd, err);
}

static bool open_object(void *arg, const char *digest, int *fd, struct error *err)
{
    const struct shelf *shelf = arg;

    return shelf->under.open(shelf->under.arg, shelf->instead ? shelf->instead : digest, fd, err);
}

static void open_shelf(struct shelf *shelf)
{
    struct error err;

    *shelf = (struct shelf){.path = "/tmp/helmr-tree-XXXXXX"};
    if (!mkdtemp(shelf->path) || !blob_store_open(shelf->path, &shelf->store, &err))
        abort();
    shelf->under = object_backend_of(shelf->store);
    shelf->backend =
        (struct object_backend){.arg = shelf, .put = count_object, .open = open_object};
}

static void close_shelf(struct shelf *shelf)
{
    struct error err;

    blob_store_close(shelf->store);
    if (!folder_remove(shelf->path, &err))
        abort();
}

struct sample {
    struct tree_entry entry;
    struct str bytes;
};

#define FILE_OF(at, text)          \
    {                              \
        {.kind = TREE_FILE,        \
         .path = STR(at),          \
         .mode = 0644,             \
         .size = sizeof(text) - 1, \
         .mtime_ns = 5},           \
        STR(text) \
}

static const struct sample samples[] = {
    FILE_OF("a.txt", "hello\n"),
    {{.kind = TREE_DIRECTORY, .path = STR("dir"), .mode = 0755, .is_opaque = true},         {0}},
    {{.kind = TREE_WHITEOUT, .path = STR("dir/gone")},                                      {0}},
    {{.kind = TREE_FILE, .path = STR("dir/one"), .mode = 0600, .size = 3, .link_group = 1},
                          STR("xyz")                                                                                },
    {{.kind = TREE_DIRECTORY, .path = STR("dir/sub"), .mode = 0700},                        {0}},
    {{.kind = TREE_FILE,
      .path = STR("dir/sub/two"),
      .mode = 0600,
      .link_group = 1,
      .is_linked = true},
                          {0}                                                                                       },
    {{.kind = TREE_SYMLINK, .path = STR("dir.link"), .mode = 0777, .target = STR("dir")},   {0}},
    FILE_OF("empty", ""),
};

static bool write_samples(struct tree_writer *writer, struct tree_facts *facts, struct error *err)
{
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        const struct sample *sample = &samples[i];
        bool has_bytes = sample->entry.kind == TREE_FILE && !sample->entry.is_linked;
        if (!tree_writer_entry(writer, &sample->entry, err) ||
            (has_bytes && !tree_writer_bytes(writer, sample->bytes, true, err)))
            return false;
    }
    return tree_writer_end(writer, facts, err);
}

static void drop_writer(struct tree_writer **writer)
{
    tree_writer_destroy(*writer);
}

static struct tree_writer *writer_for(struct shelf *shelf, const struct seal_keys *keys)
{
    const struct tree_plan plan = {&shelf->backend, keys, NULL};

    return tree_writer_create(&plan);
}

static const struct node_entry *entry_of(const struct node *node, const char *name)
{
    for (size_t i = 0; i < node->n; i++)
        if (str_equal(node->entries[i].name, str_of(name)))
            return &node->entries[i];
    return NULL;
}

static bool decode_entry(void *writer, const struct tree_entry *entry, struct error *err)
{
    return tree_writer_entry(writer, entry, err);
}

static bool decode_bytes(void *writer, struct str bytes, bool is_last, struct error *err)
{
    return tree_writer_bytes(writer, bytes, is_last, err);
}

/* Through a decoder, as a guest would read it, into another tree of the same store. */
static bool stream_into(struct tree_reader *reader, struct tree_writer *writer,
                        struct tree_facts *facts, struct error *err)
{
    AUTO(tree_stream_finish) struct tree_stream stream;
    AUTO(tree_decoder_finish) struct tree_decoder decoder;
    AUTO(buf_finish) struct buf piece = {.max = TREE_STREAM_PIECE};

    tree_stream_init(&stream, reader);
    tree_decoder_init(&decoder, decode_entry, decode_bytes, writer);
    while (!stream.is_done) {
        piece.len = 0;
        if (!tree_stream_step(&stream, &piece, err) || !tree_decode(&decoder, buf_str(&piece), err))
            return false;
    }
    return tree_decode_end(&decoder, err) && tree_writer_end(writer, facts, err);
}

TEST(a_stored_tree_streams_back_as_it_came)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(close_shelf) struct shelf shelf;
    open_shelf(&shelf);
    AUTO(drop_writer) struct tree_writer *writer = writer_for(&shelf, &keys);
    AUTO(drop_writer) struct tree_writer *again = writer_for(&shelf, &keys);
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    struct tree_facts facts, copied;
    struct error err;

    CHECK(write_samples(writer, &facts, &err));
    CHECK(tree_reader_init(&reader, &shelf.backend, &keys, facts.manifest, &err));
    CHECK(stream_into(&reader, again, &copied, &err));
    CHECK_STR(copied.root_digest, facts.root_digest);
    CHECK_STR(copied.tree_digest, facts.tree_digest);
    CHECK(copied.n_entries == facts.n_entries && copied.n_bytes == facts.n_bytes);
}

TEST(a_small_tree_is_one_object_and_reads_back_equal)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(close_shelf) struct shelf shelf;
    open_shelf(&shelf);
    AUTO(drop_writer) struct tree_writer *writer = writer_for(&shelf, &keys);
    struct tree_facts facts;
    struct error err;
    CHECK(write_samples(writer, &facts, &err));
    CHECK(shelf.n_objects == 1 && facts.n_objects == 1);
    CHECK_STR(facts.objects[0].digest, facts.manifest);
    CHECK(facts.n_entries == COUNT_OF(samples) && facts.n_bytes == 9);

    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    AUTO(arena_finish) struct arena arena = {0};
    struct node root, dir, sub;
    CHECK(tree_reader_init(&reader, &shelf.backend, &keys, facts.manifest, &err));
    CHECK_STR(reader.tree_digest, facts.tree_digest);
    CHECK(tree_reader_node(&reader, reader.root, reader.n_root, &arena, &root, &err));
    CHECK(root.n == 4);
    const struct node_entry *entry = entry_of(&root, "dir");
    CHECK(entry && entry->is_opaque && entry->mode == 0755);
    CHECK(tree_reader_node(&reader, entry->chunks, entry->n_chunks, &arena, &dir, &err));
    CHECK(dir.n == 3 && dir.entries[0].kind == TREE_WHITEOUT);
    entry = entry_of(&dir, "sub");
    CHECK(tree_reader_node(&reader, entry->chunks, entry->n_chunks, &arena, &sub, &err));
    CHECK(sub.n == 1 && sub.entries[0].size == 3 && sub.entries[0].link_group == 1);
    AUTO(buf_finish) struct buf bytes = {.max = KIB(1)};
    CHECK(tree_reader_file(&reader, &sub.entries[0], &bytes, &err));
    CHECK(str_equal(buf_str(&bytes), STR("xyz")));
    entry = entry_of(&root, "dir.link");
    CHECK(entry && str_equal(entry->target, STR("dir")));
    entry = entry_of(&root, "empty");
    CHECK(entry && entry->size == 0 && entry->n_chunks == 0);
}

/* One file of noise with its time, as a tree. */
static bool write_over(const struct tree_plan *plan, struct str bytes, int64_t mtime_ns,
                       struct tree_facts *facts, struct error *err)
{
    AUTO(drop_writer) struct tree_writer *writer = tree_writer_create(plan);
    const struct tree_entry folder = {.kind = TREE_DIRECTORY, .path = STR("d"), .mode = 0755};
    const struct tree_entry entry = {.kind = TREE_FILE,
                                     .path = STR("d/noise"),
                                     .mode = 0644,
                                     .mtime_ns = mtime_ns,
                                     .size = bytes.len};
    size_t half = bytes.len / 2;

    bool fine =
        tree_writer_entry(writer, &folder, err) && tree_writer_entry(writer, &entry, err) &&
        tree_writer_bytes(writer, (struct str){bytes.ptr, half}, false, err) &&
        tree_writer_bytes(writer, (struct str){bytes.ptr + half, bytes.len - half}, true, err) &&
        tree_writer_end(writer, facts, err);
    facts->objects = NULL;
    return fine;
}

static bool write_file(struct shelf *shelf, const struct seal_keys *keys, struct str bytes,
                       int64_t mtime_ns, struct tree_facts *facts, struct error *err)
{
    const struct tree_plan plan = {&shelf->backend, keys, NULL};

    return write_over(&plan, bytes, mtime_ns, facts, err);
}

/* Whether d/noise of that tree is these bytes. */
static bool holds(struct shelf *shelf, const struct seal_keys *keys, const char *manifest,
                  struct str bytes, struct error *err)
{
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    AUTO(arena_finish) struct arena arena = {0};
    AUTO(buf_finish) struct buf read = {.max = bytes.len};
    struct node root, dir;

    return tree_reader_init(&reader, &shelf->backend, keys, manifest, err) &&
           tree_reader_node(&reader, reader.root, reader.n_root, &arena, &root, err) &&
           tree_reader_node(&reader, root.entries[0].chunks, root.entries[0].n_chunks, &arena, &dir,
                            err) &&
           tree_reader_file(&reader, &dir.entries[0], &read, err) &&
           str_equal(buf_str(&read), bytes);
}

TEST(a_large_file_goes_to_packs_and_reads_back_equal)
{
    enum { LEN = 40 << 20 };
    struct seal_keys keys = test_keys(0, 1);
    AUTO(close_shelf) struct shelf shelf;
    open_shelf(&shelf);
    AUTO_FREE uint8_t *noise = alloc(LEN);
    test_noise(3, noise, LEN);
    struct str bytes = {(const char *)noise, LEN};
    struct tree_facts facts;
    struct error err;
    CHECK(write_file(&shelf, &keys, bytes, 1, &facts, &err));
    CHECK(facts.n_objects == 3);

    CHECK(holds(&shelf, &keys, facts.manifest, bytes, &err));
}

TEST(a_tree_over_a_base_stores_only_what_is_new)
{
    enum { LEN = 40 << 20 };
    struct seal_keys keys = test_keys(0, 1);
    AUTO(close_shelf) struct shelf shelf;
    open_shelf(&shelf);
    AUTO_FREE uint8_t *noise = alloc(LEN);
    test_noise(3, noise, LEN);
    struct str bytes = {(const char *)noise, LEN};
    struct tree_facts first, second, third;
    struct error err;
    CHECK(write_file(&shelf, &keys, bytes, 1, &first, &err));
    AUTO(tree_reader_finish) struct tree_reader base = {0};
    CHECK(tree_reader_init(&base, &shelf.backend, &keys, first.manifest, &err));
    const struct tree_plan plan = {&shelf.backend, &keys, &base};

    noise[LEN / 2] ^= 1;
    shelf.n_objects = 0;
    CHECK(write_over(&plan, bytes, 1, &second, &err));
    CHECK(shelf.n_objects == 1); /* the manifest, which has the new chunk in it */
    CHECK(second.n_objects == 3);
    CHECK(holds(&shelf, &keys, second.manifest, bytes, &err));

    CHECK(write_over(&plan, STR("short"), 1, &third, &err));
    CHECK(third.n_objects == 1); /* no pack of the base is needed any more */
    CHECK(holds(&shelf, &keys, third.manifest, STR("short"), &err));
}

/* A tree that grows by a file of its own each time, over the one before. */
TEST(small_packs_are_folded_when_there_are_too_many)
{
    enum { LEN = 300 << 10 };
    struct seal_keys keys = test_keys(0, 1);
    AUTO(close_shelf) struct shelf shelf;
    open_shelf(&shelf);
    AUTO_FREE uint8_t *noise = alloc((TREE_PACKS_MAX + 4) * (size_t)LEN);
    struct tree_facts facts = {0};
    struct error err;

    for (size_t n = 1; n <= TREE_PACKS_MAX + 3; n++) {
        AUTO(tree_reader_finish) struct tree_reader base = {0};
        const struct tree_plan plan = {&shelf.backend, &keys, n > 1 ? &base : NULL};

        test_noise(n, noise + (n - 1) * LEN, LEN);
        CHECK(n == 1 || tree_reader_init(&base, &shelf.backend, &keys, facts.manifest, &err));
        CHECK(write_over(&plan, (struct str){(const char *)noise, n * LEN}, 1, &facts, &err));
        CHECK(facts.n_objects <= TREE_PACKS_MAX + 1);
    }
    CHECK(facts.n_objects < 8);
    CHECK(holds(&shelf, &keys, facts.manifest,
                (struct str){(const char *)noise, (TREE_PACKS_MAX + 3) * (size_t)LEN}, &err));
}

/* A place of its own for packs that are put beside, which may be full. */
struct beside {
    struct shelf *shelf;
    pthread_t writer; /* who must not be the one that puts */
    size_t n_put, room;
    bool was_put_by_writer;
};

static bool put_beside(void *arg, const struct seal_facts *facts, int fd, struct error *err)
{
    struct beside *beside = arg;

    beside->was_put_by_writer |= pthread_equal(beside->writer, pthread_self()) != 0;
    if (beside->n_put == beside->room)
        return error_set(err, ERR_LIMIT, "the place is full");
    beside->n_put++;
    return beside->shelf->under.put(beside->shelf->under.arg, facts, fd, err);
}

/* A pack has room for 16,384 chunks. */
enum { TINY_FILES = 60000 };

static bool write_tiny_files(struct tree_writer *writer, struct tree_facts *facts,
                             struct error *err)
{
    char path[32], text[64];

    for (int i = 0; i < TINY_FILES; i++) {
        snprintf(path, sizeof path, "file-%05d", i);
        snprintf(text, sizeof text, "this is what the file %d says and no other", i);
        const struct tree_entry entry = {
            .kind = TREE_FILE,
            .path = str_of(path),
            .mode = 0644,
            .size = strlen(text),
        };
        if (!tree_writer_entry(writer, &entry, err) ||
            !tree_writer_bytes(writer, str_of(text), true, err))
            return false;
    }
    return tree_writer_end(writer, facts, err);
}

TEST(full_packs_are_put_beside_and_are_part_of_the_tree)
{
    AUTO(close_shelf) struct shelf shelf;
    AUTO(drop_writer) struct tree_writer *writer = NULL, *other = NULL;
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    struct seal_keys keys = test_keys(0, 1);
    struct tree_facts facts, again;
    struct error err = {0};

    open_shelf(&shelf);
    struct beside place = {.shelf = &shelf, .writer = pthread_self(), .room = SIZE_MAX};
    const struct object_backend beside = {.arg = &place, .put = put_beside};
    const struct tree_plan plan = {&shelf.backend, &keys, NULL, &beside};
    writer = tree_writer_create(&plan);
    CHECK(write_tiny_files(writer, &facts, &err));
    /* Three full ones; the last of the files, the directory and the manifest are not. */
    CHECK(place.n_put == 3 && !place.was_put_by_writer && shelf.n_objects == 3);
    CHECK(facts.n_new == 6 && facts.n_objects == 6 && facts.n_entries == TINY_FILES);

    CHECK(tree_reader_init(&reader, &shelf.backend, &keys, facts.manifest, &err));
    other = writer_for(&shelf, &keys);
    CHECK(stream_into(&reader, other, &again, &err));
    CHECK_STR(again.root_digest, facts.root_digest);
}

TEST(a_pack_that_could_not_be_put_beside_fails_the_tree)
{
    AUTO(close_shelf) struct shelf shelf;
    AUTO(drop_writer) struct tree_writer *writer = NULL;
    struct seal_keys keys = test_keys(0, 1);
    struct tree_facts facts;
    struct error err = {0};

    open_shelf(&shelf);
    struct beside place = {.shelf = &shelf, .writer = pthread_self(), .room = 1};
    const struct object_backend beside = {.arg = &place, .put = put_beside};
    const struct tree_plan plan = {&shelf.backend, &keys, NULL, &beside};
    writer = tree_writer_create(&plan);
    CHECK(!write_tiny_files(writer, &facts, &err));
    CHECK(err.code == ERR_LIMIT);
    CHECK(shelf.n_objects == 0);
}

TEST(times_change_the_root_digest_and_not_the_tree_digest)
{
    struct seal_keys keys = test_keys(0, 1), others = test_keys(1, 1);
    AUTO(close_shelf) struct shelf shelf;
    open_shelf(&shelf);
    struct tree_facts first, later, rotated, other;
    struct error err;
    CHECK(write_file(&shelf, &keys, STR("same"), 1, &first, &err));
    CHECK(write_file(&shelf, &keys, STR("same"), 2, &later, &err));
    CHECK(write_file(&shelf, &others, STR("same"), 1, &rotated, &err));
    CHECK(write_file(&shelf, &keys, STR("sane"), 1, &other, &err));
    CHECK_STR(later.tree_digest, first.tree_digest);
    CHECK(strcmp(later.root_digest, first.root_digest) != 0);
    CHECK_STR(rotated.tree_digest, first.tree_digest);
    CHECK_STR(rotated.root_digest, first.root_digest);
    CHECK(strcmp(other.tree_digest, first.tree_digest) != 0);
}

TEST(a_manifest_under_another_name_is_refused)
{
    struct seal_keys keys = test_keys(0, 1);
    AUTO(close_shelf) struct shelf shelf;
    open_shelf(&shelf);
    struct tree_facts first, second;
    struct error err;
    CHECK(write_file(&shelf, &keys, STR("one"), 1, &first, &err));
    CHECK(write_file(&shelf, &keys, STR("two"), 1, &second, &err));
    shelf.instead = second.manifest;
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    CHECK(!tree_reader_init(&reader, &shelf.backend, &keys, first.manifest, &err));
    CHECK(err.code == ERR_DAMAGED);
}

TEST_MAIN()
