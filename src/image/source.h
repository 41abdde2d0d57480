/* What a copy step takes from the project: found under its rules, hashed, opened.
 *
 * Symbolic links are refused and special files too; names that never enter an image are left out.
 */
#pragma once

#include "image/plan.h"

struct source_entry {
    const char *path; /* below the copied folder; "" for a copied file itself */
    bool is_folder, is_executable;
    int64_t size;
};

struct source {
    int project; /* the project's folder, borrowed */
    const char *base;
    struct source_entry *entries; /* folders before what is in them, names in byte order */
    size_t n, room;
};

void source_finish(struct source *source);

/* `project` is the open root of the unpacked project. Paths live in the arena. */
bool source_collect(int project, const struct step *step, struct arena *arena,
                    struct source *source, struct error *err) MUST_USE;

bool source_open(const struct source *source, const struct source_entry *entry, int *fd,
                 struct error *err) MUST_USE;

/* Over every path, type, executable bit and content. */
enum { SOURCE_HASH_TEXT = 65 };
bool source_hash(const struct source *source, char hash[SOURCE_HASH_TEXT],
                 struct error *err) MUST_USE;
