/* Edits of stored trees: after any of them the tree is what a writer would have made of it. */
#include "server/tree_edit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "base/test.h"
#include "blob/testing.h"
#include "blob/tree_stream.h"
#include "blob/tree_writer.h"

enum { ROUNDS = 300 };

static void drop_writer(struct tree_writer **writer)
{
    tree_writer_destroy(*writer);
}

static void drop_store(struct blob_store **store)
{
    test_store_drop(*store);
}

struct sample {
    struct tree_entry entry;
    struct str bytes;
};

/* One directory is laid over the image's, two names are one file, one is gone. */
static const struct sample samples[] = {
    {{.kind = TREE_FILE, .path = STR("a"), .mode = 0644, .size = 3, .link_group = 1},         STR("one")},
    {{.kind = TREE_FILE, .path = STR("b"), .mode = 0644, .size = 3, .link_group = 2},         STR("two")},
    {{.kind = TREE_DIRECTORY, .path = STR("d"), .mode = 0755, .uid = 5, .is_cover = true},    {0}       },
    {{.kind = TREE_FILE, .path = STR("d/cover"), .mode = 0600, .size = 1, .is_cover = true},
     STR("c")                                                                                           },
    {{.kind = TREE_WHITEOUT, .path = STR("d/gone")},                                          {0}       },
    {{.kind = TREE_DIRECTORY, .path = STR("d/sub"), .mode = 0755},                            {0}       },
    {{.kind = TREE_FILE, .path = STR("d/sub/x"), .mode = 0644, .size = 2},                    STR("xx") },
    {{.kind = TREE_FILE, .path = STR("y"), .mode = 0644, .link_group = 2, .is_linked = true}, {0}       },
    {{.kind = TREE_FILE, .path = STR("z"), .mode = 0644, .link_group = 1, .is_linked = true}, {0}       },
};

struct bench {
    struct blob_store *store;
    struct object_backend backend;
    struct seal_keys keys;
    struct tree_facts facts; /* of the newest tree; without its objects */
};

static bool write_samples(struct bench *bench, struct error *err)
{
    const struct tree_plan plan = {&bench->backend, &bench->keys, NULL};
    AUTO(drop_writer) struct tree_writer *writer = tree_writer_create(&plan);

    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        const struct sample *sample = &samples[i];
        bool has_bytes = sample->entry.kind == TREE_FILE && !sample->entry.is_linked;

        if (!tree_writer_entry(writer, &sample->entry, err) ||
            (has_bytes && !tree_writer_bytes(writer, sample->bytes, true, err)))
            return false;
    }
    return tree_writer_end(writer, &bench->facts, err);
}

static bool set(struct bench *bench, struct error *err)
{
    bench->store = test_store_make();
    bench->backend = object_backend_of(bench->store);
    bench->keys = test_keys(0, 1);
    return bench->store && write_samples(bench, err);
}

/* The newest tree, streamed as a guest would get it and written from nothing, is the same. */
static bool is_whole(struct bench *bench, struct error *err)
{
    const struct tree_plan plan = {&bench->backend, &bench->keys, NULL};
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    AUTO(drop_writer) struct tree_writer *writer = tree_writer_create(&plan);
    AUTO(tree_stream_finish) struct tree_stream stream;
    AUTO(tree_decoder_finish) struct tree_decoder decoder;
    AUTO(buf_finish) struct buf piece = {.max = TREE_STREAM_PIECE};
    struct tree_facts again;

    tree_stream_init(&stream, &reader);
    tree_decoder_init(&decoder, tree_writer_entry, tree_writer_bytes, writer);
    if (!tree_reader_init(&reader, &bench->backend, &bench->keys, bench->facts.manifest, err))
        return false;
    while (!stream.is_done) {
        piece.len = 0;
        if (!tree_stream_step(&stream, &piece, err) || !tree_decode(&decoder, buf_str(&piece), err))
            return false;
    }
    if (!tree_decode_end(&decoder, err) || !tree_writer_end(writer, &again, err))
        return false;
    if (strcmp(again.tree_digest, bench->facts.tree_digest) == 0 &&
        again.n_entries == bench->facts.n_entries && again.n_bytes == bench->facts.n_bytes)
        return true;
    return error_set(err, ERR_CONFLICT, "%llu entries and %llu bytes, counted %llu and %llu",
                     (unsigned long long)again.n_entries, (unsigned long long)again.n_bytes,
                     (unsigned long long)bench->facts.n_entries,
                     (unsigned long long)bench->facts.n_bytes);
}

typedef bool change(struct tree_edit *edit, void *arg, struct error *err);

static bool apply(struct bench *bench, change *make, void *arg, struct error *err)
{
    AUTO(tree_reader_finish) struct tree_reader reader = {0};

    if (!tree_reader_init(&reader, &bench->backend, &bench->keys, bench->facts.manifest, err))
        return false;
    const struct tree_edit_plan plan = {
        .store = {&bench->backend, &bench->keys, &reader},
        .n_entries = bench->facts.n_entries,
        .n_bytes = bench->facts.n_bytes,
        .now_ns = 1,
    };
    AUTO_TREE_EDIT edit = tree_edit_create(&plan);
    return make(edit, arg, err) &&
           (!tree_edit_has_changes(edit) || tree_edit_end(edit, &bench->facts, err));
}

