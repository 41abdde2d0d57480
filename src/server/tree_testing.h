/* For tests: trees of a workspace, stored as a worker stores them. */
#pragma once

#include "base/own.h"
#include "blob/tree_writer.h"
#include "server/service_suite.h"
#include "server/worker_testing.h"

struct sample {
    enum tree_kind kind;
    const char *path, *text; /* contents of a file, target of a symlink */
    uint32_t mode;
    bool is_cover;
};

static inline bool sample_add(struct tree_writer *writer, const struct sample *sample,
                              struct error *err)
{
    struct str text = sample->text ? str_of(sample->text) : (struct str){0};
    /* No C text has a NUL: this one stands for it. */
    AUTO_FREE char *bytes = alloc_text(sample->text ? sample->text : "");
    for (size_t i = 0; i < text.len; i++)
        if (bytes[i] == '\001')
            bytes[i] = '\0';
    const struct tree_entry entry = {
        .kind = sample->kind,
        .path = str_of(sample->path),
        .mode = sample->mode,
        .is_cover = sample->is_cover,
        .size = sample->kind == TREE_FILE ? text.len : 0,
        .target = sample->kind == TREE_SYMLINK ? text : (struct str){0},
    };
    return tree_writer_entry(writer, &entry, err) &&
           (sample->kind != TREE_FILE ||
            tree_writer_bytes(writer, (struct str){bytes, text.len}, true, err));
}

static inline bool store_tree(struct test_worker *worker, const struct sample *samples, size_t n,
                              struct tree_facts *facts, struct error *err)
{
    const struct object_backend backend = {.arg = worker, .put = worker_put_sealed};
    AUTO(key_ring_finish) struct key_ring ring = {0};
    bool fine = keys_ring(&worker->service->server->keys, &ring, err);
    struct tree_writer *writer =
        tree_writer_create(&(struct tree_plan){&backend, &ring.keys, NULL});

    for (size_t i = 0; i < n && fine; i++)
        fine = sample_add(writer, &samples[i], err);
    fine = fine && tree_writer_end(writer, facts, err) && facts->n_objects == 1;
    tree_writer_destroy(writer);
    return fine;
}

/* The tree, stored, as a member `version` of a worker's message; NULL when it cannot be. */
static inline const char *tree_version(struct test_worker *worker, const char *id,
                                       const struct sample *samples, size_t n)
{
    struct tree_facts facts;
    struct error err;

    if (!store_tree(worker, samples, n, &facts, &err))
        return NULL;
    return arena_printf(&worker->service->arena,
                        ",\"version\":{\"id\":\"%s\",\"manifest\":\"%s\",\"tree_digest\":\"%s\","
                        "\"objects\":[{\"digest\":\"%s\",\"size\":1}],\"size_bytes\":%llu,"
                        "\"entries\":%llu}",
                        id, facts.manifest, facts.tree_digest, facts.manifest,
                        (unsigned long long)facts.n_bytes, (unsigned long long)facts.n_entries);
}
