#include "blob/saver.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/test.h"
#include "blob/loader.h"
#include "blob/testing.h"

enum { MEMORY = 3 << 20 };

struct save {
    const struct object_backend *backend;
    const struct seal_keys *keys;
    const struct manifest *parent;
    const char *parent_digest;
};

static struct object_backend backend;
static struct seal_keys keys;

static struct blob_store *fresh_store(void)
{
    struct blob_store *store = test_store_make();

    if (!store)
        abort();
    backend = object_backend_of(store);
    keys = test_keys(0, 1);
    return store;
}

/* One stream, "memory". */
static bool save_one(const struct save *save, struct str bytes, struct saved *saved,
                     struct error *err)
{
    struct saver_plan plan = {.backend = save->backend,
                              .keys = save->keys,
                              .kind = "checkpoint",
                              .parent = save->parent,
                              .parent_digest = save->parent_digest,
                              .sizes = chunk_sizes_memory,
                              .level = 1};
    struct saver *saver;

    saver_create(&plan, &saver);
    bool fine = saver_stream(saver, "memory", saver_source_memory(&bytes), err) &&
                saver_end(saver, saved, err);
    saver_destroy(saver);
    return fine;
}

static bool load_one(const struct save *save, const char *digest, const char *name, struct str want,
                     struct error *err)
{
    struct loader *loader = NULL;
    AUTO(buf_finish) struct buf got = {0};

    if (!loader_create(save->backend, save->keys, digest, &loader, err))
        return false;
    bool fine = loader_stream(loader, name, test_sink(&got), err);
    loader_destroy(loader);
    if (fine && !str_equal(buf_str(&got), want))
        return error_set(err, ERR_INTERNAL, "%s came back as something else", name);
    return fine;
}

TEST(streams_and_facts_come_back_as_they_were)
{
    struct blob_store *store = fresh_store();
    struct saver_plan plan = {.backend = &backend, .keys = &keys, .kind = "checkpoint"};
    AUTO_FREE char *bytes = alloc(MEMORY);
    struct saver *saver;
    struct saved saved;
    struct error err;

    test_noise(1, (uint8_t *)bytes, MEMORY / 3);
    memset(bytes + MEMORY / 3, 0, MEMORY / 3);
    test_prose(1, (uint8_t *)bytes + 2 * (size_t)(MEMORY / 3), MEMORY / 3);
    static const size_t sizes[] = {MEMORY, 0, 1, KIB(16), KIB(16) + 1, KIB(300)};
    saver_create(&plan, &saver);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char name[8] = {(char)('a' + i), '\0'};
        struct str rest = {bytes, sizes[i]};
        CHECK(saver_stream(saver, name, saver_source_memory(&rest), &err));
    }
    CHECK(saver_fact(saver, "run", STR("r1"), &err) && saver_end(saver, &saved, &err));
    CHECK(saved.n_packs == 1 && saved.n_new_packs == 1);
    CHECK(saved.raw_new < MEMORY && saved.stored < saved.raw_new);
    saver_destroy(saver);

    struct save save = {&backend, &keys, NULL, NULL};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char name[8] = {(char)('a' + i), '\0'};
        CHECK(load_one(&save, saved.manifest, name, (struct str){bytes, sizes[i]}, &err));
    }
    CHECK(!load_one(&save, saved.manifest, "z", STR(""), &err) && err.code == ERR_NOT_FOUND);
    struct loader *loader;
    CHECK(loader_create(&backend, &keys, saved.manifest, &loader, &err));
    const struct manifest_fact *fact = manifest_fact_find(loader_manifest(loader), STR("run"));
    CHECK(fact && str_equal(fact->value, STR("r1")));
    loader_destroy(loader);
    test_store_drop(store);
}

TEST(a_next_generation_stores_only_what_changed)
{
    struct blob_store *store = fresh_store();
    struct save save = {&backend, &keys, NULL, NULL};
    AUTO_FREE char *bytes = alloc(MEMORY);
    struct saved first, second;
    struct loader *parent;
    struct error err;

    test_noise(1, (uint8_t *)bytes, MEMORY);
    CHECK(save_one(&save, (struct str){bytes, MEMORY}, &first, &err));
    CHECK(first.raw_new == MEMORY);
    CHECK(loader_create(&backend, &keys, first.manifest, &parent, &err));
    save.parent = loader_manifest(parent);
    save.parent_digest = first.manifest;
    test_noise(2, (uint8_t *)bytes + MEMORY / 2, 1000);
    CHECK(save_one(&save, (struct str){bytes, MEMORY}, &second, &err));
    CHECK(second.raw_new > 0 && second.raw_new < KIB(256));
    CHECK(second.n_packs == 2 && second.n_new_packs == 1);
    CHECK(load_one(&save, second.manifest, "memory", (struct str){bytes, MEMORY}, &err));
    /* Nothing changed: no pack at all. */
    CHECK(save_one(&save, (struct str){bytes, MEMORY / 4}, &second, &err));
    CHECK(second.n_new_packs <= 1 && second.raw_new < KIB(64) + 1);
    loader_destroy(parent);
    test_store_drop(store);
}

