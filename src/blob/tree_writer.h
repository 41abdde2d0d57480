/* Writes a tree of files into the store: contents and directories as chunks in packs, and one
 * manifest that says where the root is.
 *
 * Entries come in the order of protocol/tree.h, whose decoder has checked them. What is small
 * stays in the manifest, so that a tree of a few small files is one object. Entries that are the
 * same as in the base (is_same) are taken from there, directories with all that is in them.
 */
#pragma once

#include "blob/tree_store.h"

struct tree_writer;

struct tree_writer *tree_writer_create(const struct tree_plan *plan);
void tree_writer_destroy(struct tree_writer *writer); /* accepts NULL */

/* As tree_on_entry and tree_on_bytes, to be given to a decoder with the writer as arg. */
bool tree_writer_entry(void *writer, const struct tree_entry *entry, struct error *err) MUST_USE;
bool tree_writer_bytes(void *writer, struct str bytes, bool is_last, struct error *err) MUST_USE;

bool tree_writer_end(struct tree_writer *writer, struct tree_facts *facts,
                     struct error *err) MUST_USE;
