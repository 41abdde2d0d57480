/* Writes a tree of files into the store: contents and directories as chunks in packs, and one
 * manifest that says where the root is.
 *
 * Entries come in the order of protocol/tree.h, whose decoder has checked them. What is small
 * stays in the manifest, so that a tree of a few small files is one object.
 */
#pragma once

#include "base/map.h"
#include "base/sha256.h"
#include "blob/manifest.h"
#include "blob/node.h"
#include "blob/object.h"
#include "blob/pack.h"

#define TREE_MANIFEST_KIND "tree"

/* Both are borrowed. */
struct tree_plan {
    const struct object_backend *backend;
    const struct seal_keys *keys;
};

struct tree_object {
    char digest[SHA256_HEX];
    uint64_t size;
};

/* What was written. The objects are the writer's. */
struct tree_facts {
    char manifest[SHA256_HEX];
    char tree_digest[SHA256_HEX], root_digest[SHA256_HEX]; /* BLAKE2b-256 */
    uint64_t n_entries, n_bytes;                           /* n_bytes: of all files */
    const struct tree_object *objects;                     /* the manifest is one of them */
    size_t n_objects;
};

struct tree_writer;

struct tree_writer *tree_writer_create(const struct tree_plan *plan);
void tree_writer_destroy(struct tree_writer *writer); /* accepts NULL */

/* As tree_on_entry and tree_on_bytes, to be given to a decoder with the writer as arg. */
bool tree_writer_entry(void *writer, const struct tree_entry *entry, struct error *err) MUST_USE;
bool tree_writer_bytes(void *writer, struct str bytes, bool is_last, struct error *err) MUST_USE;

bool tree_writer_end(struct tree_writer *writer, struct tree_facts *facts,
                     struct error *err) MUST_USE;