/* Chunks that somebody has already: all of one stream. */
struct at_hand {
    struct str bytes;
    const struct manifest_stream *stream;
    size_t n_given;
};

static bool give(void *arg, const uint8_t id[CHUNK_ID_LEN], size_t len, struct str *bytes)
{
    struct at_hand *hand = arg;
    size_t at = 0;

    for (size_t i = 0; i < hand->stream->n_chunks; at += hand->stream->chunks[i++].len) {
        if (memcmp(hand->stream->chunks[i].id, id, CHUNK_ID_LEN) != 0)
            continue;
        *bytes = (struct str){hand->bytes.ptr + at, len};
        hand->n_given++;
        return true;
    }
    return false;
}

TEST(what_is_at_hand_is_not_fetched)
{
    struct blob_store *store = fresh_store();
    struct save save = {&backend, &keys, NULL, NULL};
    AUTO(buf_finish) struct buf got = {0};
    AUTO_FREE char *bytes = alloc(MEMORY), *before = alloc(MEMORY);
    struct saved first, second;
    struct loader *parent, *loader;
    struct error err;

    test_noise(1, (uint8_t *)bytes, MEMORY);
    memcpy(before, bytes, MEMORY);
    CHECK(save_one(&save, (struct str){bytes, MEMORY}, &first, &err));
    CHECK(loader_create(&backend, &keys, first.manifest, &parent, &err));
    save.parent = loader_manifest(parent);
    save.parent_digest = first.manifest;
    test_noise(2, (uint8_t *)bytes + MEMORY / 2, 1000);
    CHECK(save_one(&save, (struct str){bytes, MEMORY}, &second, &err));
    /* What the parent stored is gone; what came with the child is not. */
    CHECK(blob_delete(store, loader_manifest(parent)->packs[0], &err));
    CHECK(!load_one(&save, second.manifest, "memory", (struct str){bytes, MEMORY}, &err));

    struct at_hand hand = {
        {before, MEMORY},
        &loader_manifest(parent)->streams[0], 0
    };
    CHECK(loader_create(&backend, &keys, second.manifest, &loader, &err));
    loader_use(loader, give, &hand);
    CHECK(loader_stream(loader, "memory", test_sink(&got), &err));
    CHECK(str_equal(buf_str(&got), (struct str){bytes, MEMORY}) && hand.n_given > 0);
    loader_destroy(loader);
    loader_destroy(parent);
    test_store_drop(store);
}

/* Each generation changes a little; without folding the packs would be as many as generations. */
TEST(packs_stay_few_over_many_generations)
{
    enum { GENERATIONS = 150, SMALL = 512 * 1024 };
    struct blob_store *store = fresh_store();
    struct save save = {&backend, &keys, NULL, NULL};
    AUTO_FREE char *bytes = alloc(SMALL);
    struct loader *parent = NULL;
    struct saved saved = {0};
    struct error err;
    size_t most = 0;

    test_noise(1, (uint8_t *)bytes, SMALL);
    for (uint64_t i = 0; i < GENERATIONS; i++) {
        test_noise(i, (uint8_t *)bytes + i * 3001 % (SMALL - 100), 100);
        CHECK(save_one(&save, (struct str){bytes, SMALL}, &saved, &err));
        CHECK(load_one(&save, saved.manifest, "memory", (struct str){bytes, SMALL}, &err));
        most = saved.n_packs > most ? saved.n_packs : most;
        loader_destroy(parent);
        CHECK(loader_create(&backend, &keys, saved.manifest, &parent, &err));
        save.parent = loader_manifest(parent);
        save.parent_digest = saved.manifest;
    }
    loader_destroy(parent);
    CHECK(most <= 65);
    test_store_drop(store);
}

TEST(a_rotated_key_still_reads_everything)
{
    struct blob_store *store = fresh_store();
    struct seal_keys old = test_keys(1, 1), rotated = test_keys(0, 2), other = test_keys(2, 1);
    struct save save = {&backend, &old, NULL, NULL};
    AUTO_FREE char *bytes = alloc(MEMORY);
    struct saved first, second;
    struct loader *parent;
    struct error err;

    test_noise(1, (uint8_t *)bytes, MEMORY);
    struct str raw = {bytes, MEMORY};
    CHECK(save_one(&save, raw, &first, &err));
    save.keys = &rotated;
    CHECK(load_one(&save, first.manifest, "memory", raw, &err));
    CHECK(loader_create(&backend, &rotated, first.manifest, &parent, &err));
    save.parent = loader_manifest(parent);
    save.parent_digest = first.manifest;
    CHECK(save_one(&save, raw, &second, &err));
    loader_destroy(parent);
    struct seal_keys new = test_keys(0, 1);
    save.keys = &new;
    CHECK(load_one(&save, second.manifest, "memory", raw, &err));
    CHECK(!load_one(&save, first.manifest, "memory", raw, &err) && err.code == ERR_KEY_MISSING);
    save.keys = &other;
    CHECK(!load_one(&save, second.manifest, "memory", raw, &err) && err.code == ERR_KEY_MISSING);
    test_store_drop(store);
}