static bool put(struct tree_edit *edit, const char *path, struct str bytes, struct error *err)
{
    const struct tree_entry entry = {.kind = TREE_FILE, .path = str_of(path), .mode = 0644};

    return tree_edit_put(edit, &entry, EDIT_OWNER_OF_PLACE | EDIT_REPLACES_ANY, err) &&
           tree_edit_bytes(edit, bytes, true, err);
}

static bool remove_covered(struct tree_edit *edit, void *arg UNUSED, struct error *err)
{
    return tree_edit_remove(edit, STR("d/cover"), false, err) &&
           tree_edit_remove(edit, STR("d/sub"), true, err) && put(edit, "d/gone", STR("!"), err);
}

static bool remove_folder(struct tree_edit *edit, void *arg UNUSED, struct error *err)
{
    return tree_edit_remove(edit, STR("d"), true, err);
}

static bool make_folder(struct tree_edit *edit, void *arg UNUSED, struct error *err)
{
    return put(edit, "d/new", STR("new"), err);
}

/* An entry of the newest tree by its name in a directory of the root, or in the root itself. */
static bool find(struct bench *bench, const char *folder, const char *name, struct arena *arena,
                 const struct node_entry **entry, struct error *err)
{
    AUTO(tree_reader_finish) struct tree_reader reader = {0};
    struct node node;

    if (!tree_reader_init(&reader, &bench->backend, &bench->keys, bench->facts.manifest, err) ||
        !tree_reader_node(&reader, reader.root, reader.n_root, arena, &node, err))
        return false;
    if (folder) {
        const struct node_entry *at = node_find(&node, str_of(folder));
        if (!at || !tree_reader_node(&reader, at->chunks, at->n_chunks, arena, &node, err))
            return false;
    }
    *entry = node_find(&node, str_of(name));
    return true;
}

TEST(what_the_image_has_stays_removed_and_hidden)
{
    AUTO(arena_finish) struct arena arena = {0};
    struct bench bench = {0};
    struct error err;
    const struct node_entry *entry;
    CHECK(set(&bench, &err));
    AUTO(drop_store) struct blob_store *store = bench.store;
    (void)store;
    CHECK(apply(&bench, remove_covered, NULL, &err) && is_whole(&bench, &err));
    CHECK(find(&bench, "d", "cover", &arena, &entry, &err));
    CHECK(entry && entry->kind == TREE_WHITEOUT);
    CHECK(find(&bench, "d", "sub", &arena, &entry, &err) && !entry);
    CHECK(find(&bench, "d", "gone", &arena, &entry, &err));
    CHECK(entry && entry->kind == TREE_FILE && entry->is_cover && entry->uid == 5);

    CHECK(apply(&bench, remove_folder, NULL, &err) && is_whole(&bench, &err));
    CHECK(find(&bench, NULL, "d", &arena, &entry, &err));
    CHECK(entry && entry->kind == TREE_WHITEOUT);
    CHECK(apply(&bench, make_folder, NULL, &err) && is_whole(&bench, &err));
    CHECK(find(&bench, NULL, "d", &arena, &entry, &err));
    CHECK(entry && entry->kind == TREE_DIRECTORY && entry->is_opaque && entry->is_cover);
}

static const char *const names[] = {"a", "b", "d", "d/sub", "d/sub/x", "d/n", "y", "z", "e/f/g"};

/* Any edit; one that is refused changes nothing that anybody sees. */
static bool any_edit(struct tree_edit *edit, void *arg, struct error *err)
{
    uint64_t *seed = arg;
    uint8_t dice[4];
    char text[16];

    test_noise((*seed)++, dice, sizeof dice);
    const char *first = names[dice[1] % COUNT_OF(names)],
               *second = names[dice[2] % COUNT_OF(names)];
    snprintf(text, sizeof text, "%d", dice[3]);
    switch (dice[0] % 5) {
    case 0: return put(edit, first, str_of(text), err);
    case 1: return tree_edit_remove(edit, str_of(first), dice[3] % 2, err);
    case 2: return tree_edit_move(edit, str_of(first), str_of(second), err);
    case 3: return tree_edit_link(edit, str_of(first), str_of(second), err);
    default: break;
    }
    const struct tree_entry folder = {.kind = TREE_DIRECTORY, .path = str_of(first), .mode = 0700};
    return tree_edit_put(edit, &folder, EDIT_REPLACES_ANY, err);
}

TEST(any_edits_leave_a_tree_that_is_counted_right_and_streams)
{
    struct bench bench = {0};
    struct error err;
    uint64_t seed = 7;
    int n_done = 0;
    CHECK(set(&bench, &err));
    AUTO(drop_store) struct blob_store *store = bench.store;
    (void)store;
    for (int i = 0; i < ROUNDS; i++) {
        n_done += apply(&bench, any_edit, &seed, &err);
        if (!is_whole(&bench, &err))
            printf("# after %d edits: %s\n", i, err.text);
        CHECK(is_whole(&bench, &err));
    }
    CHECK(n_done > ROUNDS / 4);
}

TEST_MAIN()