/* Another valid object, a damaged one, none: each is refused by its own name. */
TEST(a_swapped_a_damaged_and_a_missing_pack_are_refused)
{
    struct blob_store *store = fresh_store();
    struct save save = {&backend, &keys, NULL, NULL};
    AUTO_FREE char *bytes = alloc(MEMORY);
    struct saved first, second;
    struct error err;
    char path[256], other[256], pack[SHA256_HEX];

    test_noise(1, (uint8_t *)bytes, MEMORY);
    struct str raw = {bytes, MEMORY};
    struct saver_plan plan = {.backend = &backend, .keys = &keys, .kind = "checkpoint"};
    struct saver *saver;
    struct str rest = raw;
    saver_create(&plan, &saver);
    CHECK(saver_stream(saver, "memory", saver_source_memory(&rest), &err));
    CHECK(saver_end(saver, &first, &err));
    memcpy(pack, first.packs[0], SHA256_HEX);
    saver_destroy(saver);
    CHECK(save_one(&save, (struct str){bytes + 1, MEMORY - 1}, &second, &err));

    snprintf(path, sizeof path, "%s/blobs/%.2s/%s", test_folder, pack, pack);
    snprintf(other, sizeof other, "%s/blobs/%.2s/%s", test_folder, second.manifest,
             second.manifest);
    AUTO_FD int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte = 0;
    CHECK(fd >= 0 && pread(fd, &byte, 1, MEMORY / 2) == 1);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, MEMORY / 2) == 1);
    CHECK(!load_one(&save, first.manifest, "memory", raw, &err) && err.code == ERR_DAMAGED);
    CHECK(ftruncate(fd, MEMORY / 2) == 0);
    CHECK(!load_one(&save, first.manifest, "memory", raw, &err) && err.code == ERR_DAMAGED);
    CHECK(unlink(path) == 0);
    CHECK(!load_one(&save, first.manifest, "memory", raw, &err) && err.code == ERR_NOT_FOUND);
    CHECK(link(other, path) == 0);
    CHECK(!load_one(&save, first.manifest, "memory", raw, &err) && err.code == ERR_DAMAGED);
    test_store_drop(store);
}

static bool read_then_fail(void *arg, void *bytes, size_t room, size_t *got, struct error *err)
{
    int *left = arg;

    if ((*left)-- == 0)
        return error_set(err, ERR_CANCELLED, "an answer came");
    test_noise((uint64_t)*left, bytes, room);
    *got = room;
    return true;
}

TEST(a_source_that_gives_up_ends_the_saving)
{
    struct blob_store *store = fresh_store();
    struct saver_plan plan = {.backend = &backend, .keys = &keys, .kind = "checkpoint"};
    struct saver *saver;
    struct error err;
    int left = 3;

    saver_create(&plan, &saver);
    CHECK(!saver_stream(saver, "memory", (struct saver_source){read_then_fail, &left}, &err));
    CHECK(err.code == ERR_CANCELLED);
    saver_destroy(saver);
    test_store_drop(store);
}

TEST(an_object_is_verified_as_a_whole)
{
    struct blob_store *store = fresh_store();
    struct saver_plan plan = {.backend = &backend, .keys = &keys, .kind = "version"};
    AUTO_FREE char *bytes = alloc(MEMORY);
    struct saver *saver;
    struct saved saved;
    struct error err;
    struct seal_source source;
    int pack = -1, manifest = -1;

    test_noise(1, (uint8_t *)bytes, MEMORY);
    struct str rest = {bytes, MEMORY};
    saver_create(&plan, &saver);
    CHECK(saver_stream(saver, "tree", saver_source_memory(&rest), &err));
    CHECK(saver_end(saver, &saved, &err));
    CHECK(backend.open(backend.arg, saved.packs[0], &pack, &err));
    CHECK(backend.open(backend.arg, saved.manifest, &manifest, &err));
    CHECK(seal_source_fd(&pack, &source, &err));
    CHECK(object_verify(&keys, SEAL_PACK, saved.packs[0], source, &err));
    CHECK(object_verify(&keys, SEAL_PACK, NULL, source, &err));
    CHECK(!object_verify(&keys, SEAL_PACK, saved.manifest, source, &err));
    CHECK(!object_verify(&keys, SEAL_BLOB, NULL, source, &err) && err.code == ERR_DAMAGED);
    source.size--;
    CHECK(!object_verify(&keys, SEAL_PACK, NULL, source, &err) && err.code == ERR_DAMAGED);
    CHECK(seal_source_fd(&manifest, &source, &err));
    CHECK(object_verify(&keys, SEAL_MANIFEST, saved.manifest, source, &err));
    close(pack);
    close(manifest);
    saver_destroy(saver);
    test_store_drop(store);
}

TEST_MAIN()
